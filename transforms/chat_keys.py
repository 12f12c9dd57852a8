"""The keys of a run of turns: those of any text, and each turn by itself (LongMemEval's key expansion).

Whatever the keys, the value is the original turns.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import replace

from stillroom.schemas.documents import Document, Mark, Span
from stillroom.schemas.entries import Entry, Key, KeyKind
from stillroom.schemas.ids import digest, key_id
from stillroom.tokens import TokenCounter
from stillroom.transforms.compress import Compressor
from stillroom.transforms.keys import KINDS as TEXT_KINDS
from stillroom.transforms.keys import Keyed, make_keys
from stillroom.transforms.segment import Segment
from stillroom.transforms.sentences import windows

KINDS = (*TEXT_KINDS, KeyKind.TURN)


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
) -> Keyed:
    """The segment's entry with keys of the given kinds, each at most `max_tokens` with specials.
    `turns` are the document's."""
    made = make_keys(
        segment,
        kinds=[kind for kind in kinds if kind in TEXT_KINDS],
        dense=dense,
        max_tokens=max_tokens,
        tokens=tokens,
        compressor=compressor,
        rate=rate,
    )
    keys = list(made.entry.keys)
    if KeyKind.TURN in kinds:
        room = max_tokens - tokens.special_tokens
        keys += _turn_keys(made.entry, document, turns, room, tokens, KeyKind.TURN in dense)
    return replace(made, entry=replace(made.entry, keys=tuple(keys)))


def _turn_keys(
    entry: Entry, document: Document, turns: Sequence[Mark], room: int, tokens: TokenCounter,
    dense: bool,
) -> list[Key]:  # fmt: skip
    """A key a turn ("Speaker: text"), or several where the encoder cannot read it whole."""
    made: list[Key] = []
    seen: dict[str, int] = {}
    first = bisect_right(turns, entry.span.start, key=lambda mark: mark.end)
    for mark in turns[first:]:
        start, end = max(mark.start, entry.span.start), min(mark.end, entry.span.end)
        if start >= end:
            break
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
