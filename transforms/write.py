"""Write: staged rows with their vectors to Lance fragments, uncommitted until publish.

One fragment a table and part: nothing is visible before `publish` commits them all at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from stillroom.schemas.arrow import keys_schema
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms import faults
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.load import REJECTS
from stillroom.transforms.parts import CARRIED, ParentBuild, Part, without_documents, write_part
from stillroom.transforms.shape import TextRef, VectorRef
from stillroom.transforms.stages import StageCounter, timed
from stillroom.transforms.staging import Staging


@dataclass(frozen=True, slots=True)
class KeyVector:
    """The staged vector of one row of a part's keys."""

    row: int
    vector: VectorRef


register_nouns(KeyVector)


@dataclass
class WriteParts(beam.PTransform[Any, Any]):
    """{parts, texts, vectors} to {written: Part, rejects}. A document with a key that got no
    vector is rejected whole."""

    staging: Staging
    kb: str
    dims: int
    parent: str = ""

    def expand(self, inputs: Any) -> Any:  # Beam only understands hints of single PCollections
        located = (
            {"texts": inputs["texts"], "vectors": inputs["vectors"]}
            | "JoinText" >> beam.CoGroupByKey()
            | "Locate" >> beam.FlatMap(locate).with_output_types(tuple[str, KeyVector])
        )
        keyed = inputs["parts"] | "KeyPart" >> beam.Map(_keyed).with_output_types(tuple[str, int])
        written = (
            {"parts": keyed, "vectors": located}
            | "JoinPart" >> beam.CoGroupByKey()
            | "Write"
            >> beam.ParDo(_Write(self.staging, self.kb, self.dims, self.parent)).with_outputs(
                REJECTS, main="written"
            )
        )
        types = {"written": Part, REJECTS: Reject}
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


class _Write(beam.DoFn):
    def __init__(self, staging: Staging, kb: str, dims: int, parent: str) -> None:
        self._staging, self._kb, self._dims = staging, kb, dims
        self._parent = ParentBuild(kb, parent)

    def setup(self) -> None:
        self._counter = StageCounter(self._staging.scratch, "write")

    def process(self, group: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
        name = group[0]
        with timed("write"):
            tables = self._joined(name, group[1]["vectors"])
        failed = documents_without_vectors(tables["entries"], tables["keys"])
        if failed:
            documents = tables["documents"]
            for row in documents.filter(_among(documents, "id", failed)).to_pylist():
                detail = "the encoder gave no finite vector for one of its keys"
                yield TaggedOutput(
                    REJECTS, Reject(row["uri"], "encode", RejectReason.ENCODER, detail, row["id"])
                )
            tables = without_documents(tables, failed)
        faults.point("write")
        with timed("write"):
            part = write_part(self._kb, tables)
        self._counter.add(part.documents)
        self._counter.flush()
        yield part

    def _joined(self, name: str, located: Iterable[KeyVector]) -> dict[str, pa.Table]:
        """The four tables of a part, values compared with their spans."""
        tables = {table: self._staging.read(table, name) for table in ("entries", "keys", "links")}
        tables["documents"] = self._staging.read("kept", name)
        tables["keys"] = self._with_vectors(tables["keys"], located)
        check_spans(tables["documents"], tables["entries"])
        return tables

    def _with_vectors(self, keys: pa.Table, located: Iterable[KeyVector]) -> pa.Table:
        """The keys with the column `vector`; null where a key has none or the encoder failed."""
        values = np.zeros((keys.num_rows, self._dims), np.float32)
        missing = np.ones(keys.num_rows, bool)
        by_block: dict[str, list[KeyVector]] = {}
        for one in located:
            if one.vector.block:
                by_block.setdefault(one.vector.block, []).append(one)
        for block, some in by_block.items():
            vectors = self._vectors(block)
            rows = [one.row for one in some]
            values[rows] = vectors[[one.vector.row for one in some]]
            missing[rows] = False
        flat = pa.array(values.reshape(-1))
        column = pa.FixedSizeListArray.from_arrays(flat, self._dims, mask=pa.array(missing))
        return keys.append_column(keys_schema(self._dims).field("vector"), column)

    def _vectors(self, block: str) -> np.ndarray:
        """float32 [rows, dims]: a staged block, or the keys of a part of the parent build."""
        if block.startswith(CARRIED):
            table = self._parent.read(block.removeprefix(CARRIED), "keys", ["vector"])
        else:
            table = self._staging.read("vectors", block)
        column = table.column("vector").combine_chunks()
        return column.values.to_numpy().reshape(-1, self._dims)


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


def _keyed(name: str) -> tuple[str, int]:
    return name, 0


def _same(element: Any) -> Any:
    return element
