"""Incremental builds: which documents are shaped again, and what is carried over from the parent.

The parent's documents are joined with what was read by id; no worker holds either side whole. A
part in which nothing changed is carried as the files it is; one that lost documents is written
again without them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton, TaggedOutput

from stillroom.schemas.ids import digest
from stillroom.schemas.rejects import Reject
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.load import DocumentRef
from stillroom.transforms.parts import CARRIED, ParentBuild, Part, without_documents, write_part
from stillroom.transforms.shape import VectorRef
from stillroom.transforms.staging import Staging

SHAPE, DROP, RESTAGE, FATES = "shape", "drop", "restage", "fates"
SMALL_DOCUMENTS = 512
MANY_SMALL = 16  # small parts that are left alone; more are written as one


@dataclass(frozen=True, slots=True)
class OldDocument:
    """A document of the parent build, and the part that holds it."""

    digest: str
    metadata_digest: str
    source: str
    uri: str
    part: str


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a document that is not shaped from what was read: `kind` is unchanged, stale or
    removed; `uri` the failed input that made it stale ("" for a listing that was not complete)."""

    kind: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides between keeping and dropping. `same` says that documents would be shaped as they
    were; `incomplete` are the sources whose listing failed in part."""

    same: bool
    incomplete: tuple[str, ...] = ()


register_nouns(OldDocument, Fate)


def decide(
    new: DocumentRef | None, old: OldDocument | None, rules: Rules, failed: frozenset[str]
) -> tuple[str, str]:
    """(fate, uri of the failure) of one document id: new, changed, unchanged, stale or removed.

    An absent document is removed, unless its input failed or its source was not listed completely:
    one flaky listing must not delete a base.
    """
    if new is not None:
        if old is None:
            return "new", ""
        equal = (old.digest, old.metadata_digest) == (new.digest, new.metadata_digest)
        return ("unchanged" if equal and rules.same else "changed"), ""
    if old is None:
        raise ValueError("a document is new, old or both")
    for uri in inputs_of(old.uri):
        if uri in failed:
            return "stale", uri
    if old.source in rules.incomplete:
        return "stale", ""
    return "removed", ""


def inputs_of(uri: str) -> Iterator[str]:
    """The uris whose failure takes a document with it: its own, its member's, its file's."""
    yield uri
    for position in range(len(uri) - 1, 0, -1):
        if uri[position] in "#!":
            yield uri[:position]


@dataclass
class JoinParent(beam.PTransform[Any, Any]):
    """{refs, rejects} to {shape: DocumentRef, parts: Part, fates: Fate}."""

    staging: Staging
    parent: ParentBuild
    rules: Rules
    kb: str

    def expand(self, inputs: Any) -> Any:  # Beam only understands hints of single PCollections
        pipeline = inputs["refs"].pipeline
        parts = (
            pipeline
            | "Parent" >> beam.Create([0])
            | "Parts" >> beam.FlatMap(_parts_of, self.parent).with_output_types(tuple[str, Part])
            | "SpreadParts" >> beam.Reshuffle()
        )
        old = parts | "OldDocuments" >> beam.FlatMap(_old_documents, self.parent).with_output_types(
            tuple[str, OldDocument]
        )
        new = inputs["refs"] | "NewById" >> beam.Map(_by_id).with_output_types(
            tuple[str, DocumentRef]
        )
        failed = (
            inputs["rejects"]
            | "FailedInputs" >> beam.Map(_uri_of)
            | "FailedSet" >> beam.CombineGlobally(_union)
        )
        decided = (
            {"new": new, "old": old}
            | "JoinById" >> beam.CoGroupByKey()
            | "Decide"
            >> beam.ParDo(_Decide(self.rules), AsSingleton(failed)).with_outputs(
                DROP, RESTAGE, FATES, main=SHAPE
            )
        )
        restaged = (
            decided[RESTAGE]
            | "TypedRestage" >> beam.Map(_same).with_output_types(tuple[str, str])
            | "RestagePart" >> beam.GroupByKey()
            | "Restage"
            >> beam.FlatMap(_restage, self.parent, self.staging).with_output_types(DocumentRef)
        )
        dropped = decided[DROP] | "TypedDrop" >> beam.Map(_same).with_output_types(tuple[str, str])
        carried = (
            {"part": parts, "dropped": dropped}
            | "JoinPart" >> beam.CoGroupByKey()
            | "Carry" >> beam.FlatMap(_carry, self.parent, self.kb).with_output_types(Part)
            | "BySize" >> beam.Map(_by_size, self.parent).with_output_types(tuple[str, Part])
            | "Size" >> beam.GroupByKey()
            | "Merge" >> beam.FlatMap(_merge, self.parent, self.kb).with_output_types(Part)
        )
        typed = decided[SHAPE] | "TypedShape" >> beam.Map(_same).with_output_types(DocumentRef)
        return {
            SHAPE: (typed, restaged) | "AllToShape" >> beam.Flatten(),
            "parts": carried,
            FATES: decided[FATES] | "TypedFates" >> beam.Map(_same).with_output_types(Fate),
        }


@dataclass
class CarryVectors(beam.PTransform[Any, Any]):
    """(text digest, ...) of the parent's keys to (text digest, VectorRef), one for each text."""

    parent: ParentBuild
    usable: bool

    def expand(self, pipeline: Any) -> Any:
        return (
            pipeline
            | "VectorParts" >> beam.Create([0])
            | "ParentParts"
            >> beam.FlatMap(_names_of, self.parent, self.usable).with_output_types(str)
            | "SpreadVectorParts" >> beam.Reshuffle()
            | "Vectors" >> beam.FlatMap(_vectors_of, self.parent).with_output_types(
                tuple[str, VectorRef]
            )
        )  # fmt: skip


