"""Writing the lexical index: one immutable tantivy segment, rows in the order of entry ids.

It is written whole and never changed, by one thread, so that document numbers, frequencies and the
order of equal scores are the same in every build of the same entries.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tantivy

from stillroom.schemas.arrow import facets_from_json, microseconds
from stillroom.schemas.documents import FacetValue
from stillroom.schemas.ids import canonical_json
from stillroom.schemas.lexical import ENDS_AT, FACET, KIND, ROW, STARTS_AT, lexical_schema

HEAP_BYTES = 512_000_000  # one segment up to about 10^6 short entries; merged below if more


class LexicalWriter:
    """Adds entries in row order to a tantivy index in `folder`, then leaves one segment."""

    def __init__(self, folder: Path, fields: Iterable[str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._index = tantivy.Index(lexical_schema(fields), path=str(folder))
        self._writer = self._index.writer(HEAP_BYTES, 1)

    def add(self, row: int, entry: Mapping[str, Any]) -> None:
        """One row of ENTRIES (`terms`, `facets`, `kind`, `starts_at`, `ends_at`)."""
        document = tantivy.Document()
        for item in entry["terms"]:
            document.add_text(item["field"], item["terms"])
        for term in facet_terms(entry["facets"], entry["kind"], entry["source"]):
            document.add_text(FACET, "=".join(term))
        document.add_text(KIND, entry["kind"])
        document.add_unsigned(ROW, row)
        starts, ends = entry["starts_at"], entry["ends_at"] or entry["starts_at"]
        if starts is not None:
            document.add_integer(STARTS_AT, microseconds(starts))
            document.add_integer(ENDS_AT, microseconds(ends))
        self._writer.add_document(document)

    def close(self) -> None:
        """Commit, wait for merges and drop lock files."""
        self._writer.commit()
        self._writer.wait_merging_threads()
        for lock in self._folder.glob("*.lock"):
            lock.unlink()
        for lock in self._folder.glob(".*.lock"):
            lock.unlink()


def facet_terms(facets: str, kind: str, source: str) -> list[tuple[str, str]]:
    """(name, canonical JSON of one value) of an entry: its facets, and `kind` and `source` unless the
    entry has facets of these names."""
    values: dict[str, FacetValue] = {"kind": kind, "source": source, **facets_from_json(facets)}
    made: list[tuple[str, str]] = []
    for name, value in values.items():
        several = value if isinstance(value, tuple) else (value,)
        made.extend((name, canonical_json(one)) for one in several)
    return made
