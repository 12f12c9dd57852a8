"""Cutting a transcript into runs of turns. The ways that need no model; `topical` and others are beside.

A segmenter says where runs begin and end; here they are made to fit a token budget, and become
segments whose values are exact spans of the document.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from stillroom.schemas.documents import Document, Mark, MarkKind, Span
from stillroom.schemas.entries import Entry
from stillroom.schemas.ids import digest, entry_id
from stillroom.tokens import TokenCounter
from stillroom.transforms.segment import Segment
from stillroom.transforms.sentences import sizes, windows
from stillroom.transforms.transcripts import roles_of

KIND = "turns"
WINDOW, STRIDE = 4, 2  # turns of a sliding window, and from one to the next
ANSWERS = ("assistant", "tool")
Runs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Said:
    """One turn as a segmenter sees it. `text` begins with its speaker's name."""

    text: str
    speaker: str
    role: str
    at: datetime | None = None


class Segmenter(Protocol):
    """Turns to runs (first, last + 1). Pickled to workers; loads its model in `setup`."""

    def setup(self) -> None: ...

    def runs(self, turns: Sequence[Said]) -> Runs: ...


@dataclass(frozen=True)
class FixedSegmenter:
    """The segmenters that look at no words: `turn`, `round`, `session`, `window`."""

    name: str

    def setup(self) -> None:
        """Nothing to load."""

    def runs(self, turns: Sequence[Said]) -> Runs:
        """Every turn is in a run; those of `window` overlap."""
        n = len(turns)
        if self.name == "turn":
            return [(i, i + 1) for i in range(n)]
        if self.name == "round":
            return runs_between(round_starts(turns), n)
        if self.name == "session":
            return [(0, n)]
        last = max(1, n - WINDOW + STRIDE)
        return [(i, min(i + WINDOW, n)) for i in range(0, last, STRIDE)]


def round_starts(turns: Sequence[Said]) -> list[int]:
    """Where rounds begin. With an assistant: at what a user says. Among people: where whoever spoke
    first speaks again after another."""
    assistant = any(turn.role in ANSWERS for turn in turns)
    starts = [0]
    for i in range(1, len(turns)):
        before, turn = turns[i - 1], turns[i]
        if assistant:
            new = turn.role == "user" and before.role != "user"
        else:
            new = turn.speaker == turns[0].speaker and before.speaker != turn.speaker
        if new:
            starts.append(i)
    return starts


def runs_between(starts: Sequence[int], total: int) -> Runs:
    """Runs that begin at these turns and together are all."""
    return [(a, b) for a, b in zip(starts, [*starts[1:], total], strict=True) if a < b]


def turns_of(document: Document) -> list[Mark]:
    """The document's turns, in the order of its text."""
    return [mark for mark in document.marks if mark.kind is MarkKind.TURN]


def segment_turns(
    document: Document, segmenter: Segmenter, budget: int, tokens: TokenCounter
) -> list[Segment]:
    """The segments of a transcript, in order, none over `budget` tokens (special tokens apart).

    A run over the budget is cut between turns, as evenly as goes; a turn over it at sentence ends.
    """
    marks = turns_of(document)
    said = [_said(document, mark) for mark in marks]
    if not said:
        return []
    counts = sizes([turn.text for turn in said], tokens)
    ordinals: Counter[str] = Counter()
    made: list[Segment] = []
    for first, last in segmenter.runs(said):
        for start, end in _fitting(counts, first, last, budget):
            pieces = [(marks[start].start, marks[end - 1].end, sum(counts[start:end]))]
            if pieces[0][2] > budget:  # one turn
                pieces = [
                    (marks[start].start + a, marks[start].start + b, size)
                    for a, b, size in windows(said[start].text, budget, tokens)
                ]
            for a, b, size in pieces:
                inside = marks[start:end]
                made.append(Segment(_entry(document, inside, a, b, ordinals), (), size))
    return made


def day_of(moment: datetime) -> str:
    """A date as people write and ask for it: "8 May 2023"."""
    return f"{moment.day} {moment:%B %Y}"


def _said(document: Document, mark: Mark) -> Said:
    role, _ = roles_of(mark)
    return Said(document.text[mark.start : mark.end], mark.speaker, role, mark.at)


def _fitting(
    counts: Sequence[int], first: int, last: int, budget: int
) -> Iterator[tuple[int, int]]:
    """A run in pieces of at most `budget` tokens; a turn that is over it alone is a piece."""
    total = sum(counts[first:last])
    if total <= budget or last - first == 1:
        yield first, last
        return
    middle, size = first + 1, counts[first]
    while middle < last - 1 and size + counts[middle] <= total / 2:
        size += counts[middle]
        middle += 1
    yield from _fitting(counts, first, middle, budget)
    yield from _fitting(counts, middle, last, budget)


def _entry(
    document: Document, marks: Sequence[Mark], start: int, end: int, ordinals: Counter[str]
) -> Entry:
    value = document.text[start:end]
    name = digest("value", value)
    ordinal = ordinals[name]
    ordinals[name] += 1
    times = sorted(mark.at for mark in marks if mark.at)
    roles = dict.fromkeys(roles_of(mark)[0] for mark in marks)
    return Entry(
        id=entry_id(document.id, KIND, name, ordinal),
        kind=KIND,
        title=document.title,
        value=value,
        span=Span(document.id, start, end),
        path=(day_of(times[0]),) if times else (),
        facets={
            **document.metadata,
            "speaker": tuple(dict.fromkeys(mark.speaker for mark in marks)),
            "role": tuple(roles),
        },
        starts_at=times[0] if times else None,
        ends_at=times[-1] if times else None,
    )