class _Decide(beam.DoFn):
    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def process(
        self, group: tuple[str, Mapping[str, Iterable[Any]]], failed: frozenset[str]
    ) -> Iterator[Any]:
        document, sides = group
        new = next(iter(sides["new"]), None)
        old = next(iter(sides["old"]), None)
        fate, uri = decide(new, old, self._rules, failed)
        if fate in ("new", "changed"):
            yield new
        else:
            yield TaggedOutput(FATES, Fate(fate, uri))
        if old is not None and (fate in ("changed", "removed") or not self._rules.same):
            yield TaggedOutput(DROP, (old.part, document))
        if old is not None and fate == "stale" and not self._rules.same:
            yield TaggedOutput(RESTAGE, (old.part, document))


def _parts_of(_: int, parent: ParentBuild) -> Iterator[tuple[str, Part]]:
    yield from parent.parts.items()


def _names_of(_: int, parent: ParentBuild, usable: bool) -> Iterator[str]:
    if usable:
        yield from parent.parts


def _old_documents(
    named: tuple[str, Part], parent: ParentBuild
) -> Iterator[tuple[str, OldDocument]]:
    columns = ["id", "digest", "metadata_digest", "source", "uri"]
    table = parent.read(named[0], "documents", columns)
    for document, content, metadata, source, uri in zip(
        *(table.column(name).to_pylist() for name in columns), strict=True
    ):
        yield document, OldDocument(content, metadata, source, uri, named[0])


def _vectors_of(part: str, parent: ParentBuild) -> Iterator[tuple[str, VectorRef]]:
    table = parent.read(part, "keys", ["text_digest", "dense"])
    seen: set[str] = set()
    columns = (table.column(name).to_pylist() for name in ("text_digest", "dense"))
    for row, (text, dense) in enumerate(zip(*columns, strict=True)):
        if dense and text not in seen:
            seen.add(text)
            yield text, VectorRef(CARRIED + part, row)


def _restage(
    group: tuple[str, Iterable[str]], parent: ParentBuild, staging: Staging
) -> Iterator[DocumentRef]:
    """Documents that could not be read again, staged from the parent to be shaped by a new recipe."""
    part, wanted = group[0], sorted(group[1])
    table = parent.read(part, "documents")
    keep = pa.compute.is_in(table.column("id"), value_set=pa.array(wanted, pa.string()))
    table = table.filter(keep)
    name = digest("stale", part, *wanted)[:24]
    staging.write("documents", name, table)
    columns = ("id", "digest", "metadata_digest", "uri")
    rows = zip(*(table.column(c).to_pylist() for c in columns), strict=True)
    for row, (document, content, metadata, uri) in enumerate(rows):
        yield DocumentRef(document, content, metadata, name, row, uri)


def _carry(
    group: tuple[str, Mapping[str, Iterable[Any]]], parent: ParentBuild, kb: str
) -> Iterator[Part]:
    name, sides = group
    dropped = set(sides["dropped"])
    part: Part = next(iter(sides["part"]))
    if not dropped:
        yield part
    elif len(dropped) < part.documents:
        yield write_part(kb, without_documents(parent.tables(name), dropped))


def _by_size(part: Part, parent: ParentBuild) -> tuple[str, Part]:
    """Small parts that were carried whole come together."""
    small = part.documents < SMALL_DOCUMENTS and part.name in parent.parts
    return ("small" if small else part.name), part


def _merge(group: tuple[str, Iterable[Part]], parent: ParentBuild, kb: str) -> Iterator[Part]:
    """Many small parts as one: a base that changes a little every night keeps few files."""
    parts = sorted(group[1], key=lambda part: part.name)
    if group[0] != "small" or len(parts) <= MANY_SMALL:
        yield from parts
        return
    tables = [parent.tables(part.name) for part in parts]
    yield write_part(kb, {name: pa.concat_tables([t[name] for t in tables]) for name in tables[0]})


def _union(sets: Iterable[Any]) -> frozenset[str]:
    """All uris, as a combiner over uris and sets of them."""
    made: set[str] = set()
    for one in sets:
        made.update((one,) if isinstance(one, str) else one)
    return frozenset(made)


def _uri_of(reject: Reject) -> str:
    return reject.uri


def _by_id(ref: DocumentRef) -> tuple[str, DocumentRef]:
    return ref.id, ref


def _same(element: Any) -> Any:
    return element
