"""Centroids: one for each group there is, whatever order or threads."""

import numpy as np

from stillroom.transforms.centroids import centroids_of
from tests.test_dense import clustered


def test_each_group_has_its_centroid():
    axes = np.eye(8, dtype=np.float32)
    chance = np.random.default_rng(0)
    rows = axes[chance.permutation(np.repeat(np.arange(8), 50))]
    rows = rows + 0.05 * chance.standard_normal(rows.shape, np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    starts = [int(np.argmax(rows @ axis)) for axis in axes]
    rest = np.setdiff1d(np.arange(len(rows)), starts)
    found = centroids_of(rows[[*starts, *rest]], 8)
    assert np.allclose(found, axes, atol=0.05)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_order_beyond_the_first_and_threads_change_no_bit():
    rows = clustered(3000, 32)
    later = np.concatenate((rows[:40], rows[:39:-1]))
    assert np.array_equal(centroids_of(rows, 40), centroids_of(later, 40))


def test_fewer_vectors_than_centroids_are_centroids():
    rows = clustered(3, 16)
    assert centroids_of(rows, 5).shape == (3, 16)
