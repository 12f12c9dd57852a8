"""Fusion: scales from 0 to 1, weights that sum, no hit outranked for a missing side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.fusion import fuse, make_scale

SCORES = st.lists(st.floats(0.125, 100, width=32), min_size=1, max_size=8)


@given(SCORES, SCORES)
def test_scores_lie_between_0_and_1_and_keep_their_order(lexical, dense):
    scale = make_scale([np.array(lexical, np.float32)], [np.array(dense, np.float32)])
    for name, values in (("lexical", lexical), ("dense", dense)):
        made = getattr(scale, name)(np.array(values, np.float32))
        assert ((made >= 0) & (made <= 1)).all()
        assert made[int(np.argmax(values))] == 1
        order = np.argsort(values)
        assert (np.diff(made[order]) >= 0).all()


def test_a_missing_side_is_zero():
    scale = make_scale([np.array([2.0, 4.0])], [np.array([-0.5, 0.5])])
    assert scale.lexical(np.array([4.0, 2.0, np.nan])).tolist() == [1, 0.5, 0]
    assert scale.dense(np.array([0.5, 0.0, -0.5, np.nan])).tolist() == [1, 0.5, 0, 0]


def test_a_cosine_below_the_list_is_not_negative():
    scale = make_scale([np.empty(0)], [np.array([0.25, 0.75])])
    assert scale.dense(np.array([-1.0, 2.0])).tolist() == [0, 1]


def test_one_candidate_alone_is_1_and_none_is_no_error():
    assert make_scale([], [np.array([-0.25])]).dense(np.array([-0.25])).tolist() == [1]
    empty = make_scale([np.empty(0)], [np.empty(0)])
    assert empty.lexical(np.array([np.nan])).tolist() == [0]
    assert len(empty.dense(np.empty(0))) == 0


def test_several_bases_share_one_scale():
    good, poor = np.array([10.0, 5.0]), np.array([1.0])
    scale = make_scale([good, poor], [np.array([0.9]), np.array([0.1])])
    assert scale.lexical(poor).tolist() == pytest.approx([0.1])
    assert scale.dense(np.array([0.9, 0.1])).tolist() == [1, 0]


@given(st.floats(0, 1), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1))
def test_fused_scores_lie_between_their_parts(weight, pairs):
    lexical, dense = (np.array(side) for side in zip(*pairs, strict=True))
    made = fuse(lexical, dense, weight)
    slack = 1e-12
    assert (made >= np.minimum(lexical, dense) - slack).all()
    assert (made <= np.maximum(lexical, dense) + slack).all()


def test_the_weight_is_the_dense_share():
    lexical, dense = np.array([1.0]), np.array([0.0])
    assert fuse(lexical, dense, 0.25).tolist() == [0.75]
    assert fuse(dense, lexical, 0.25).tolist() == [0.25]
