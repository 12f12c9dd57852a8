"""Surprise boundaries: where something new comes, moved to where turns part best."""

import numpy as np
import pytest

from stillroom.errors import BadInput
from stillroom.transforms.surprise import (
    SurpriseSegmenter,
    boundaries,
    refined,
    token_surprise,
    vector_surprise,
)
from stillroom.transforms.turns import Said
from tests.small_models import make_causal
from tests.test_topical import BREAD, WHALES, said


def blocks(*sizes, dims=8, seed=0):
    random = np.random.default_rng(seed)
    rows = []
    for axis, size in enumerate(sizes):
        made = random.normal(0, 0.15, (size, dims))
        made[:, axis] += 1
        rows.append(made)
    vectors = np.concatenate(rows)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_what_is_new_is_a_surprise():
    vectors = blocks(8, 8)
    surprise = vector_surprise(vectors)
    assert int(np.argmax(surprise)) == 8
    assert boundaries(surprise)[0] == 8


@pytest.mark.parametrize("measure", ["modularity", "conductance"])
def test_a_late_boundary_moves_back_to_the_change(measure):
    vectors = blocks(8, 8)
    assert refined([9], vectors, measure) == [8]
    assert refined([8], vectors, measure) == [8]


def test_every_turn_is_in_a_run(minilm):
    runs = SurpriseSegmenter(minilm.spec).runs(said(WHALES + BREAD))
    assert [i for a, b in runs for i in range(a, b)] == list(range(8))
    assert SurpriseSegmenter(minilm.spec).runs(said(WHALES[:1])) == [(0, 1)]


def test_a_causal_model_is_surprised_by_its_own_measure(minilm, tmp_path):
    folder = make_causal(tmp_path, 0)
    segmenter = SurpriseSegmenter(minilm.spec, folder)
    turns = [Said(" ".join("abcabcabc"), "", "person") for _ in range(6)]
    made = token_surprise(turns, *segmenter._language_model)
    assert made.shape == (6,)
    assert (made[1:] > 0).all()
    runs = segmenter.runs(turns)
    assert [i for a, b in runs for i in range(a, b)] == list(range(6))


def test_a_model_that_is_not_there(minilm):
    with pytest.raises(BadInput, match="cannot be loaded|no folder is there"):
        SurpriseSegmenter(minilm.spec, "/no/such/model").runs(said(WHALES))
    with pytest.raises(ValueError, match="modularity, conductance, not 'x'"):
        SurpriseSegmenter(minilm.spec, refinement="x")
