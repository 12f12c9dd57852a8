"""Elastic vectors: a prefix of rotated dimensions, stored in fewer bytes, searched all the same way.

The dense leg of a build has one of these forms, by `SearchPlan.dims` and `dtype`:

    f32    float32 rows; above `dense.EXACT_LIMIT` of them, their sign bits propose
    int8   one byte a dimension, a scale for each dimension; every product is computed
    bit    the sign bits propose, the int8 rows give the scores

With fewer dimensions than the encoder has, vectors and queries are rotated by the build's basis first
(ESE, arXiv:2402.14776, without its training: principal axes, `transforms/pca.py`). Neither is centred
or made unit length again, which would rank worse.
"""

from collections.abc import Callable

import numpy as np

from stillroom.dense import best_of, nearest_vectors, products

# Factors that make integers of vectors and of a basis: sums of their products stay below 2**53, so
# that float64 adds them exactly, in whatever order a BLAS takes them and with however many threads.
VECTOR_GRID = 2.0**22
BASIS_GRID = 2.0**16
LEVELS = 127  # of an int8 row on each side of zero


def rotate(vectors: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """float32 [n, kept] of float32 [n, dims] and a basis [dims, kept] on BASIS_GRID. The result is the
    same to the bit on every machine, and for a row alone or among others."""
    whole = np.rint(vectors.astype(np.float64) * VECTOR_GRID)
    axes = np.rint(basis.astype(np.float64) * BASIS_GRID)
    made: np.ndarray = (whole @ axes / (VECTOR_GRID * BASIS_GRID)).astype(np.float32)
    return made


def scale_of(peak: np.ndarray) -> np.ndarray:
    """float32 [kept]: what one level of int8 is worth, from each dimension's largest magnitude."""
    made: np.ndarray = (peak / LEVELS).astype(np.float32)
    return made


def quantise(vectors: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """int8 [n, kept] of float32 rows. A dimension that is zero throughout (MiniLM has one in fp16) has
    scale 0 and stays 0."""
    safe = np.where(scale > 0, scale, 1)
    return np.clip(np.rint(vectors / safe), -LEVELS, LEVELS).astype(np.int8)


def bytes_per_vector(dims: int, dtype: str) -> int:
    """Bytes that serve one vector, with whatever rescoring reads; the basis and scales of the whole
    base (at most 4 * dims * (encoder's dims + 1)) are not in it."""
    bits = -(-dims // 64) * 8
    return {"f32": 4 * dims + bits, "int8": dims, "bit": dims + bits}[dtype]


class Dense:
    """The stored vectors of one build; callers give and get what the encoder gave, whatever is stored.

    `vectors` float32 or int8 [n, kept]; `bits` uint64 [words, n] or None where every product is
    computed; `basis` float32 [dims, kept] or None where nothing is rotated; `scale` float32 [kept]
    with int8. `propose`, where there is an index, names rows worth comparing; a mask leaves it out,
    since it would propose what the mask forbids. A query is a unit float32 [dims].
    """

    def __init__(
        self,
        vectors: np.ndarray,
        bits: np.ndarray | None = None,
        basis: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        propose: Callable[[np.ndarray, int], np.ndarray] | None = None,
    ) -> None:
        self._vectors, self._bits, self._basis, self._scale = vectors, bits, basis, scale
        self._propose = propose

    def __len__(self) -> int:
        return len(self._vectors)

    def nearest(
        self, query: np.ndarray, count: int, allowed: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`dense.nearest_vectors` over what is stored, or the best of what the index proposes."""
        if self._propose is not None and allowed is None:
            rows = self._propose(query, count)
            return best_of(rows, self.scores(rows, query), count)
        return nearest_vectors(self._vectors, self._bits, self._factors(query), count, allowed)

    def exact(self, query: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The same from every product of what is stored: what proposals are measured against."""
        return nearest_vectors(self._vectors, None, self._factors(query), count)

    def scores(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """float32 [rows]: the scores of these vectors, as `nearest` gives them."""
        return products(self._vectors[rows], self._factors(query))

    def alike(self, rows: np.ndarray) -> np.ndarray:
        """float32 [rows, rows]: cosines of stored vectors with each other."""
        some = self._vectors[rows].astype(np.float32)
        some = some if self._scale is None else some * self._scale
        norms = np.linalg.norm(some, axis=1, keepdims=True)
        some = some / np.where(norms > 0, norms, 1)
        made: np.ndarray = some @ some.T
        return made

    def similarity(self, vector: np.ndarray, query: np.ndarray) -> float:
        """The score that `vector` (float32 [dims]) would have if it were stored."""
        if self._basis is not None:
            vector = rotate(vector[None], self._basis)[0]
        if self._scale is not None:
            vector = quantise(vector[None], self._scale)[0].astype(np.float32)
        return float(vector @ self._factors(query))

    def _factors(self, query: np.ndarray) -> np.ndarray:
        """float32 [kept]: what stored rows are multiplied by. Scales are not negative: signs stay."""
        if self._basis is not None:
            query = rotate(query[None], self._basis)[0]
        return query if self._scale is None else query * self._scale
