"""The dense leg: nearest vectors by cosine, exact for small bases, by sign bits above.

A scan compares the sign bits of all vectors with the query's (Hamming distance, 64 dimensions a
word) and multiplies only the best few exactly. Bits are stored by column, so that each word of the
query is compared with one contiguous run. (BEIR-scale recall of this scan: `make bench`.)
"""

import numpy as np

EXACT_LIMIT = 4_000  # vectors up to which all products are cheaper than the scan's two passes
BLOCK = 4096  # int8 rows that are multiplied at a time: as float32 they stay in the cache


def sign_bits(vectors: np.ndarray) -> np.ndarray:
    """uint64 [words, n] of float32 [n, dims]: bit set where positive; spare bits are zero."""
    n, dims = vectors.shape
    words = -(-dims // 64)
    packed = np.zeros((n, words * 8), np.uint8)
    packed[:, : -(-dims // 8)] = np.packbits(vectors > 0, axis=1)
    return np.ascontiguousarray(packed.view(np.uint64).reshape(n, words).T)


def nearest_vectors(
    vectors: np.ndarray,
    bits: np.ndarray | None,
    query: np.ndarray,
    count: int,
    allowed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (int64) and products with `query` (float32) of up to `count` vectors, best first, ties by
    row.

    `query` is float32 [dims]; `allowed` a bool [n] mask. Without `bits`, and up to EXACT_LIMIT
    candidates, the result is exact; above, `count` is how many the sign bits may propose.
    """
    rows = None if allowed is None else np.flatnonzero(allowed)
    total = len(vectors) if rows is None else len(rows)
    if total == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if bits is not None and total > max(EXACT_LIMIT, count):
        distance = hamming(bits, sign_bits(query[None, :])[:, 0])
        if rows is not None:
            distance = distance[rows]
        # Ties at the cut go to the lowest rows: argpartition alone would leave them to chance.
        cut = np.partition(distance, count - 1)[count - 1]
        inside = np.flatnonzero(distance < cut)
        edge = np.flatnonzero(distance == cut)[: count - len(inside)]
        chosen = np.sort(np.concatenate((inside, edge)))
        rows = chosen if rows is None else rows[chosen]
    scores = products(vectors if rows is None else vectors[rows], query)
    return best_of(rows, scores, count)


def best_of(
    rows: np.ndarray | None, scores: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` best of these rows (None: all), best first, ties by row."""
    keep = _top(scores, count)
    return (keep if rows is None else rows[keep]).astype(np.int64), scores[keep].astype(np.float32)


def products(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """float32 [n]: float32 or int8 [n, dims] times float32 [dims]."""
    if vectors.dtype != np.int8:
        # A BLAS would spin on every core for what one does in a tenth of a millisecond: on a machine
        # with other work that costs ten times as much.
        few = len(vectors) <= EXACT_LIMIT
        made: np.ndarray = np.einsum("ij,j->i", vectors, query) if few else vectors @ query
        return made
    made = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), BLOCK):
        made[start : start + BLOCK] = vectors[start : start + BLOCK].astype(np.float32) @ query
    return made


def hamming(bits: np.ndarray, query: np.ndarray) -> np.ndarray:
    """uint16 [n]: differing bits between each column of `bits` and the words of `query`."""
    distance = np.zeros(bits.shape[1], np.uint16)
    scratch = np.empty(bits.shape[1], np.uint64)
    for row, word in zip(bits, query, strict=True):
        np.bitwise_xor(row, word, out=scratch)
        distance += np.bitwise_count(scratch)
    return distance


def best_by_entry(
    key_entry: np.ndarray, rows: np.ndarray, scores: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entry rows, scores and vector rows, each entry once with its best vector, best first."""
    entries = key_entry[rows]
    _, first = np.unique(entries, return_index=True)  # rows come best first
    first.sort()
    return entries[first], scores[first], rows[first]


def _top(scores: np.ndarray, count: int) -> np.ndarray:
    """Positions of the `count` highest scores, best first, equal scores by position."""
    if len(scores) > count:
        cut = -np.partition(-scores, count - 1)[count - 1]
        inside = np.flatnonzero(scores > cut)
        edge = np.flatnonzero(scores == cut)[: count - len(inside)]
        chosen = np.concatenate((inside, edge))
    else:
        chosen = np.arange(len(scores))
    return chosen[np.lexsort((chosen, -scores[chosen]))]
