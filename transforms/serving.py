"""GLOBAL files of a build: the serving files and the lexical index, made from its Lance tables.

Rows are sorted by entry id, whatever order the tables have. Tables are read in batches and vectors
go straight into mapped files, so memory grows with ids and links, not with texts or vectors.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stillroom import store
from stillroom.folders import file_checksum
from stillroom.schemas.arrow import (
    SERVE_ENTRIES,
    SERVE_FACETS,
    SERVE_KEYS,
    SERVE_LINKS,
    microseconds,
)
from stillroom.schemas.entries import LinkKind
from stillroom.schemas.ids import digest
from stillroom.schemas.manifest import DerivedFiles
from stillroom.transforms.content import ContentDigest
from stillroom.transforms.lexical_index import LexicalWriter, facet_terms
from stillroom.transforms.vectors import VectorWriter

BATCH = 8192  # rows of one read


@dataclass(frozen=True, slots=True)
class Derived:
    """What was made: both folders, digests of the tables' content, and counts."""

    serve: DerivedFiles
    lexical: DerivedFiles
    contents: Mapping[str, str]
    counts: Mapping[str, int]


def write_derived(
    into: Path,
    tables: Mapping[str, Any],
    fields: tuple[str, ...],
    dims: int,
    dtype: str = "f32",
    basis: np.ndarray | None = None,
    tier: str = "scan",
) -> Derived:
    """Write the folders `serve` and `lexical` in a local folder, from open Lance datasets.

    `dims` are those of the tables' vectors; `dtype` and `basis` say in which form they are served
    (`transforms/vectors.py`); with a `tier` other than the scan, where each lies in its table.

    Raises ValueError where a link or key names no entry, or a dense key has no vector. (Values are
    compared with their spans where they are written.)
    """
    serve, lexical = into / "serve", into / "lexical"
    serve.mkdir(parents=True)
    entries = Sorted(tables["entries"])
    contents = {
        "documents": _documents(tables["documents"]),
        "entries": _entries(serve, lexical, entries, fields),
        "keys": _keys(serve, tables["keys"], entries, dims, dtype, basis),
        "links": _links(serve, tables["links"], entries),
    }
    made = described(serve)
    if (
        tier != "scan"
    ):  # addresses follow from how tables were written: equal builds may differ in them
        _addresses(serve, tables["keys"])
        made = replace(described(serve), content=made.content)
    # Names and bytes of what tantivy writes differ from run to run; what it is made from does not.
    written = replace(described(lexical), content=digest("lexical", contents["entries"], *fields))
    vectors = np.load(serve / store.VECTORS, mmap_mode="r")
    return Derived(made, written, contents, {"entries": len(entries.ids), "vectors": len(vectors)})


