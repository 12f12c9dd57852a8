"""Centroids of vectors: k-means on unit vectors (spherical), the same to the bit for the same sample.

Every product and sum is of whole numbers that float64 holds exactly (`elastic.rotate`), so that neither
the number of threads nor the order of sums moves a vector from one centroid to another.
"""

import numpy as np

from stillroom.elastic import BASIS_GRID, VECTOR_GRID

ROUNDS = 8
BATCH = 8192


def centroids_of(sample: np.ndarray, count: int) -> np.ndarray:
    """float32 [count, dims], unit rows, of float32 unit rows [n, dims] in an order that says nothing of
    them: the first `count` are where the centroids begin. One that loses its vectors stays in place."""
    whole = np.rint(sample.astype(np.float64) * VECTOR_GRID)
    made = _unit(whole[:count])
    for _ in range(ROUNDS):
        nearest = _nearest(whole, made)
        order = np.argsort(nearest, kind="stable")
        owners, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(whole[order], starts)
        before = made.copy()
        made[owners] = _unit(sums)
        if np.array_equal(before, made):
            break
    return made.astype(np.float32)


def _nearest(whole: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """int64 [n]: the centroid with the largest product, the first of equals."""
    axes = np.rint(centroids * BASIS_GRID).T
    parts = [
        np.argmax(whole[start : start + BATCH] @ axes, axis=1)
        for start in range(0, len(whole), BATCH)
    ]
    return np.concatenate(parts)


def _unit(rows: np.ndarray) -> np.ndarray:
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    made: np.ndarray = rows / np.where(norms > 0, norms, 1)
    return made
