"""Parts: some documents with all that was made of them, in all four tables. What one build carries
over from another, whole where nothing in it changed.

A part is written once, as fragments that a publish then commits. Its description is kept beside the
manifest (`parts.jsonl`), so that the next build can reuse the very files.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

from stillroom.folders import open_folder
from stillroom.schemas.ids import digest
from stillroom.schemas.manifest import TABLES, Manifest
from stillroom.store import build_folder, read_manifest, table_uri
from stillroom.transforms import faults
from stillroom.transforms.coders import noun_from_bytes, noun_to_bytes, register_nouns

PARTS = "parts.jsonl"
CARRIED = "carried/"  # before the name of a parent's part, where a vector's place is meant


@dataclass(frozen=True, slots=True)
class Fragment:
    """Written rows of one table: Lance's own description of the files, as JSON, one or several."""

    table: str
    rows: int
    files: tuple[str, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Names of the files under the table's `data/`."""
        return tuple(json.loads(made)["files"][0]["path"] for made in self.files)


@dataclass(frozen=True, slots=True)
class Part:
    """One part: rows by table, keys that were cut for the encoder, repairs of its documents."""

    name: str
    rows: Mapping[str, int]
    truncated: int
    repairs: Mapping[str, int]
    fragments: tuple[Fragment, ...]

    @property
    def documents(self) -> int:
        return self.rows["documents"]


register_nouns(Fragment, Part)


def write_fragment(kb: str, name: str, table: pa.Table) -> Fragment:
    """Write rows as new files of a Lance table, uncommitted. Empty rows write nothing."""
    from lance.fragment import write_fragments

    if table.num_rows == 0:
        return Fragment(name, 0, ())
    faults.point(f"fragment-{name}")
    made = write_fragments(table, table_uri(kb, name), schema=table.schema, mode="overwrite")
    return Fragment(name, table.num_rows, tuple(json.dumps(one.to_json()) for one in made))


def write_part(kb: str, tables: Mapping[str, pa.Table]) -> Part:
    """Write the four tables of a part. Its name is the digest of the documents in it."""
    columns = ("id", "digest", "metadata_digest")
    named = sorted(zip(*(tables["documents"].column(c).to_pylist() for c in columns), strict=True))
    name = digest("part", *(text for row in named for text in row))
    repairs: Counter[str] = Counter()
    for some in tables["documents"].column("repairs").to_pylist():
        repairs.update(some)
    return Part(
        name,
        {table: tables[table].num_rows for table in TABLES},
        int(pc.sum(tables["entries"].column("truncated")).as_py() or 0),
        dict(sorted(repairs.items())),
        tuple(write_fragment(kb, table, tables[table]) for table in TABLES),
    )


class ParentBuild:
    """The published build that this one began from, read part by part. Cheap to pickle: it holds the
    folder and the build's id, and opens nothing before it is asked. An empty id has no parts."""

    def __init__(self, kb: str, build: str) -> None:
        self._kb, self._build = kb, build

    def __getstate__(self) -> tuple[str, str]:
        return self._kb, self._build

    def __setstate__(self, state: tuple[str, str]) -> None:
        self._kb, self._build = state

    @cached_property
    def manifest(self) -> Manifest:
        return read_manifest(self._kb, self._build)

    @cached_property
    def parts(self) -> dict[str, Part]:
        """Parts by name."""
        if not self._build:
            return {}
        raw = open_folder(self._kb).read(f"{build_folder(self._build)}/{PARTS}")
        parts = (noun_from_bytes(Part, line) for line in raw.splitlines())
        return {part.name: part for part in parts}

    def read(self, part: str, table: str, columns: list[str] | None = None) -> pa.Table:
        """Rows of one table of a part, in the order they were written."""
        dataset, fragments = self._opened(table)
        schema = dataset.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        (written,) = [one for one in self.parts[part].fragments if one.table == table]
        made = [fragments[path].to_table(columns=columns) for path in written.paths]
        return pa.concat_tables([schema.empty_table(), *made])

    def tables(self, part: str) -> dict[str, pa.Table]:
        """All four tables of a part."""
        return {table: self.read(part, table) for table in TABLES}

    def _opened(self, table: str) -> tuple[Any, dict[str, Any]]:
        """A table at the build's version, and its fragments by the path of their first file."""
        if table not in self._open:
            version = self.manifest.tables[table].version
            dataset = lance.dataset(table_uri(self._kb, table), version=version)
            fragments = {f.metadata.files[0].path: f for f in dataset.get_fragments()}
            self._open[table] = dataset, fragments
        return self._open[table]

    @cached_property
    def _open(self) -> dict[str, tuple[Any, dict[str, Any]]]:
        return {}


def without_documents(
    tables: Mapping[str, pa.Table], dropped: Iterable[str]
) -> dict[str, pa.Table]:
    """The four tables of a part without some documents and all that was made of them."""
    gone = pa.array(sorted(dropped), pa.string())
    documents, entries = tables["documents"], tables["entries"]
    documents = documents.filter(pc.invert(pc.is_in(documents.column("id"), value_set=gone)))
    entries = entries.filter(pc.invert(pc.is_in(entries.column("document_id"), value_set=gone)))
    kept = entries.column("id").combine_chunks()
    keys, links = tables["keys"], tables["links"]
    return {
        "documents": documents,
        "entries": entries,
        "keys": keys.filter(pc.is_in(keys.column("entry_id"), value_set=kept)),
        "links": links.filter(pc.is_in(links.column("source_id"), value_set=kept)),
    }


def parts_to_jsonl(parts: Iterable[Part]) -> str:
    """The text of `parts.jsonl`, sorted by name."""
    ordered = sorted(parts, key=lambda part: part.name)
    return "".join(noun_to_bytes(part).decode() + "\n" for part in ordered)
