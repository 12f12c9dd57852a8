"""The keys of a run of turns: those of any text, and each turn by itself (LongMemEval's key expansion).

Whatever the keys, the value is the original turns.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import takewhile

from stillroom.schemas.documents import Document, Mark, Span
from stillroom.schemas.entries import Entry, Key, KeyKind
from stillroom.schemas.ids import digest, key_id
from stillroom.time_search import EVENT_FACET
from stillroom.tokens import TokenCounter
from stillroom.transforms.compress import Compressor
from stillroom.transforms.expansions import KINDS as EXPANSIONS
from stillroom.transforms.expansions import Expander, Expansion, Utterance
from stillroom.transforms.keys import KINDS as TEXT_KINDS
from stillroom.transforms.keys import Keyed, make_keys
from stillroom.transforms.segment import Segment
from stillroom.transforms.sentences import windows

KINDS = (*TEXT_KINDS, KeyKind.TURN, *EXPANSIONS)


def make_chat_keys(
    segment: Segment,
    document: Document,
    turns: Sequence[Mark],
    *,
    kinds: Sequence[KeyKind],
    dense: Collection[KeyKind],
    max_tokens: int,
    tokens: TokenCounter,
    compressor: Compressor | None = None,
    rate: float = 0.75,
    expander: Expander | None = None,
) -> Keyed:
    """The segment's entry with keys of the given kinds, each at most `max_tokens` with specials (an
    expansion that is longer is no key). `turns` are the document's. Dates of events become the facet
    `event`, so that a query's time finds them. Raises ValueError for an expansion without an
    `expander`."""
    made = make_keys(
        segment,
        kinds=[kind for kind in kinds if kind in TEXT_KINDS],
        dense=dense,
        max_tokens=max_tokens,
        tokens=tokens,
        compressor=compressor,
        rate=rate,
    )
    entry = made.entry
    keys = list(entry.keys)
    room = max_tokens - tokens.special_tokens
    inside = _inside(entry, turns)
    if KeyKind.TURN in kinds:
        keys += _turn_keys(entry, document, inside, room, tokens, KeyKind.TURN in dense)
    facets = dict(entry.facets)
    wanted = [kind for kind in kinds if kind in EXPANSIONS]
    if wanted and expander is None:
        raise ValueError(f"keys of kind {wanted[0].value!r} need an expander; none was given")
    said = [_utterance(entry, document, mark) for mark in inside] if wanted else []
    for kind in wanted:
        assert expander is not None
        found = [e for e in expander.expand(kind, said) if tokens.count(e.text) <= room]
        keys += [_expanded_key(entry, kind, one, kind in dense) for one in found]
        if kind is KeyKind.EVENT and found:
            facets[EVENT_FACET] = _dates(found)
    return replace(made, entry=replace(entry, keys=tuple(keys), facets=facets))


def _inside(entry: Entry, turns: Sequence[Mark]) -> list[Mark]:
    """The turns of which the value holds some part."""
    first = bisect_right(turns, entry.span.start, key=lambda mark: mark.end)
    return list(takewhile(lambda mark: mark.start < entry.span.end, turns[first:]))


def _utterance(entry: Entry, document: Document, mark: Mark) -> Utterance:
    start = mark.start + len(mark.speaker) + 2  # "Speaker: "
    start, end = max(start, entry.span.start), min(mark.end, entry.span.end)
    return Utterance(mark.speaker, document.text[min(start, end) : end], mark.at)


def _expanded_key(entry: Entry, kind: KeyKind, one: Expansion, dense: bool) -> Key:
    name = digest("text", one.text)
    return Key(
        id=key_id(entry.id, kind, name, 0), entry_id=entry.id, kind=kind, text=one.text,
        dense=dense, starts_at=one.starts_at, ends_at=one.ends_at,
    )  # fmt: skip


def _dates(events: Sequence[Expansion]) -> tuple[str, ...]:
    days = {d.date().isoformat() for one in events for d in (one.starts_at, one.ends_at) if d}
    return tuple(sorted(days))


def _turn_keys(
    entry: Entry, document: Document, turns: Sequence[Mark], room: int, tokens: TokenCounter,
    dense: bool,
) -> list[Key]:  # fmt: skip
    """A key a turn ("Speaker: text"), or several where the encoder cannot read it whole."""
    made: list[Key] = []
    seen: dict[str, int] = {}
    for mark in turns:
        start, end = max(mark.start, entry.span.start), min(mark.end, entry.span.end)
        for a, b, _ in windows(document.text[start:end], room, tokens):
            text = document.text[start + a : start + b]
            name = digest("text", text)
            ordinal = seen.get(name, 0)
            seen[name] = ordinal + 1
            made.append(
                Key(
                    id=key_id(entry.id, KeyKind.TURN, name, ordinal),
                    entry_id=entry.id,
                    kind=KeyKind.TURN,
                    text=text,
                    span=Span(document.id, start + a, start + b),
                    dense=dense,
                    starts_at=mark.at,
                    ends_at=mark.at,
                )
            )
    return made
