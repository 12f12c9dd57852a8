"""Principal axes: exact whatever the bundling, numpy's own, and settled where vectors leave them open."""

import itertools
import random

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from stillroom.elastic import rotate
from stillroom.transforms import pca
from stillroom.transforms.pca import PcaFn, axes_of, basis_of, mixing, moments_of

DIMS = 24


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def stretched(n: int, dims: int = DIMS, seed: int = 0) -> np.ndarray:
    """Unit vectors around a common direction, each dimension with a variance of its own."""
    made = np.random.default_rng(seed).normal(size=(n, dims)) * np.geomspace(3, 0.1, dims) + 0.2
    return unit(made)


VECTORS = stretched(400)


def same(one, other):
    np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_array_equal(one.variances, other.variances)


@given(st.lists(st.integers(0, 400), max_size=12), st.randoms(use_true_random=False))
def test_the_axes_are_the_same_whatever_the_bundling(cuts, chance: random.Random):
    """Any split, in any order, merged in any tree: the same bits."""
    fit = PcaFn()
    bounds = [0, *sorted(cuts), 400]
    blocks = [VECTORS[a:b] for a, b in itertools.pairwise(bounds)]
    chance.shuffle(blocks)
    states = [fit.create_accumulator()]
    for block in blocks:
        if chance.random() < 0.5:
            states.append(fit.create_accumulator())
        at = chance.randrange(len(states))
        states[at] = fit.add_input(states[at], block)
    while len(states) > 1:
        chance.shuffle(states)
        some = chance.randint(2, len(states))
        states = [fit.merge_accumulators(states[:some]), *states[some:]]
    same(fit.extract_output(states[0]), axes_of(moments_of(VECTORS)))


def test_float_sums_would_not_be():
    """What the integers are for: the same vectors, added as they are, differ by their order."""
    made = {
        np.cov(VECTORS[np.random.default_rng(n).permutation(400)].T).tobytes() for n in range(20)
    }
    assert len(made) > 1


def test_a_block_beyond_the_limit_is_the_sum_of_its_parts(monkeypatch):
    whole = moments_of(VECTORS)
    monkeypatch.setattr(pca, "BLOCK", 7)
    small = moments_of(VECTORS)
    assert small.count == whole.count == 400
    np.testing.assert_array_equal(small.outer, whole.outer)
    assert small.outer.dtype == np.int64


def test_the_axes_are_those_of_the_centred_covariance():
    fitted = axes_of(moments_of(VECTORS))
    axes = fitted.columns
    values, columns = np.linalg.eigh(np.cov(VECTORS.astype(np.float64).T, bias=True))
    expected = columns[:, ::-1]
    np.testing.assert_allclose(fitted.variances, values[::-1], atol=1e-4)
    agreement = np.abs((axes.astype(np.float64) * expected).sum(axis=0))
    np.testing.assert_allclose(agreement[:12], 1, atol=1e-4)
    variance = (VECTORS @ axes).var(axis=0)
    assert (np.diff(variance) < 1e-6).all()
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(DIMS)]
    assert (largest > 0).all()
    np.testing.assert_allclose(axes.T @ axes, np.eye(DIMS), atol=2e-4)


def test_the_axes_do_not_follow_the_mean():
    """A common direction of all vectors is no variance: uncentred, it would be the first axis."""
    common = np.zeros(DIMS)
    common[5] = 10
    vectors = unit(np.random.default_rng(0).normal(size=(500, DIMS)) + common)
    assert abs(axes_of(moments_of(vectors)).columns[5, 0]) < 0.2


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_few_vectors_give_whole_axes(count):
    axes = axes_of(moments_of(VECTORS[:count])).columns
    np.testing.assert_allclose(axes.T @ axes, np.eye(DIMS), atol=2e-4)


def test_few_vectors_leave_nothing_to_the_eigensolver():
    """Without the ridge, threads and machines would disagree on axes that no vector speaks about."""
    limits = pytest.importorskip("threadpoolctl").threadpool_limits
    some = moments_of(stretched(20, 384))
    made = []
    for threads in (1, 2):
        with limits(threads):
            made.append(axes_of(some).columns)
    np.testing.assert_array_equal(*made)


def test_a_dead_dimension_is_in_no_leading_axis():
    vectors = VECTORS.copy()
    vectors[:, 3] = 0
    axes = axes_of(moments_of(vectors)).columns
    assert np.abs(axes[3, :-1]).max() < 1e-4
    assert np.isfinite(axes).all()


@pytest.mark.parametrize("dims", [32, 128, 256])
def test_mixing_keeps_products_and_evens_variances(dims):
    made = mixing(dims)
    np.testing.assert_allclose(made @ made.T, np.eye(dims), atol=1e-12)
    spread = np.geomspace(1, 1e-3, dims)
    variances = spread @ made**2
    assert variances.max() < 3 * variances.min()


def test_without_whitening_a_basis_keeps_the_products_of_the_prefix(monkeypatch):
    monkeypatch.setattr(pca, "WHITEN", 0.0)
    axes = axes_of(moments_of(VECTORS))
    basis = basis_of(axes, 16)
    assert (basis.shape, basis.dtype) == ((DIMS, 16), np.float32)
    mixed, plain = rotate(VECTORS, basis), VECTORS @ axes.columns[:, :16]
    np.testing.assert_allclose(mixed @ mixed[0], plain @ plain[0], atol=2e-4)
    assert np.ptp(mixed.var(axis=0)) < np.ptp(plain.var(axis=0)) / 3


def test_whitening_weighs_axes_by_their_variance_and_keeps_the_scale():
    axes = axes_of(moments_of(VECTORS))
    basis = basis_of(axes, 16).astype(np.float64)
    along = axes.columns[:, :16].astype(np.float64)
    weights = np.diag(along.T @ basis @ basis.T @ along)
    power = (axes.variances[:16] / axes.variances[0]) ** -pca.WHITEN
    np.testing.assert_allclose(weights / weights[0], power, rtol=5e-3)
    assert weights @ axes.variances[:16] == pytest.approx(axes.variances[:16].sum(), rel=1e-3)


def test_equal_vectors_have_a_basis_too():
    same_ones = np.tile(VECTORS[:1], (9, 1))
    assert np.isfinite(basis_of(axes_of(moments_of(same_ones)), 8)).all()


def test_the_combiner_in_a_pipeline():
    options = PipelineOptions(["--runner=FnApiRunner"])
    blocks = [VECTORS[start : start + 50] for start in range(0, 400, 50)]

    def is_equal(found):
        (made,) = found
        same(made, axes_of(moments_of(VECTORS)))

    with beam.Pipeline(options=options) as pipeline:
        made = pipeline | beam.Create(blocks) | beam.CombineGlobally(PcaFn())
        assert_that(made, is_equal)


def test_no_vectors_have_no_axes():
    assert PcaFn().extract_output(PcaFn().create_accumulator()) is None
