"""Read: shards of input files to staged documents, references to them, and rejects.

The unit of work is a shard of files. Documents go to disk in parts; downstream, a document is a
reference: (id, digests, part, row).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import TaggedOutput

from stillroom.schemas.arrow import documents_to_table
from stillroom.schemas.documents import Document, MarkKind
from stillroom.schemas.ids import digest
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms import faults
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.files import InputFile
from stillroom.transforms.read import read_files
from stillroom.transforms.stages import StageCounter, timed, timed_each
from stillroom.transforms.staging import Staging

PART_DOCUMENTS = 1024  # what one worker shapes in one go: several a worker even for small corpora
PART_CHARS = 8_000_000  # so that one part of long documents stays small in memory
SHARD_BYTES = 16_000_000
SHARD_FILES = 512
Read = Callable[[Sequence[InputFile], Source, int], Iterator[Document | Reject]]
REJECTS = "rejects"
DUPLICATES = "duplicates"


@dataclass(frozen=True, slots=True)
class Shard:
    """Some files of one source, read by one worker."""

    source: Source
    files: tuple[InputFile, ...]

    @property
    def name(self) -> str:
        return digest("shard", self.source.name, *(f.path for f in self.files))[:16]


@dataclass(frozen=True, slots=True)
class DocumentRef:
    """Where a staged document lies. `turns` are a conversation's."""

    id: str
    digest: str
    metadata_digest: str
    part: str
    row: int
    uri: str
    turns: int = 0


register_nouns(Shard, DocumentRef, InputFile, Reject)


def plan_shards(source: Source, files: Iterable[InputFile]) -> list[Shard]:
    """Files grouped in listing order, by bytes and number: the same for every number of workers."""
    shards: list[Shard] = []
    group: list[InputFile] = []
    size = 0
    for file in files:
        if group and (size + file.size > SHARD_BYTES or len(group) >= SHARD_FILES):
            shards.append(Shard(source, tuple(group)))
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        shards.append(Shard(source, tuple(group)))
    return shards


@dataclass
class ReadDocuments(beam.PTransform[Any, Any]):
    """Shards to {main: (part, rows of kept documents), rejects, duplicates: document ids}.

    `read` makes documents and rejects of a shard's files. Two documents of one id: the first (by part
    and row) stays; an equal one is a duplicate, a different one a Reject (CONFLICTING_ID). Of two
    states of a conversation the longer stays, and the other is a duplicate.
    """

    staging: Staging
    max_chars: int
    read: Read = read_files

    def expand(self, shards: Any) -> Any:  # Beam only understands hints of single PCollections
        staged = shards | "Stage" >> beam.ParDo(
            _Stage(self.staging, self.max_chars, self.read)
        ).with_outputs(REJECTS, main="refs")
        unique = (
            staged.refs
            | "ById" >> beam.Map(_by_id).with_output_types(tuple[str, DocumentRef])
            | "SameId" >> beam.GroupByKey()
            | "First" >> beam.FlatMap(first_of_id).with_outputs(REJECTS, DUPLICATES, main="refs")
        )
        rejects = (staged[REJECTS], unique[REJECTS]) | "Rejects" >> beam.Flatten()
        return {
            "refs": unique.refs | "Typed" >> beam.Map(_same).with_output_types(DocumentRef),
            REJECTS: rejects | "TypedRejects" >> beam.Map(_same).with_output_types(Reject),
            DUPLICATES: unique[DUPLICATES],
        }


def first_of_id(group: tuple[str, Iterable[DocumentRef]]) -> Iterator[Any]:
    """The reference that stays, and what becomes of the others of its id."""
    refs = sorted(group[1], key=lambda ref: (-ref.turns, ref.part, ref.row))
    first = refs[0]
    yield first
    for other in refs[1:]:
        same = (other.digest, other.metadata_digest) == (first.digest, first.metadata_digest)
        if same or other.turns < first.turns:
            yield TaggedOutput(DUPLICATES, other.id)
        else:
            detail = f"another document has this id and other content: {first.uri}"
            reject = Reject(other.uri, "read", RejectReason.CONFLICTING_ID, detail, other.id)
            yield TaggedOutput(REJECTS, reject)


class _Stage(beam.DoFn):
    def __init__(self, staging: Staging, max_chars: int, read: Read) -> None:
        self._staging, self._max_chars, self._read_files = staging, max_chars, read

    def setup(self) -> None:
        self._counter = StageCounter(self._staging.scratch, "read")
        self._read = Metrics.counter("ReadDocuments", "documents_read")
        self._failed = Metrics.counter("ReadDocuments", "documents_rejected")

    def process(self, shard: Shard) -> Iterator[Any]:
        parts = 0
        held: list[Document] = []
        chars = 0
        read = self._read_files(shard.files, shard.source, self._max_chars)
        for made in timed_each("read", read):
            if isinstance(made, Reject):
                self._failed.inc()
                yield TaggedOutput(REJECTS, made)
                continue
            held.append(made)
            chars += len(made.text)
            if len(held) >= PART_DOCUMENTS or chars >= PART_CHARS:
                yield from self._flush(shard, parts, held)
                parts, held, chars = parts + 1, [], 0
        if held:
            yield from self._flush(shard, parts, held)

    def _flush(self, shard: Shard, number: int, held: list[Document]) -> Iterator[DocumentRef]:
        part = f"{shard.name}-{number:05d}"
        faults.point("read")
        with timed("read"):
            self._staging.write("documents", part, documents_to_table(held))
        self._read.inc(len(held))
        self._counter.add(len(held))
        self._counter.flush()
        for row, made in enumerate(held):
            turns = sum(mark.kind is MarkKind.TURN for mark in made.marks)
            yield DocumentRef(
                made.id, made.digest, made.metadata_digest, part, row, made.uri, turns
            )


def _by_id(ref: DocumentRef) -> tuple[str, DocumentRef]:
    return ref.id, ref


def _same(element: Any) -> Any:
    return element
