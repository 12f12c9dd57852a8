"""Approximate search in Lance's IVF_RQ index: which vectors of a large base are worth comparing.

The index keeps one bit a dimension (RaBitQ, arXiv:2405.12497) in partitions of the whole vectors. It
only proposes; scores come from the build's mapped vectors, as everywhere.
"""

from typing import Any

import numpy as np


class Proposals:
    """Rows that an index proposes. `table` is a `lancedb` table at the build's version, `addresses`
    uint64 [n] where each vector's row lies in it, `probes` how many partitions are read."""

    def __init__(self, table: Any, addresses: np.ndarray, probes: int) -> None:
        self._table, self._probes = table, probes
        self._order = np.argsort(addresses, kind="stable")
        self._addresses = addresses[self._order]

    def __call__(self, query: np.ndarray, count: int) -> np.ndarray:
        """int64, ascending: up to `count` rows near a unit float32 [dims]."""
        search = self._table.search(query, vector_column_name="vector").distance_type("dot")
        search = search.nprobes(self._probes).with_row_id(True).select(["_rowid"]).limit(count)
        found = search.to_arrow().column("_rowid").to_numpy()
        made: np.ndarray = np.sort(self._order[np.searchsorted(self._addresses, found)])
        return made
