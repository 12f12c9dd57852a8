"""Elastic vectors: exact rotation, int8 that a dead dimension does not break, one interface for all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.dense import EXACT_LIMIT, sign_bits
from stillroom.elastic import Dense, bytes_per_vector, quantise, rotate, scale_of
from stillroom.schemas.plan import DTYPES
from stillroom.transforms.pca import axes_of, basis_of, moments_of
from tests.test_dense import clustered, unit

DIMS, KEPT = 96, 64


@pytest.fixture(scope="module")
def vectors():
    return clustered(EXACT_LIMIT + 3000, DIMS)


@pytest.fixture(scope="module")
def basis(vectors):
    return basis_of(axes_of(moments_of(vectors)), KEPT)


def stored(vectors, dtype, basis=None) -> Dense:
    """The vectors in one form, as `transforms.vectors` writes them."""
    rows = vectors if basis is None else rotate(vectors, basis)
    bits = None if dtype == "int8" else sign_bits(rows)
    if dtype == "f32":
        return Dense(rows, bits, basis)
    scale = scale_of(np.abs(rows).max(axis=0))
    return Dense(quantise(rows, scale), bits, basis, scale)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_a_rotated_row_does_not_depend_on_its_neighbours(seed, n):
    chance = np.random.default_rng(seed)
    some = unit(chance.normal(size=(n, DIMS)))
    basis = basis_of(axes_of(moments_of(some)), 16)
    whole = rotate(some, basis)
    order = chance.permutation(n)
    np.testing.assert_array_equal(rotate(some[order], basis), whole[order])
    for row in range(n):
        np.testing.assert_array_equal(rotate(some[row : row + 1], basis)[0], whole[row])
    np.testing.assert_allclose(whole, some @ basis, atol=1e-5)


def test_int8_rows_are_within_half_a_level(vectors):
    scale = scale_of(np.abs(vectors).max(axis=0))
    made = quantise(vectors, scale)
    assert made.dtype == np.int8
    assert np.abs(made).max() == 127
    assert (np.abs(made * scale - vectors) <= scale * 0.501).all()


def test_a_dead_dimension_stays_zero():
    some = unit(np.random.default_rng(0).normal(size=(50, DIMS)))
    some[:, 7] = 0
    with np.errstate(all="raise"):
        scale = scale_of(np.abs(some).max(axis=0))
        made = quantise(some, scale)
    assert scale[7] == 0
    assert not made[:, 7].any()
    query = np.full(DIMS, 0.1, np.float32)
    rows, scores = stored(some, "int8").nearest(query, 5)
    assert np.isfinite(scores).all()
    assert set(rows[:2]) <= set(np.argsort(-(some @ query))[:3])


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_form_finds_what_is_nearest(vectors, basis, dtype, rotated):
    used = basis if rotated else None
    dense = stored(vectors, dtype, used)
    assert len(dense) == len(vectors)
    axes = np.eye(DIMS, dtype=np.float32) if used is None else used
    chance = np.random.default_rng(1)
    shares = []
    for row in chance.integers(0, len(vectors), 30):
        query = unit(vectors[row] + 0.05 * chance.normal(size=DIMS))
        rows, scores = dense.nearest(query, 1000)
        assert (np.diff(scores) <= 0).all()
        exact = (vectors @ axes) @ (query @ axes)  # the basis holds the weights
        np.testing.assert_allclose(scores, exact[rows], atol=0.02 if dtype != "f32" else 1e-4)
        shares.append(len(set(np.argsort(-exact)[:10]) & set(rows[:10])) / 10)
    assert np.mean(shares) > (0.99 if dtype == "f32" else 0.9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_scores_of_chosen_rows_are_those_of_the_search(vectors, basis, dtype):
    dense = stored(vectors, dtype, basis)
    rows, scores = dense.nearest(vectors[5], 50)
    np.testing.assert_allclose(dense.scores(rows, vectors[5]), scores, atol=1e-6)
    for row, score in zip(rows[:5], scores[:5], strict=True):
        assert dense.similarity(vectors[row], vectors[5]) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_is_kept(vectors, basis, dtype):
    allowed = np.random.default_rng(0).random(len(vectors)) < 0.95
    rows, _ = stored(vectors, dtype, basis).nearest(vectors[5], 200, allowed)
    assert len(rows) == 200
    assert allowed[rows].all()


def test_without_bits_the_search_is_exact(vectors):
    dense = stored(vectors, "int8")
    rows, scores = dense.nearest(vectors[5], 20)
    every = dense.scores(np.arange(len(vectors)), vectors[5])
    np.testing.assert_allclose(scores, np.sort(every)[::-1][:20], atol=1e-6)
    assert rows[0] == 5


def test_an_index_proposes_and_stored_rows_score(vectors, basis):
    whole = stored(vectors, "bit", basis)
    some = np.arange(0, len(vectors), 7)
    asked = []

    def propose(query, count):
        asked.append((query, count))
        return some

    dense = Dense(whole._vectors, whole._bits, basis, whole._scale, propose)
    rows, scores = dense.nearest(vectors[7], 20)
    every = dense.scores(some, vectors[7])
    assert rows[0] == 7
    assert set(rows) <= set(some)
    np.testing.assert_allclose(scores, np.sort(every)[::-1][:20], atol=1e-6)
    assert [count for _, count in asked] == [20]
    np.testing.assert_array_equal(asked[0][0], vectors[7])  # the index has whole vectors
    allowed = np.ones(len(vectors), bool)
    np.testing.assert_array_equal(
        dense.nearest(vectors[7], 20, allowed)[0], whole.nearest(vectors[7], 20, allowed)[0]
    )
    assert len(asked) == 1
    np.testing.assert_allclose(
        dense.exact(vectors[7], 3)[1],
        np.sort(whole.scores(np.arange(len(vectors)), vectors[7]))[::-1][:3],
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("dims", "dtype", "expected"),
    [(384, "f32", 1584), (384, "int8", 384), (384, "bit", 432), (128, "f32", 528),
     (128, "int8", 128), (128, "bit", 144), (96, "bit", 112)],
)  # fmt: skip
def test_bytes_count_what_rescoring_needs(dims, dtype, expected):
    assert bytes_per_vector(dims, dtype) == expected
