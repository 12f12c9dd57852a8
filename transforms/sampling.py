"""Samples by smallest hash: one that changes only where its members come or go, on any machine."""

import heapq
from collections.abc import Sequence

from stillroom.schemas.ids import digest


def smallest(label: str, ids: Sequence[str], count: int) -> list[int]:
    """Positions of the `count` ids with the smallest hash, in the order of the hashes. Samples of other
    labels are independent."""
    return heapq.nsmallest(count, range(len(ids)), key=lambda row: digest(label, ids[row]))
