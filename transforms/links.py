"""Near-duplicate links over all entries of a build (GLOBAL): MinHash bands, sorted instead of shuffled.

Each band is one column of hashes; rows that agree in it stand together once it is sorted. That
takes eight bytes an entry and band in memory, in one worker: about 130 bytes an entry in all
beside the signatures, which stay on disk. Shuffled, the same bands would be sixteen elements an
entry.

Equal values are linked first, in a star around the smallest id, and only that one is banded: a
thousand copies are one member of each band.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from stillroom.schemas.entries import Link, LinkKind
from stillroom.transforms.near_duplicates import (
    band_shape,
    link_group,
    unique_links,
)


def near_duplicate_links(
    ids: Sequence[str], digests: Sequence[str], signatures: np.ndarray, threshold: float
) -> list[Link]:
    """Links between entries whose values are equal or estimated alike by at least `threshold`.

    `ids` are sorted; `digests` are of the values; `signatures` are uint32 [entries, PERMUTATIONS],
    in the same order. Only entries with a signature are given. The result is sorted, each pair
    once.
    """
    links: list[Link] = []
    first_of: dict[str, int] = {}
    for row, digest in enumerate(digests):
        first = first_of.setdefault(digest, row)
        if first != row:
            links.append(Link(ids[row], ids[first], LinkKind.NEAR_DUPLICATE, 1.0))
    rows = np.fromiter(first_of.values(), np.int64, len(first_of))
    for group in buckets(signatures, rows, threshold):
        members = [(ids[row], signatures[row].tobytes()) for row in group]
        links.extend(link_group(members, threshold))
    return unique_links(links)


def buckets(signatures: np.ndarray, rows: np.ndarray, threshold: float) -> Iterator[list[int]]:
    """Groups of at least two of `rows` that agree in a band, each group once."""
    bands, size = band_shape(threshold)
    seen: set[tuple[int, ...]] = set()
    for band in range(bands):
        columns = np.ascontiguousarray(signatures[rows, band * size : (band + 1) * size])
        hashes = _mixed(columns)
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        edges = np.flatnonzero(np.diff(ordered)) + 1
        starts = np.concatenate(([0], edges))
        ends = np.concatenate((edges, [len(ordered)]))
        for at in np.flatnonzero(ends - starts > 1):
            group = tuple(sorted(rows[order[starts[at] : ends[at]]].tolist()))
            if group not in seen:
                seen.add(group)
                yield list(group)


def _mixed(columns: np.ndarray) -> np.ndarray:
    """uint64 [rows]: one hash of each row of uint32 columns (a chance collision is only verified)."""
    state = np.full(len(columns), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns.T:
        state = (state ^ column.astype(np.uint64)) * np.uint64(0xFF51AFD7ED558CCD)
        state ^= state >> np.uint64(32)
    return state
