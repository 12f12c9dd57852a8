"""The dense leg against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stillroom.dense import EXACT_LIMIT, best_by_entry, hamming, nearest_vectors, sign_bits


def unit(vectors: np.ndarray) -> np.ndarray:
    made = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return made.astype(np.float32)


def clustered(n: int, dims: int, seed: int = 0) -> np.ndarray:
    """Vectors around 60 centres with a common direction, as sentence encoders make them."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(60, dims)) + 0.3
    return unit(centres[random.integers(0, 60, n)] + 0.8 * random.normal(size=(n, dims)))


def brute(vectors, query, count, allowed=None):
    scores = (vectors.astype(np.float64) @ query).astype(np.float32)
    rows = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    return rows[np.lexsort((rows, -scores[rows]))][:count], scores


@pytest.fixture(scope="module")
def big():
    vectors = clustered(30_000, 384)
    return vectors, sign_bits(vectors)


def test_the_scan_finds_nearly_all_that_is_nearest(big):
    vectors, bits = big
    random = np.random.default_rng(1)
    recall = []
    for row in random.integers(0, len(vectors), 40):
        query = unit(vectors[row] + 0.04 * random.normal(size=384))
        rows, scores = nearest_vectors(vectors, bits, query, 1000)
        assert len(rows) == len(set(rows.tolist())) == 1000
        assert (np.diff(scores) <= 0).all()
        np.testing.assert_allclose(scores, vectors[rows] @ query, atol=1e-5)
        expected, _ = brute(vectors, query, 10)
        recall.append(len(set(expected) & set(rows[:10].tolist())) / 10)
    assert np.mean(recall) >= 0.99


def test_a_mask_is_kept_by_the_scan_and_by_the_exact_way(big):
    vectors, bits = big
    query = vectors[77]
    random = np.random.default_rng(2)
    for share in (0.9, 0.01):
        allowed = random.random(len(vectors)) < share
        rows, _ = nearest_vectors(vectors, bits, query, 500, allowed)
        assert allowed[rows].all()
        expected, _ = brute(vectors, query, 5, allowed)
        assert set(expected) <= set(rows.tolist())


def test_a_mask_that_leaves_few_is_exact(big):
    vectors, bits = big
    allowed = np.zeros(len(vectors), bool)
    allowed[::10] = True
    query = clustered(1, 384, 5)[0]
    rows, scores = nearest_vectors(vectors, bits, query, 50, allowed)
    assert allowed[rows].all()
    expected, all_scores = brute(vectors, query, 50, allowed)
    np.testing.assert_allclose(scores, all_scores[expected], atol=1e-6)
    assert allowed.sum() <= EXACT_LIMIT


def test_a_mask_that_leaves_nothing_gives_nothing(big):
    vectors, bits = big
    rows, scores = nearest_vectors(vectors, bits, vectors[0], 10, np.zeros(len(vectors), bool))
    assert len(rows) == len(scores) == 0
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)


def test_an_empty_base_gives_nothing():
    rows, scores = nearest_vectors(
        np.empty((0, 8), np.float32), np.empty((1, 0), np.uint64), np.ones(8, np.float32), 10
    )
    assert len(rows) == len(scores) == 0


@pytest.mark.parametrize("dims", [1, 7, 8, 63, 64, 65, 100, 384])
@pytest.mark.parametrize("count", [1, 3, 200, 500])
def test_up_to_the_limit_the_result_is_exact(dims, count):
    vectors = unit(np.random.default_rng(dims).normal(size=(200, dims)))
    query = unit(np.random.default_rng(9).normal(size=dims))
    rows, scores = nearest_vectors(vectors, sign_bits(vectors), query, count)
    expected, all_scores = brute(vectors, query, count)
    assert rows.tolist() == expected.tolist()
    np.testing.assert_allclose(scores, all_scores[expected], atol=1e-6)


@pytest.mark.parametrize("n", [50, EXACT_LIMIT + 500])
def test_ties_go_to_the_lowest_rows(n):
    vectors = np.zeros((n, 4), np.float32)
    vectors[:, 0] = 1
    vectors[n // 2] = (0, 1, 0, 0)
    query = np.array([1, 0, 0, 0], np.float32)
    rows, _ = nearest_vectors(vectors, sign_bits(vectors), query, 20)
    assert rows.tolist() == list(range(20))


@pytest.mark.parametrize("dims", [1, 63, 64, 65, 130])
def test_hamming_counts_differing_signs(dims):
    vectors = np.random.default_rng(dims).normal(size=(40, dims)).astype(np.float32)
    bits = sign_bits(vectors)
    assert bits.shape == (-(-dims // 64), 40)
    assert bits.flags.c_contiguous
    expected = ((vectors > 0) != (vectors[3] > 0)).sum(axis=1)
    assert hamming(bits, bits[:, 3]).tolist() == expected.tolist()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=15))
def test_an_entry_counts_once_with_its_best_vector(pairs):
    pairs = sorted(pairs)
    key_entry = np.array([entry for entry, _ in pairs], np.int32)
    scores = np.array([score for _, score in pairs], np.float32)
    order = np.lexsort((np.arange(len(pairs)), -scores))
    entries, best, rows = best_by_entry(key_entry, order, scores[order])
    expected = {e: max(s for f, s in pairs if f == e) for e, _ in pairs}
    assert dict(zip(entries.tolist(), best.tolist(), strict=True)) == expected
    assert (np.diff(best) <= 0).all()
    assert key_entry[rows].tolist() == entries.tolist()
    assert scores[rows].tolist() == best.tolist()