class Sorted:
    """A Lance dataset's rows in the order of their ids."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        ids = dataset.to_table(columns=["id"], scan_in_order=True).column("id")
        raw = np.array(ids.to_pylist(), dtype="S32")
        self.order = np.argsort(raw, kind="stable")
        self.ids = raw[self.order]
        if len(self.ids) > 1 and (self.ids[1:] == self.ids[:-1]).any():
            raise ValueError("two rows of a table have one id: the build is not publishable")

    def batches(self, columns: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """(first row, table) of at most BATCH rows, in order."""
        for start in range(0, len(self.order), BATCH):
            some = self.order[start : start + BATCH]
            yield start, self.dataset.take(some.tolist(), columns=columns)

    def rows(self, ids: list[str]) -> np.ndarray:
        """Rows of these ids. Raises ValueError for one that is not there."""
        wanted = np.array(ids, dtype="S32")
        rows = np.searchsorted(self.ids, wanted)
        if len(wanted) and (
            not len(self.ids) or (self.ids[np.minimum(rows, len(self.ids) - 1)] != wanted).any()
        ):
            raise ValueError("a key or link names an entry that is not there")
        return rows.astype(np.int32)


def _documents(dataset: Any) -> str:
    state = ContentDigest()
    for _, table in Sorted(dataset).batches(["id", "digest", "metadata_digest"]):
        state.update(table)
    return state.hexdigest()


def _entries(serve: Path, lexical: Path, entries: Sorted, fields: tuple[str, ...]) -> str:
    total = len(entries.ids)
    state = ContentDigest()
    times = np.full((2, total), store.NO_TIME, np.int64)
    prior = np.zeros(total, np.float64)
    facets: dict[tuple[str, str], list[int]] = {}
    writer = LexicalWriter(lexical, fields)
    with _arrow_writer(serve / store.ENTRIES, SERVE_ENTRIES) as sink:
        columns = [*SERVE_ENTRIES.names, "prior", "digest", "terms"]
        for start, table in entries.batches(columns):
            state.update(table)
            sink.write_table(table.select(SERVE_ENTRIES.names))
            light = table.drop_columns(["value", "marks", "basis"]).to_pylist()
            for row, entry in enumerate(light, start):
                writer.add(row, entry)
                prior[row] = entry["prior"]
                for term in facet_terms(entry["facets"], entry["kind"], entry["source"]):
                    facets.setdefault(term, []).append(row)
                if entry["starts_at"] is not None:
                    times[0, row] = microseconds(entry["starts_at"])
                    times[1, row] = microseconds(entry["ends_at"] or entry["starts_at"])
    writer.close()
    np.save(serve / store.TIMES, times)
    np.save(serve / store.PRIOR, prior)
    with _arrow_writer(serve / store.FACETS, SERVE_FACETS) as sink:
        ordered = sorted(facets)
        for start in range(0, len(ordered), BATCH):
            some = ordered[start : start + BATCH]
            rows = [{"name": n, "value": v, "rows": sorted(set(facets[n, v]))} for n, v in some]
            sink.write_table(pa.Table.from_pylist(rows, schema=SERVE_FACETS))
    return state.hexdigest()


def _keys(
    serve: Path, dataset: Any, entries: Sorted, dims: int, dtype: str, basis: np.ndarray | None
) -> str:
    """Write vectors and their keys, ordered by entry row and key id; digest of all keys."""
    keys = Sorted(dataset)
    state = ContentDigest()
    for _, table in keys.batches(["id", "entry_id", "kind", "text_digest", "starts_at", "ends_at"]):
        state.update(table)
    light = dataset.to_table(columns=["id", "entry_id", "dense"], scan_in_order=True)
    dense = np.flatnonzero(light.column("dense").to_numpy())
    rows = entries.rows(light.column("entry_id").to_pylist())
    ids = np.array(light.column("id").to_pylist(), dtype="S32")
    order = dense[np.lexsort((ids[dense], rows[dense]))]
    np.save(serve / store.KEY_ENTRY, rows[order])
    vectors = VectorWriter(serve, len(order), dims, dtype, basis)
    with _arrow_writer(serve / store.KEYS, SERVE_KEYS) as sink:
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            table = dataset.take(some.tolist(), columns=["id", "kind", "text", "span", "vector"])
            column = table.column("vector").combine_chunks()
            if column.null_count:
                raise ValueError("a dense key has no vector: the build is not publishable")
            vectors.put(start, column.flatten().to_numpy().reshape(-1, dims))
            state.update(pa.table({"vector": column.flatten()}))
            span = table.column("span").combine_chunks().flatten()
            plain = [table.column(name).combine_chunks() for name in ("id", "kind", "text")]
            sink.write_table(pa.Table.from_arrays([*plain, *span], schema=SERVE_KEYS))
    vectors.close()
    return state.hexdigest()


def _addresses(serve: Path, dataset: Any) -> None:
    """uint64 [vectors]: the Lance row address of each vector, in the order of the served ones."""
    table = dataset.to_table(columns=["id"], with_row_id=True)
    served = pa.ipc.open_file(pa.memory_map(str(serve / store.KEYS))).read_all().column("id")
    places = pa.compute.index_in(served, value_set=table.column("id").combine_chunks())
    np.save(serve / store.ADDRESSES, table.column("_rowid").take(places).to_numpy())


def _links(serve: Path, dataset: Any, entries: Sorted) -> str:
    """Write links as rows, and the near-duplicate group of each entry (its smallest row)."""
    table = dataset.to_table()
    source = entries.rows(table.column("source_id").to_pylist())
    target = entries.rows(table.column("target_id").to_pylist())
    kinds = np.array(table.column("kind").to_pylist(), dtype=object).astype(str)
    order = np.lexsort((target, kinds, source))
    columns = [
        pa.array(source[order]), pa.array(target[order]), pa.array(kinds[order], pa.string()),
        table.column("weight").take(pa.array(order)).combine_chunks(),
    ]  # fmt: skip
    with _arrow_writer(serve / store.LINKS, SERVE_LINKS) as sink:
        made = pa.Table.from_arrays(columns, schema=SERVE_LINKS)
        sink.write_table(made)
    near = kinds == LinkKind.NEAR_DUPLICATE.value
    np.save(serve / store.GROUP, _groups(len(entries.ids), source[near], target[near]))
    state = ContentDigest()
    state.update(made)
    return state.hexdigest()


def _groups(total: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """int32 [total]: the smallest row connected with each row (union-find, paths halved)."""
    parent = np.arange(total, dtype=np.int32)

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = int(parent[row])
        return row

    for a, b in zip(source.tolist(), target.tolist(), strict=True):
        first, second = sorted((root(a), root(b)))
        parent[second] = first
    for row in range(total):
        parent[row] = parent[parent[row]]  # parents come first: one step is enough
    return parent


def _arrow_writer(path: Path, schema: pa.Schema) -> Any:
    return pa.ipc.new_file(str(path), schema)


def described(folder: Path) -> DerivedFiles:
    """Size and checksum of each file of a folder, which is named by them."""
    files = {p.name: (p.stat().st_size, file_checksum(p)) for p in sorted(folder.iterdir())}
    name = digest("files", *(f"{name} {size} {sum_}" for name, (size, sum_) in files.items()))
    return DerivedFiles(name, name, files)
