"""Documents, their marks, and spans of them: everything that was read, exactly as it was read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property

from stillroom.schemas.ids import canonical_json, digest, facets_digest

# A facet is typed, so that `year >= 2020` means numbers; a tuple is a set of alternatives.
FacetValue = str | int | float | bool | tuple[str, ...]
Facets = Mapping[str, FacetValue]


class MarkKind(StrEnum):
    """What a marked span of a document means."""

    TURN = "turn"
    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    DECLARATION = "declaration"
    SENTENCE = "sentence"
    QUOTE = "quote"
    CLAIM = "claim"
    ELISION = "elision"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of Unicode code points of one document's text."""

    document_id: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a span needs 0 <= start <= end, not {self.start}..{self.end}")


@dataclass(frozen=True, slots=True)
class Mark:
    """A span of its own document with a meaning.

    `level` is a heading's depth (1 to 6). `source_id`, `speaker` and `at` describe a turn. `basis` is
    what a quote, claim or elision of a derived document was made from.
    """

    kind: MarkKind
    start: int
    end: int
    label: str = ""
    level: int = 0
    source_id: str = ""
    speaker: str = ""
    at: datetime | None = None
    basis: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a mark needs 0 <= start <= end, not {self.start}..{self.end}")


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a derived document was made: the method, its fingerprint, and the spans it rests on."""

    method: str
    fingerprint: str
    basis: tuple[Span, ...]


@dataclass(frozen=True)
class Document:
    """One thing that was read: a page, a row, a conversation, or a document derived from others.

    `source_key` is what a person knows it by (the row key or the relative file path); relevance
    judgements refer to it. `created_at` is when it was said or written, never when it was read.
    `repairs` names what the reader mended (`encoding`, `surrogates`, `nul`, ...), so that a changed
    text is never a silent one. Not slotted: the digests are computed once and kept.
    """

    id: str
    source: str
    source_key: str
    uri: str
    kind: str
    title: str
    text: str
    marks: tuple[Mark, ...] = ()
    metadata: Facets = field(default_factory=dict)
    created_at: datetime | None = None
    repairs: tuple[str, ...] = ()
    derivation: Derivation | None = None

    @cached_property
    def digest(self) -> str:
        """Digest of all that entries and keys are made from; metadata is apart (`facets_digest`)."""
        marks = [
            [
                m.kind, m.start, m.end, m.label, m.level, m.source_id, m.speaker,
                _utc(m.at),
                [[s.document_id, s.start, s.end] for s in m.basis],
            ]
            for m in self.marks
        ]  # fmt: skip
        derivation = self.derivation.fingerprint if self.derivation else ""
        return digest(
            "content", self.kind, self.title, self.text, canonical_json(marks), derivation
        )

    @cached_property
    def metadata_digest(self) -> str:
        """Digest of what may change without a new vector: facets, time, address."""
        return digest(
            "metadata", facets_digest(self.metadata), _utc(self.created_at), self.uri,
            self.source_key,
        )  # fmt: skip


def _utc(moment: datetime | None) -> str:
    """One instant, one text, whatever its zone; without a zone it is taken as UTC."""
    if moment is None:
        return ""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
