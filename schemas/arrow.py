"""Arrow schemas of the four tables, and the nouns as rows of them.

Facets are one JSON column (canonical, so that equal facets are equal bytes); times are microseconds
in UTC; spans are three columns or a struct. Vectors are float32 of fixed width.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from stillroom.schemas.documents import (
    Derivation,
    Document,
    Facets,
    FacetValue,
    Mark,
    MarkKind,
    Span,
)
from stillroom.schemas.entries import Entry, Key, KeyKind, LexicalTerms, Link, LinkKind
from stillroom.schemas.ids import canonical_json

TIME = pa.timestamp("us", tz="UTC")
SPAN = pa.struct([("document_id", pa.string()), ("start", pa.int64()), ("end", pa.int64())])
MARK = pa.struct(
    [
        ("kind", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("label", pa.string()),
        ("level", pa.int32()),
        ("source_id", pa.string()),
        ("speaker", pa.string()),
        ("at", TIME),
        ("basis", pa.list_(SPAN)),
    ]
)

DOCUMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("source", pa.string()),
        ("source_key", pa.string()),
        ("uri", pa.string()),
        ("kind", pa.string()),
        ("title", pa.string()),
        ("text", pa.large_string()),
        ("marks", pa.list_(MARK)),
        ("metadata", pa.string()),
        ("created_at", TIME),
        ("repairs", pa.list_(pa.string())),
        ("derivation_method", pa.string()),
        ("derivation_fingerprint", pa.string()),
        ("derivation_basis", pa.list_(SPAN)),
        ("digest", pa.string()),
        ("metadata_digest", pa.string()),
    ]
)
ENTRIES = pa.schema(
    [
        ("id", pa.string()),
        ("document_id", pa.string()),
        ("kind", pa.string()),
        ("title", pa.string()),
        ("value", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("path", pa.list_(pa.string())),
        ("facets", pa.string()),
        ("starts_at", TIME),
        ("ends_at", TIME),
        ("prior", pa.float64()),
        ("digest", pa.string()),
        # What a reader of one entry wants to know of its document, kept beside it.
        ("source", pa.string()),
        ("source_key", pa.string()),
        ("uri", pa.string()),
        ("marks", pa.list_(MARK)),
        ("basis", pa.list_(SPAN)),
        # LOCAL as well: made once with the entry, used by the GLOBAL steps of every build.
        ("terms", pa.list_(pa.struct([("field", pa.string()), ("terms", pa.large_string())]))),
        ("signature", pa.binary()),
        ("truncated", pa.int32()),  # keys that were cut for the encoder
    ]
)
LINKS = pa.schema(
    [
        ("source_id", pa.string()),
        ("target_id", pa.string()),
        ("kind", pa.string()),
        ("weight", pa.float64()),
    ]
)


# Files of serve/<digest>/, rows in the order of entry ids.
SERVE_ENTRIES = pa.schema(
    [
        ENTRIES.field(name)
        for name in (
            "id", "document_id", "source", "source_key", "uri", "kind", "title", "value", "start",
            "end", "path", "facets", "starts_at", "ends_at", "marks", "basis",
        )
    ]
)  # fmt: skip
SERVE_KEYS = pa.schema(  # one row a vector, in the order of vectors.npy
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("text", pa.large_string()),
        ("document_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)
SERVE_LINKS = pa.schema(  # sorted by source row
    [
        ("source", pa.int32()),
        ("target", pa.int32()),
        ("kind", pa.string()),
        ("weight", pa.float64()),
    ]
)
SERVE_FACETS = pa.schema(  # an inverted index of facet values, sorted by (name, value)
    [("name", pa.string()), ("value", pa.string()), ("rows", pa.list_(pa.int32()))]
)


def keys_schema(dims: int) -> pa.Schema:
    """Rows of `keys`; `vector` is null for a key that has none."""
    return pa.schema(
        [
            ("id", pa.string()),
            ("entry_id", pa.string()),
            ("kind", pa.string()),
            ("text", pa.large_string()),
            ("span", SPAN),
            ("starts_at", TIME),
            ("ends_at", TIME),
            ("dense", pa.bool_()),
            ("text_digest", pa.string()),
            ("vector", pa.list_(pa.float32(), dims)),
        ]
    )


def documents_to_table(documents: Iterable[Document]) -> pa.Table:
    """Rows of DOCUMENTS, in the order given."""
    rows = [
        {
            "id": d.id,
            "source": d.source,
            "source_key": d.source_key,
            "uri": d.uri,
            "kind": d.kind,
            "title": d.title,
            "text": d.text,
            "marks": [_mark_row(m) for m in d.marks],
            "metadata": facets_to_json(d.metadata),
            "created_at": d.created_at,
            "repairs": list(d.repairs),
            "derivation_method": d.derivation.method if d.derivation else None,
            "derivation_fingerprint": d.derivation.fingerprint if d.derivation else None,
            "derivation_basis": [_span_row(s) for s in d.derivation.basis] if d.derivation else [],
            "digest": d.digest,
            "metadata_digest": d.metadata_digest,
        }
        for d in documents
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def document_from_row(row: Mapping[str, Any]) -> Document:
    """The document of one row of DOCUMENTS."""
    method = row["derivation_method"]
    derivation = None
    if method is not None:
        basis = tuple(Span(**s) for s in row["derivation_basis"])
        derivation = Derivation(method, row["derivation_fingerprint"], basis)
    return Document(
        id=row["id"],
        source=row["source"],
        source_key=row["source_key"],
        uri=row["uri"],
        kind=row["kind"],
        title=row["title"],
        text=row["text"],
        marks=tuple(mark_from_row(m) for m in row["marks"]),
        metadata=facets_from_json(row["metadata"]),
        created_at=row["created_at"],
        repairs=tuple(row["repairs"]),
        derivation=derivation,
    )


def entries_to_table(
    entries: Iterable[tuple[Entry, Document, LexicalTerms, bytes | None, int]],
) -> pa.Table:
    """Rows of ENTRIES, in the order given: each entry with its document, its lexical terms, its
    MinHash signature and the number of its keys that were cut. Keys are apart (`keys_to_table`)."""
    rows = [
        {
            "id": e.id,
            "document_id": e.span.document_id,
            "kind": e.kind,
            "title": e.title,
            "value": e.value,
            "start": e.span.start,
            "end": e.span.end,
            "path": list(e.path),
            "facets": facets_to_json(e.facets),
            "starts_at": e.starts_at,
            "ends_at": e.ends_at,
            "prior": e.prior,
            "digest": e.digest,
            "source": d.source,
            "source_key": d.source_key,
            "uri": d.uri,
            "marks": [
                _mark_row(m) for m in d.marks if e.span.start <= m.start and m.end <= e.span.end
            ],
            "basis": [_span_row(s) for s in d.derivation.basis] if d.derivation else [],
            "terms": [{"field": f, "terms": " ".join(t)} for f, t in sorted(terms.items()) if t],
            "signature": signature,
            "truncated": truncated,
        }
        for e, d, terms, signature, truncated in entries
    ]
    return pa.Table.from_pylist(rows, schema=ENTRIES)


def entry_from_row(row: Mapping[str, Any], keys: Iterable[Key] = ()) -> Entry:
    """The entry of one row of ENTRIES, with the keys given."""
    return Entry(
        id=row["id"],
        kind=row["kind"],
        title=row["title"],
        value=row["value"],
        span=Span(row["document_id"], row["start"], row["end"]),
        keys=tuple(keys),
        path=tuple(row["path"]),
        facets=facets_from_json(row["facets"]),
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
        prior=row["prior"],
    )


def keys_to_table(keys: Iterable[Key]) -> pa.Table:
    """Rows of `keys_schema` without the column `vector`, in the order given."""
    rows = [
        {
            "id": k.id,
            "entry_id": k.entry_id,
            "kind": k.kind.value,
            "text": k.text,
            "span": _span_row(k.span) if k.span else None,
            "starts_at": k.starts_at,
            "ends_at": k.ends_at,
            "dense": k.dense,
            "text_digest": k.text_digest,
        }
        for k in keys
    ]
    schema = keys_schema(1)
    return pa.Table.from_pylist(rows, schema=schema.remove(schema.get_field_index("vector")))


def key_from_row(row: Mapping[str, Any]) -> Key:
    """The key of one row of `keys_schema`."""
    return Key(
        id=row["id"],
        entry_id=row["entry_id"],
        kind=KeyKind(row["kind"]),
        text=row["text"],
        span=Span(**row["span"]) if row["span"] else None,
        dense=row["dense"],
        starts_at=row["starts_at"],
        ends_at=row["ends_at"],
    )


def links_to_table(links: Iterable[Link]) -> pa.Table:
    """Rows of LINKS, in the order given."""
    rows = [
        {
            "source_id": k.source_id,
            "target_id": k.target_id,
            "kind": k.kind.value,
            "weight": k.weight,
        }
        for k in links
    ]
    return pa.Table.from_pylist(rows, schema=LINKS)


def link_from_row(row: Mapping[str, Any]) -> Link:
    """The link of one row of LINKS."""
    return Link(row["source_id"], row["target_id"], LinkKind(row["kind"]), row["weight"])


def mark_from_row(row: Mapping[str, Any]) -> Mark:
    """The mark of one MARK struct."""
    basis = tuple(Span(**s) for s in row["basis"] or ())
    return Mark(**{**row, "kind": MarkKind(row["kind"]), "basis": basis})


def facets_to_json(facets: Facets) -> str:
    """Canonical JSON of facets."""
    return canonical_json(facets)


def facets_from_json(text: str) -> dict[str, FacetValue]:
    """Facets of `facets_to_json`."""
    data: dict[str, Any] = json.loads(text)
    return {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}


def microseconds(moment: datetime) -> int:
    """Microseconds since the epoch; a time without a zone is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _span_row(span: Span) -> dict[str, Any]:
    return {"document_id": span.document_id, "start": span.start, "end": span.end}


def _mark_row(mark: Mark) -> dict[str, Any]:
    return {
        "kind": mark.kind.value,
        "start": mark.start,
        "end": mark.end,
        "label": mark.label,
        "level": mark.level,
        "source_id": mark.source_id,
        "speaker": mark.speaker,
        "at": mark.at,
        "basis": [_span_row(s) for s in mark.basis],
    }
