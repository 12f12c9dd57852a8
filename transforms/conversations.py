"""What chat formats hand over: conversations, each a stream of turns.

A format module (`chat_slack`, `chat_whatsapp`, ...) has two functions. `claims(export, names)` says which
of an export's files are its own, from their contents; `read(export, names, zone)` yields the
conversations in them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import BinaryIO, Protocol

from stillroom.schemas.documents import Facets
from stillroom.transforms.parsed import Refused

ROLES = ("user", "assistant", "system", "tool", "person")  # person: a peer among peers


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. `id` is the source's own, else made from content, so that reading an export again
    gives the same; two messages of one second are two. `at` is when it was said, with a zone, or None;
    `inferred` says that it was worked out from its neighbours. `text` is what was said, as people
    read it, with what attachments and tools held. `alternative` is a branch that was left."""

    id: str
    speaker: str
    text: str
    role: str = "person"
    at: datetime | None = None
    inferred: bool = False
    edited: bool = False
    deleted: bool = False
    alternative: bool = False
    reply_to: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in the order in which they were said, read lazily: they are to be consumed before the next
    conversation is asked for. `key` names it within its export and is stable. `thread` is what it is a
    session of, where the format says so (else empty), `title` what people call it. A Refused among the
    turns is one message that could not be read."""

    key: str
    turns: Iterable[Turn | Refused]
    title: str = ""
    thread: str = ""
    metadata: Facets = field(default_factory=dict)


class Export(Protocol):
    """The files of one export: a folder, an archive or a single file, its enclosing folders and what
    macOS adds left out. Streams count against a budget and raise Refused where they are damaged."""

    @property
    def names(self) -> Sequence[str]:
        """Paths with forward slashes, sorted."""
        ...

    def open(self, name: str) -> BinaryIO:
        """A file's bytes, decompressed. Raises Refused, OSError."""
        ...

    def head(self, name: str) -> bytes:
        """Its first 64 kB; empty where it cannot be read."""
        ...


class ChatFormat(Protocol):
    """What a format module looks like."""

    def claims(self, export: Export, names: Sequence[str]) -> Sequence[str]: ...

    def read(
        self, export: Export, names: Sequence[str], zone: tzinfo
    ) -> Iterator[Conversation | Refused]: ...
