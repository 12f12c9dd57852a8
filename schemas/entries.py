"""Entries, keys and links: one value that is read, many keys that are searched."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from stillroom.schemas.documents import Facets, Span
from stillroom.schemas.ids import digest


class KeyKind(StrEnum):
    """Every kind of key of every knowledge base: one closed list, so that plans can name them."""

    # Any corpus.
    TEXT = "text"  # the value itself, in windows that the encoder can read whole
    PATH = "path"  # the title and the headings above the value
    SENTENCE = "sentence"  # one sentence of the value (small-to-big)
    COMPRESSED = "compressed"  # the value with its least informative words removed (SeCom)
    # Conversations (LongMemEval).
    TURN = "turn"  # one turn of the value
    FACT = "fact"
    KEYPHRASE = "keyphrase"
    SUMMARY = "summary"
    EVENT = "event"
    # Mathlib (CRAMF).
    NAME = "name"
    DOCSTRING = "docstring"
    SIGNATURE = "signature"
    CONCEPT = "concept"
    NOTATION = "notation"
    # Security guidelines (RESCUE).
    CAUSE = "cause"
    API = "api"
    CODE = "code"
    PAGE = "page"


class LinkKind(StrEnum):
    """What one entry may be to another."""

    NEXT = "next"
    PARENT = "parent"
    USES = "uses"
    MENTIONS = "mentions"
    NEAR_DUPLICATE = "near_duplicate"


@dataclass(frozen=True, slots=True)
class Key:
    """A text by which an entry is found.

    `span` says where the text came from, where it is a piece of a document (None for a made text).
    `dense` says whether it gets a vector. `starts_at`/`ends_at` are an event's own dates.
    """

    id: str
    entry_id: str
    kind: KeyKind
    text: str
    span: Span | None = None
    dense: bool = False
    starts_at: datetime | None = None
    ends_at: datetime | None = None

    @property
    def text_digest(self) -> str:
        """Digest of exactly what the encoder is fed; equal texts share one vector."""
        return digest("text", self.text)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a search returns: an exact span of a document, with the keys that lead to it.

    `value == document.text[span.start:span.end]`, checked when a build is published. `path` is its
    place in a hierarchy, outermost first. `prior` is usage or authority; 0 where there is none.
    """

    id: str
    kind: str
    title: str
    value: str
    span: Span
    keys: tuple[Key, ...] = ()
    path: tuple[str, ...] = ()
    facets: Facets = field(default_factory=dict)
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    prior: float = 0.0

    @property
    def digest(self) -> str:
        """Digest of the value."""
        return digest("value", self.value)


@dataclass(frozen=True, slots=True)
class Link:
    """A directed relation between two entries."""

    source_id: str
    target_id: str
    kind: LinkKind
    weight: float = 1.0


# The terms of one entry by lexical field (a key kind, or `exact`), as the analyzer made them.
LexicalTerms = Mapping[str, tuple[str, ...]]
