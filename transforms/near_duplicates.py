"""Near-duplicates: MinHash signatures, bands for locality-sensitive hashing, and links.

Broder (1997): two sets agree in a minimum-wise hash with the probability of their Jaccard similarity.
128 permutations estimate it with a standard error of at most .044. Signatures are rensa's `RMinHash`,
checked against datasketch in the tests. Near-duplicates are linked, never dropped.

A text is compared by shingles of three neighbouring words; where words are not written apart
(Chinese, Japanese, Thai, ...) a character counts as a word.
"""

import re
import unicodedata
from collections.abc import Iterable

import numpy as np
from rensa import RMinHash

from stillroom.schemas.entries import Link, LinkKind

PERMUTATIONS = 128
SEED = 1
SHINGLE = 3
MIN_SHINGLES = 8  # with fewer, one word more or less decides everything: "yes!" is like nothing
MAX_CENTRES = 8

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SURROGATE = re.compile("[\ud800-\udfff]")


def shingles(text: str) -> list[str]:
    """The different shingles of a text, sorted; letter case, accents' encoding and marks are equal."""
    plain = unicodedata.normalize("NFKC", _SURROGATE.sub("\ufffd", text)).casefold()
    words = _WORD.findall(plain)
    return sorted({" ".join(words[i : i + SHINGLE]) for i in range(len(words) - SHINGLE + 1)})


def signature(text: str) -> bytes | None:
    """The MinHash of a text: 128 little-endian uint32, 512 bytes. None for a text too short to say."""
    parts = shingles(text)
    if len(parts) < MIN_SHINGLES:
        return None
    (made,) = RMinHash.digests_from_token_sets([parts], PERMUTATIONS, SEED)
    return np.asarray(made, dtype="<u4").tobytes()


def estimated_jaccard(a: bytes, b: bytes) -> float:
    """The share of permutations in which two signatures agree. ValueError if they are not alike."""
    return float(np.mean(_numbers(a) == _numbers(b)))


def band_shape(threshold: float, permutations: int = PERMUTATIONS) -> tuple[int, int]:
    """How many bands of how many rows find pairs from `threshold` on.

    A pair of similarity s shares a band with probability 1 - (1 - s^r)^b. Of all r with
    b = permutations // r, the largest is taken (fewest false candidates) for which pairs at the
    threshold are found with probability .99: 16 bands of 8 rows at .85.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"a similarity threshold is over 0 and at most 1, not {threshold}")
    for rows in range(permutations, 1, -1):
        bands = permutations // rows
        if 1.0 - (1.0 - threshold**rows) ** bands >= 0.99:
            return bands, rows
    return permutations, 1


def link_group(members: Iterable[tuple[str, bytes]], threshold: float) -> list[Link]:
    """The near-duplicates among the (entry id, signature) members of one bucket.

    A star: each member points at the smallest id that it resembles by at least `threshold`, and the
    estimated similarity is the weight. Members unlike the smallest id are tried against a further
    centre, `MAX_CENTRES` at most, so that the work is linear in the size of the bucket. The result
    is the same in whatever order members come, and however often one comes.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"a similarity threshold is over 0 and at most 1, not {threshold}")
    unique = dict(sorted(members, reverse=True))  # of one id's signatures, the smallest stays
    ids = sorted(unique)
    if len(ids) < 2:
        return []
    matrix = np.stack([_numbers(unique[name]) for name in ids])
    links: list[Link] = []
    for _ in range(MAX_CENTRES):
        if len(ids) < 2:
            break
        similarity = np.mean(matrix[1:] == matrix[0], axis=1)
        alike = similarity >= threshold
        links.extend(
            Link(ids[i + 1], ids[0], LinkKind.NEAR_DUPLICATE, float(similarity[i]))
            for i in np.flatnonzero(alike)
        )
        rest = np.flatnonzero(~alike) + 1
        ids = [ids[i] for i in rest]
        matrix = matrix[rest]
    return links


def unique_links(links: Iterable[Link]) -> list[Link]:
    """Links without repeats, in order: one pair may meet in several bands."""
    best: dict[tuple[str, str, LinkKind], Link] = {}
    for link in links:
        best.setdefault((link.source_id, link.target_id, link.kind), link)
    return [best[name] for name in sorted(best)]


def _numbers(sig: bytes) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    if len(sig) != 4 * PERMUTATIONS:
        raise ValueError(f"a signature has {4 * PERMUTATIONS} bytes, not {len(sig)}")
    return np.frombuffer(sig, dtype="<u4")
