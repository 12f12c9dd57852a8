"""Conversations to documents: one for each session, its text a transcript, its turns marks.

A conversation that goes on for months is cut where nobody spoke for SESSION_GAP, so that a longer
export of it changes its last session only and memory stays bounded. A turn reads "Speaker: text"; its
mark holds the message's id, speaker and time, and says in `label` its role and what became of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stillroom.schemas.documents import Document, Mark, MarkKind
from stillroom.schemas.ids import document_id
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.decode import clean_text
from stillroom.transforms.parsed import Refused, typed_facets

KIND = "conversation"
SESSION_GAP = timedelta(hours=8)
MAX_SESSION_CHARS = 200_000  # a session without a pause, or without times
MAX_PEOPLE = 50  # names listed in a session's facets
EDITED, DELETED = "edited", "deleted"


@dataclass(slots=True)
class _Session:
    """A transcript as it grows."""

    parts: list[str] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    size: int = 0
    repairs: dict[str, None] = field(default_factory=dict)
    last: datetime | None = None
    left_out: int = 0


def documents_of(
    conversation: Conversation, source: str, place: str, uri: str, format_: str, max_chars: int
) -> Iterator[Document | Refused]:
    """The sessions of a conversation as documents, and a Refused for each turn that is none.

    `place` names what the keys of conversations are unique in (it is part of the documents' ids);
    `uri` is where they were read. Consumes the turns once; memory holds one session. A session's id rests on
    the id of its first turn. A branch that was left is counted in the facet `alternatives`.
    """
    session = _Session()
    first = True
    for turn in conversation.turns:
        if isinstance(turn, Refused):
            yield Refused(turn.reason, turn.detail, f"{conversation.key}/{turn.key}".rstrip("/"))
            continue
        if turn.alternative:
            session.left_out += 1
            continue
        text, speaker, repairs = _said(turn)
        if not text and not turn.deleted:
            continue
        if len(text) > max_chars:
            detail = f"a message of {len(text):,} characters; the limit is {max_chars:,}"
            yield Refused(RejectReason.TOO_LARGE, detail, f"{conversation.key}/{turn.id}")
            continue
        if session.marks and _ends(session, turn):
            yield _document(conversation, session, source, place, uri, format_, first)
            session, first = _Session(), False
        _add(session, turn, speaker, text or "[deleted]", repairs)
    if session.marks:
        yield _document(conversation, session, source, place, uri, format_, first)
    elif first:
        yield Refused(
            RejectReason.EMPTY, "a conversation in which nothing was said", conversation.key
        )


def roles_of(mark: Mark) -> tuple[str, frozenset[str]]:
    """A turn's role, and what became of it (EDITED, DELETED)."""
    role, *flags = mark.label.split()
    return role, frozenset(flags)


def _said(turn: Turn) -> tuple[str, str, tuple[str, ...]]:
    text, repairs = clean_text(turn.text)
    speaker = " ".join(clean_text(turn.speaker)[0].split())
    return text.strip(), speaker or turn.role, repairs


def _ends(session: _Session, turn: Turn) -> bool:
    """Whether a turn begins a new session."""
    if session.size > MAX_SESSION_CHARS:
        return True
    if session.last is None or turn.at is None:
        return False
    return turn.at - session.last > SESSION_GAP


def _add(session: _Session, turn: Turn, speaker: str, text: str, repairs: tuple[str, ...]) -> None:
    if session.parts:
        session.parts.append("\n")
        session.size += 1
    said = f"{speaker}: {text}"
    label = [turn.role, *[EDITED] * turn.edited, *[DELETED] * turn.deleted]
    session.marks.append(
        Mark(
            MarkKind.TURN, session.size, session.size + len(said), " ".join(label),
            source_id=clean_text(turn.id)[0], speaker=speaker, at=turn.at,
        )
    )  # fmt: skip
    session.parts.append(said)
    session.size += len(said)
    session.repairs.update(dict.fromkeys(repairs))
    session.last = max(filter(None, (session.last, turn.at)), default=None)


def _document(
    conversation: Conversation, session: _Session, source: str, place: str, uri: str,
    format_: str, first: bool,
) -> Document:  # fmt: skip
    key = clean_text(conversation.key)[0]
    name = key if first else f"{key}#{session.marks[0].source_id}"
    people = dict.fromkeys(mark.speaker for mark in session.marks)
    facets, repairs = typed_facets(
        {
            **conversation.metadata,
            "format": format_,
            "conversation": clean_text(conversation.thread)[0] or key,
            "people": list(people)[:MAX_PEOPLE],
            "alternatives": session.left_out or None,
        }
    )
    return Document(
        id=document_id(source, place, "", f"{key}#{session.marks[0].source_id}"),
        source=source,
        source_key=name,
        uri=f"{uri}#{name}",
        kind=KIND,
        title=" ".join(clean_text(conversation.title)[0].split()),
        text="".join(session.parts),
        marks=tuple(session.marks),
        metadata=facets,
        created_at=min((mark.at for mark in session.marks if mark.at), default=None),
        repairs=tuple(dict.fromkeys((*session.repairs, *repairs))),
    )
