"""The keys that any corpus has: the texts by which a segment is found, each whole for the encoder.

An encoder silently drops what is beyond its maximum length (sentence-transformers#2268 and many
others): two texts that differ only there get one vector. Here a long value becomes several keys
instead, whose windows together are the whole value, and the few keys that are still cut are counted.
The context line in front of a window (title and headings) is the "contextual chunk header" of
dsRAG and Anthropic's contextual retrieval, without a model: the headings say what a piece is about.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from stillroom.schemas.documents import Span
from stillroom.schemas.entries import Entry, Key, KeyKind
from stillroom.schemas.ids import digest, key_id
from stillroom.tokens import TokenCounter
from stillroom.transforms.compress import Compressor
from stillroom.transforms.segment import Segment
from stillroom.transforms.sentences import (
    CERTAIN,
    CHARS_PER_TOKEN,
    Spans,
    sentence_spans,
    separator_size,
    sizes,
    windows,
)

KINDS = (KeyKind.TEXT, KeyKind.PATH, KeyKind.SENTENCE, KeyKind.COMPRESSED)
MIN_SENTENCE_TOKENS = 4  # "See below." and "1." lead nowhere

# A sentence never runs over the start of a list item, a heading, a table row, a quote or a fence.
_NEW_ITEM = re.compile(r"\n(?=[ \t]*(?:[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|\||>|```|~~~))")


@dataclass(frozen=True, slots=True)
class Keyed:
    """An entry with its keys, and how many of their texts had to be cut to fit the encoder."""

    entry: Entry
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class _Text:
    kind: KeyKind
    text: str
    start: int = -1  # in the value; -1 for a made text
    end: int = -1
    about: int = 0  # its size as a sum of parts


def make_keys(
    segment: Segment,
    *,
    kinds: Sequence[KeyKind],
    dense: Collection[KeyKind],
    max_tokens: int,
    tokens: TokenCounter,
    compressor: Compressor | None = None,
    rate: float = 0.75,
) -> Keyed:
    """The segment's entry with keys of the given kinds, each at most `max_tokens` with specials.

    TEXT is the value in as many windows as it takes; their spans hold all of the value that is not
    white space, once. PATH is the title and the headings; SENTENCE one sentence of at least 4 tokens
    (or a window of a longer one); COMPRESSED what `compressor` keeps of the value at `rate`. Before
    TEXT and COMPRESSED stands the context line, of at most a quarter of `max_tokens`, without what
    the value's own first line says again. Raises ValueError for another kind, for COMPRESSED
    without a compressor, and for a `max_tokens` under 16.
    """
    room = max_tokens - tokens.special_tokens
    if max_tokens < 16:
        raise ValueError(f"an encoder's maximum is at least 16 tokens, not {max_tokens}")
    entry = segment.entry
    texts: list[_Text] = []
    truncated = 0
    maker = _Maker(segment, room, tokens)
    for kind in dict.fromkeys(kinds):
        if kind is KeyKind.TEXT:
            texts.extend(maker.windowed(kind, entry.value, segment.tokens))
        elif kind is KeyKind.PATH:
            line = " > ".join(maker.steps)
            cut = maker.shortened(line, room)
            truncated += cut != line
            texts.append(_Text(kind, cut))
        elif kind is KeyKind.SENTENCE:
            texts.extend(maker.sentences(entry.value))
        elif kind is KeyKind.COMPRESSED:
            if compressor is None:
                raise ValueError("keys of kind 'compressed' need a compressor; none was given")
            texts.extend(maker.windowed(kind, compressor.compress(entry.value, rate), 0))
        else:
            known = ", ".join(KINDS)
            raise ValueError(f"make_keys makes keys of kind {known}, not {kind.value!r}")
    checked_texts = maker.fitted(texts)
    truncated += sum(a.text != b.text for a, b in zip(texts, checked_texts, strict=True))
    return Keyed(replace(entry, keys=_keys(entry, checked_texts, dense)), truncated)


class _Maker:
    """What the keys of one segment have in common: its context line and the room beside it."""

    def __init__(self, segment: Segment, room: int, tokens: TokenCounter) -> None:
        entry = segment.entry
        self.segment = segment
        self.room = room
        self.tokens = tokens
        self.known: dict[str, int] = {"": 0}  # sizes of the few texts that are asked for again
        self.gap = separator_size(tokens)
        steps = (entry.title, *entry.path)
        self.steps = [
            " ".join(step.split())
            for i, step in enumerate(steps)
            if step.strip() and (i == 0 or _plain(step) != _plain(steps[i - 1]))
        ]
        self.context = self.shortened(" > ".join(self.steps), room // 4)
        # The first window does not say twice what the value's own heading says.
        said = self.steps and _plain(_first_line(entry.value)) == _plain(self.steps[-1])
        own = " > ".join(self.steps[:-1]) if said else ""
        self.first_context = self.shortened(own, room // 4) if said else self.context

    def size(self, text: str) -> int:
        if text not in self.known:
            (self.known[text],) = sizes([text], self.tokens)
        return self.known[text]

    def shortened(self, text: str, limit: int) -> str:
        """The text, cut after a whole token if it is over the limit."""
        if self.size(text) <= limit:
            return text
        text = text[: limit * CHARS_PER_TOKEN]
        offsets = self.tokens.offsets(text)
        while offsets and self.size(text) > limit:
            offsets = offsets[: min(limit, len(offsets) - 1)]
            text = text[: offsets[-1][1]] if offsets else ""
        return text.rstrip(" >")

    def windowed(self, kind: KeyKind, body: str, size: int) -> list[_Text]:
        """A key for each window of the body, with context and table header in front."""
        if not body.strip():
            return []
        exact = kind is KeyKind.TEXT  # only then are offsets of the body offsets of the value
        header_of = self.segment.table_header if exact else _no_header
        headers = {rows.header for rows in self.segment.tables} if exact else set()
        headers = {h for h in headers if self.size(h) <= self.room // 4}
        if not size or self.gap:  # with a gap, a sum of sizes may miss much white space
            size = self.size(body)
        before, first = self.size(self.context), self.size(self.first_context)
        head = header_of(0) if header_of(0) in headers else ""
        header_size = max(map(self.size, headers), default=0) + self.gap
        if size + first + 2 * self.gap + (header_size if head else 0) <= self.room:
            spans = [(0, len(body), size)]
        else:
            room = self.room - max(before, first) - header_size - 2 * self.gap
            spans = windows(body, room, self.tokens)
        texts: list[_Text] = []
        for start, end, window_size in spans:
            context = self.context if start else self.first_context
            header = header_of(start)
            pieces = (context, header if header in headers else "", body[start:end])
            text = "\n".join(piece for piece in pieces if piece)
            place = (start, end) if exact else (-1, -1)
            about = window_size + max(before, first) + (header_size if header else 0)
            texts.append(_Text(kind, text, *place, about=about))
        return texts

    def sentences(self, value: str) -> list[_Text]:
        """A key for each sentence that says anything."""
        spans: Spans = []
        start = 0
        for end in [*(m.start() for m in _NEW_ITEM.finditer(value)), len(value)]:
            spans.extend((start + a, start + b) for a, b in sentence_spans(value[start:end]))
            start = end
        texts: list[_Text] = []
        for (a, b), size in zip(
            spans, sizes([value[a:b] for a, b in spans], self.tokens), strict=True
        ):
            if size < MIN_SENTENCE_TOKENS:
                continue
            inside = [(0, b - a, size)]
            if size > self.room:
                inside = windows(value[a:b], self.room, self.tokens)
            texts.extend(
                _Text(KeyKind.SENTENCE, value[a + i : a + j], a + i, a + j, about)
                for i, j, about in inside
            )
        return texts

    def fitted(self, texts: list[_Text]) -> list[_Text]:
        """The texts, cut where one is over the encoder's maximum after all."""
        # Sums of sizes are exact for WordPiece; other tokenizers may need some tokens more.
        certain = 0 if self.gap else CERTAIN * self.room
        near = [item for item in texts if item.about > certain]
        measured = self.tokens.count_many([item.text for item in near])
        over = {item for item, count in zip(near, measured, strict=True) if count > self.room}
        return [
            replace(item, text=self.shortened(item.text, self.room)) if item in over else item
            for item in texts
        ]


def _keys(entry: Entry, texts: list[_Text], dense: Collection[KeyKind]) -> tuple[Key, ...]:
    seen: Counter[tuple[KeyKind, str]] = Counter()
    keys = []
    for item in texts:
        if not item.text.strip():
            continue
        name = digest("text", item.text)
        at = entry.span.start
        keys.append(
            Key(
                id=key_id(entry.id, item.kind, name, seen[item.kind, name]),
                entry_id=entry.id,
                kind=item.kind,
                text=item.text,
                span=None
                if item.start < 0
                else Span(entry.span.document_id, at + item.start, at + item.end),
                dense=item.kind in dense,
            )
        )
        seen[item.kind, name] += 1
    return tuple(keys)


def _first_line(value: str) -> str:
    end = value.find("\n")
    return value[: 1000 if end < 0 else min(end, 1000)]


def _plain(line: str) -> str:
    """A heading without marks and letter case, for comparison."""
    line = line.strip().lstrip("#").rstrip("# \t").replace("*", "").replace("`", "")
    return " ".join(line.casefold().split())


def _no_header(offset: int) -> str:
    return ""
