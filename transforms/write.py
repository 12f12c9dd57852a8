"""Write: staged rows with their vectors to Lance fragments, uncommitted until publish.

One fragment a table and part: nothing is visible before `publish` commits them all at once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from stillroom.schemas.arrow import keys_schema
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.encode import VectorRef
from stillroom.transforms.load import REJECTS
from stillroom.transforms.shape import ShapedPart, TextRef
from stillroom.transforms.staging import StageCounter, Staging


@dataclass(frozen=True, slots=True)
class KeyVector:
    """The staged vector of one row of a part's keys."""

    row: int
    vector: VectorRef


@dataclass(frozen=True, slots=True)
class Fragment:
    """Written rows of one table: Lance's own description of the files, as JSON, one or several."""

    table: str
    rows: int
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """One part of documents with all that was made of them."""

    part: str
    documents: int
    entries: int
    keys: int
    truncated: int
    repaired: tuple[str, ...]
    fragments: tuple[Fragment, ...]


register_nouns(KeyVector, Fragment, WrittenPart)


@dataclass
class WriteParts(beam.PTransform[Any, Any]):
    """{parts, texts, vectors} to {written: WrittenPart, rejects}. A document with a key that got no
    vector is rejected whole."""

    staging: Staging
    kb: str
    dims: int

    def expand(self, inputs: Any) -> Any:  # Beam only understands hints of single PCollections
        located = (
            {"texts": inputs["texts"], "vectors": inputs["vectors"]}
            | "JoinText" >> beam.CoGroupByKey()
            | "Locate" >> beam.FlatMap(locate).with_output_types(tuple[str, KeyVector])
        )
        keyed = inputs["parts"] | "KeyPart" >> beam.Map(_keyed).with_output_types(
            tuple[str, ShapedPart]
        )
        written = (
            {"parts": keyed, "vectors": located}
            | "JoinPart" >> beam.CoGroupByKey()
            | "Write"
            >> beam.ParDo(_Write(self.staging, self.kb, self.dims)).with_outputs(
                REJECTS, main="written"
            )
        )
        types = {"written": WrittenPart, REJECTS: Reject}
        return {
            name: written[name] | f"Typed {name}" >> beam.Map(_same).with_output_types(hint)
            for name, hint in types.items()
        }


def locate(group: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[str, KeyVector]]:
    """For each place where a text stands, where its vector lies."""
    vectors = sorted(group[1]["vectors"], key=lambda ref: (ref.block, ref.row))
    for ref in group[1]["texts"]:
        text: TextRef = ref
        yield text.part, KeyVector(text.row, vectors[0] if vectors else VectorRef("", 0))


def write_fragment(kb: str, name: str, table: pa.Table) -> Fragment:
    """Write rows as new files of a Lance table, uncommitted. Empty rows write nothing."""
    from lance.fragment import write_fragments

    if table.num_rows == 0:
        return Fragment(name, 0, ())
    made = write_fragments(
        table, str(Path(kb) / f"{name}.lance"), schema=table.schema, mode="overwrite"
    )
    return Fragment(name, table.num_rows, tuple(json.dumps(one.to_json()) for one in made))


class _Write(beam.DoFn):
    def __init__(self, staging: Staging, kb: str, dims: int) -> None:
        self._staging, self._kb, self._dims = staging, kb, dims

    def setup(self) -> None:
        self._counter = StageCounter(self._staging.root, "write")

    def process(self, group: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        part = group[0]
        shaped: ShapedPart = next(iter(group[1]["parts"]))
        documents = self._staging.read("kept", part)
        entries = self._staging.read("entries", part)
        keys = self._with_vectors(self._staging.read("keys", part), group[1]["vectors"])
        links = self._staging.read("links", part)
        check_spans(documents, entries)
        failed = documents_without_vectors(entries, keys)
        if failed:
            for row in documents.filter(_among(documents, "id", failed)).to_pylist():
                detail = "the encoder gave no finite vector for one of its keys"
                yield TaggedOutput(
                    REJECTS, Reject(row["uri"], "encode", RejectReason.ENCODER, detail, row["id"])
                )
            documents = documents.filter(pc.invert(_among(documents, "id", failed)))
            entries = entries.filter(pc.invert(_among(entries, "document_id", failed)))
            kept = entries.column("id").to_pylist()
            keys = keys.filter(_among(keys, "entry_id", kept))
            links = links.filter(_among(links, "source_id", kept))
        tables = {"documents": documents, "entries": entries, "keys": keys, "links": links}
        fragments = tuple(write_fragment(self._kb, name, made) for name, made in tables.items())
        self._counter.add(documents.num_rows)
        self._counter.flush()
        yield WrittenPart(
            part, documents.num_rows, entries.num_rows, keys.num_rows, shaped.truncated,
            shaped.repaired, fragments,
        )  # fmt: skip

    def _with_vectors(self, keys: pa.Table, located: Iterable[KeyVector]) -> pa.Table:
        """The keys with the column `vector`; null where a key has none or the encoder failed."""
        values = np.zeros((keys.num_rows, self._dims), np.float32)
        missing = np.ones(keys.num_rows, bool)
        by_block: dict[str, list[KeyVector]] = {}
        for one in located:
            if one.vector.block:
                by_block.setdefault(one.vector.block, []).append(one)
        for block, some in by_block.items():
            column = self._staging.read("vectors", block).column("vector").combine_chunks()
            vectors = column.flatten().to_numpy().reshape(-1, self._dims)
            rows = [one.row for one in some]
            values[rows] = vectors[[one.vector.row for one in some]]
            missing[rows] = False
        flat = pa.array(values.reshape(-1))
        column = pa.FixedSizeListArray.from_arrays(flat, self._dims, mask=pa.array(missing))
        return keys.append_column(keys_schema(self._dims).field("vector"), column)


def check_spans(documents: pa.Table, entries: pa.Table) -> None:
    """Raises ValueError unless each value is exactly the span of the document that it names."""
    texts = dict(
        zip(documents.column("id").to_pylist(), documents.column("text").to_pylist(), strict=True)
    )
    columns = ("id", "document_id", "start", "end", "value")
    for entry, document, start, end, value in zip(
        *(entries.column(name).to_pylist() for name in columns), strict=True
    ):
        if document not in texts:
            raise ValueError(f"entry {entry} names a document {document} that is not there")
        if end - start != len(value) or texts[document][start:end] != value:
            raise ValueError(
                f"the value of entry {entry} is not the text of {document} from {start} to {end}"
            )


def documents_without_vectors(entries: pa.Table, keys: pa.Table) -> list[str]:
    """Ids of documents that have a dense key without a vector."""
    lost = keys.filter(pc.and_(keys.column("dense"), pc.is_null(keys.column("vector"))))
    if not lost.num_rows:
        return []
    owners = entries.filter(_among(entries, "id", lost.column("entry_id").to_pylist()))
    return sorted(set(owners.column("document_id").to_pylist()))


def _among(table: pa.Table, column: str, values: list[str]) -> Any:
    return pc.is_in(table.column(column), value_set=pa.array(values, pa.string()))


def _keyed(part: ShapedPart) -> tuple[str, ShapedPart]:
    return part.part, part


def _same(element: Any) -> Any:
    return element
