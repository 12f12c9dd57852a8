"""Shape: staged documents to staged entries and keys, by a knowledge base's own shaper.

What is shuffled afterwards are references: which key of which part needs the vector of which text.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import TaggedOutput

from stillroom.schemas.arrow import (
    document_from_row,
    entries_to_table,
    keys_to_table,
    links_to_table,
)
from stillroom.schemas.documents import Document
from stillroom.schemas.entries import Entry, LexicalTerms, Link, LinkKind
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.tokens import TokenCounter
from stillroom.transforms import faults
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.load import REJECTS, DocumentRef
from stillroom.transforms.near_duplicates import signature
from stillroom.transforms.stages import StageCounter, timed
from stillroom.transforms.staging import Staging

TEXTS, VECTORS = "texts", "vectors"


@dataclass(frozen=True, slots=True)
class Shaped:
    """An entry with its keys, its document, its lexical terms by field, and how many keys were cut."""

    entry: Entry
    document: Document
    terms: LexicalTerms
    truncated: int = 0


class Shaper(Protocol):
    """What a knowledge base does with one document. Pickled to workers; loads its tools in `setup`."""

    def setup(self) -> None: ...

    def shape(self, document: Document) -> list[Shaped]: ...

    def take_vectors(self) -> Mapping[str, np.ndarray]:
        """Vectors that shaping made since this was last asked (float32 [dims], by text digest)."""
        ...

    @property
    def tokens(self) -> TokenCounter: ...


@dataclass(frozen=True, slots=True)
class TextRef:
    """A key that needs a vector: its part, its row there, and its tokens (special ones apart)."""

    part: str
    row: int
    tokens: int


@dataclass(frozen=True, slots=True)
class VectorRef:
    """Where a vector is staged; an empty block says that the encoder gave none."""

    block: str
    row: int


register_nouns(TextRef, VectorRef)


@dataclass
class ShapeDocuments(beam.PTransform[Any, Any]):
    """References of documents to {parts: names of staged parts, texts: (text digest, TextRef), vectors:
    (text digest, VectorRef) of texts that were encoded on the way, rejects}."""

    staging: Staging
    shaper: Shaper

    def expand(self, refs: Any) -> Any:  # Beam only understands hints of single PCollections
        shaped = (
            refs
            | "ByPart" >> beam.Map(_by_part).with_output_types(tuple[str, int])
            | "Part" >> beam.GroupByKey()
            | "Shape"
            >> beam.ParDo(_Shape(self.staging, self.shaper)).with_outputs(
                REJECTS, TEXTS, VECTORS, main="parts"
            )
        )
        types = {
            "parts": str,
            TEXTS: tuple[str, TextRef],
            VECTORS: tuple[str, VectorRef],
            REJECTS: Reject,
        }
        return {
            name: shaped[name] | f"Typed {name}" >> beam.Map(_same).with_output_types(hint)
            for name, hint in types.items()
        }


class _Shape(beam.DoFn):
    def __init__(self, staging: Staging, shaper: Shaper) -> None:
        self._staging, self._shaper = staging, shaper

    def setup(self) -> None:
        self._shaper.setup()
        self._counter = StageCounter(self._staging.scratch, "shape")
        self._entries = Metrics.counter("ShapeDocuments", "entries")
        self._cut = Metrics.counter("ShapeDocuments", "truncated")

    def process(self, group: tuple[str, Iterable[int]]) -> Iterator[Any]:
        part, rows = group[0], sorted(group[1])
        table = self._staging.read("documents", part)
        shaped: list[Shaped] = []
        links: list[Link] = []
        kept: list[int] = []
        for start in range(0, len(rows), 256):
            some = rows[start : start + 256]
            for row, plain in zip(some, table.take(some).to_pylist(), strict=True):
                with timed("shape"):
                    document = document_from_row(plain)
                    made = self._shaper.shape(document)
                if not made:
                    detail = "nothing in it can be searched"
                    yield TaggedOutput(
                        REJECTS,
                        Reject(document.uri, "shape", RejectReason.NO_ENTRY, detail, document.id),
                    )
                    continue
                kept.append(row)
                shaped.extend(made)
                links.extend(next_links(made))
                self._counter.add(1)
        yield from self._stage(part, table.take(kept), shaped, links)

    def _stage(
        self, part: str, documents: pa.Table, shaped: list[Shaped], links: list[Link],
    ) -> Iterator[Any]:  # fmt: skip
        keys = [key for made in shaped for key in made.entry.keys]
        rows = (
            (m.entry, m.document, m.terms, signature(m.entry.value), m.truncated) for m in shaped
        )
        faults.point("shape")
        with timed("shape"):
            self._staging.write("kept", part, documents)
            self._staging.write("entries", part, entries_to_table(rows))
            self._staging.write("keys", part, keys_to_table(keys))
            self._staging.write("links", part, links_to_table(links))
            dense = [(row, key) for row, key in enumerate(keys) if key.dense]
            counts = self._shaper.tokens.count_many([key.text for _, key in dense])
        for (row, key), tokens in zip(dense, counts, strict=True):
            yield TaggedOutput(TEXTS, (key.text_digest, TextRef(part, row, tokens)))
        yield from self._vectors(part, {key.text_digest for _, key in dense})
        self._entries.inc(len(shaped))
        self._cut.inc(sum(made.truncated for made in shaped))
        self._counter.flush()
        yield part

    def _vectors(self, part: str, wanted: set[str]) -> Iterator[Any]:
        """Vectors that shaping made of the texts of keys."""
        made = self._shaper.take_vectors()
        digests = sorted(wanted & made.keys())
        if digests:
            block = f"shaped-{part}"
            column = vector_column(np.stack([made[name] for name in digests]))
            self._staging.write("vectors", block, pa.table({"vector": column}))
        for row, name in enumerate(digests):
            yield TaggedOutput(VECTORS, (name, VectorRef(block, row)))


def vector_column(vectors: np.ndarray) -> pa.Array:
    """float32 [n, dims] as one Arrow column."""
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])


def next_links(shaped: list[Shaped]) -> Iterator[Link]:
    """NEXT from each entry of a document to the one that follows it."""
    for first, second in pairwise(shaped):
        yield Link(first.entry.id, second.entry.id, LinkKind.NEXT)


def _by_part(ref: DocumentRef) -> tuple[str, int]:
    return ref.part, ref.row


def _same(element: Any) -> Any:
    return element
