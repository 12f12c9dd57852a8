"""Near-duplicate links over all entries: a star of equal values, and the near ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.entries import Link, LinkKind
from stillroom.schemas.ids import digest
from stillroom.transforms.links import buckets, near_duplicate_links
from stillroom.transforms.near_duplicates import PERMUTATIONS, signature
from tests.conftest import COPY, NEAR

IDS = sorted(digest("id", n) for n in range(6))
WHALES = "Whales sing at low frequencies that travel for hundreds of kilometres under water."


def linked(texts: list[str], threshold: float) -> list[Link]:
    raw = b"".join(signature(text) or b"" for text in texts)
    signatures = np.frombuffer(raw, np.uint32).reshape(-1, PERMUTATIONS)
    digests = [digest("value", text) for text in texts]
    return near_duplicate_links(IDS[: len(texts)], digests, signatures, threshold)


def test_equal_and_near_values_are_linked_once():
    links = linked([COPY, WHALES, COPY, NEAR, COPY], 0.8)
    assert [(link.source_id, link.target_id) for link in links if link.weight == 1.0] == [
        (IDS[2], IDS[0]),
        (IDS[4], IDS[0]),
    ]
    (near,) = [link for link in links if link.weight < 1.0]
    assert (near.source_id, near.target_id) == (IDS[3], IDS[0])
    assert near.weight >= 0.8
    assert all(link.kind is LinkKind.NEAR_DUPLICATE for link in links)


def test_different_values_have_no_link():
    other = "A mirror of eight metres gathers enough light to see faint galaxies in winter skies."
    assert linked([WHALES, other], 0.8) == []
    assert linked([], 0.8) == []


@given(st.lists(st.integers(0, 3), min_size=2, max_size=12))
def test_buckets_are_the_rows_that_agree_in_a_band(kinds):
    base = np.random.default_rng(0).integers(0, 2**32, (4, PERMUTATIONS), dtype=np.uint32)
    groups = list(buckets(base[kinds], np.arange(len(kinds)), 0.85))
    expected = {k: [n for n, kind in enumerate(kinds) if kind == k] for k in set(kinds)}
    assert sorted(groups) == sorted(rows for rows in expected.values() if len(rows) > 1)
