"""Where a text may be cut: after sentences, else lines, else words, else tokens.

Sentence ends come from sentencex, Wikimedia's rule-based segmenter: it knows abbreviations, decimals
and the stops of about 300 writing systems, gives exact offsets, and reads over 50 MB a second.

Sizes are tokens of the encoder's tokenizer, with one correction: a WordPiece tokenizer turns a word
of a million letters into one [UNK], which is no reason to call it small, so that a text counts at
least one token for every `CHARS_PER_TOKEN` characters that are not white space.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import sentencex  # type: ignore[import-untyped]

from stillroom.tokens import TokenCounter

CHARS_PER_TOKEN = 10  # no language's ordinary text comes near it: English has four or five
Spans = list[tuple[int, int]]

_BATCH_CHARS = 500_000  # what is tokenized at once; a token's record takes some hundred bytes
_SLICE_CHARS = 100_000
CERTAIN = 0.9  # below this share of the limit, a sum of sizes needs no second look
_LINE = re.compile(r"[^\n]+")
_STOP = re.compile(r"[.!?]['\")\]]*\s+|[。！？]+|\n\s*\n")
_WINDOW_CHARS = 5_000
_SURROGATE = re.compile("[\ud800-\udfff]")


def sentence_spans(text: str, language: str = "en") -> Spans:
    """The sentences of a text as (start, end) in code points, white space around them left out.

    Spans are in order and disjoint, and every character that is not white space is in one of them.
    `language` (ISO 639-1) chooses the abbreviations; the stops of other scripts are always known.
    """
    readable = _SURROGATE.sub("\ufffd", text)  # sentencex takes UTF-8; offsets stay as they are
    spans = []
    start = 0
    while start < len(readable):
        for end in _sentence_ends(readable, start, language):
            spans.append((start, end))
            start = end
    return _trimmed(text, spans)


def _sentence_ends(text: str, start: int, language: str) -> list[int]:
    """Where the next sentences end.

    sentencex is given some thousand characters at a time: its time grows with the square of a
    paragraph's sentences, and a quotation mark that is never closed hides all the stops after it.
    """
    stop = min(start + _WINDOW_CHARS, len(text))
    window = text[start:stop]
    found = sentencex.get_sentence_boundaries(language, window)
    ends = [start + boundary["end_index"] for boundary in found]
    if stop == len(text):
        return [*ends, stop]
    ends = ends[:-1]  # the last one may go on beyond the window
    if not ends:
        ends = [start + match.end() for match in _STOP.finditer(window)]
    if not ends:
        match = _STOP.search(text, stop)
        ends = [match.end() if match else len(text)]
    return ends


def sizes(texts: Sequence[str], tokens: TokenCounter) -> list[int]:
    """The size of each text in tokens, special tokens apart, tokenized in few and bounded batches."""
    counts: list[int] = []
    batch: list[str] = []
    chars = 0
    for text in texts:
        if len(text) > _BATCH_CHARS:  # tokenized in slices: near enough, for it will be cut anyway
            slices = [text[i : i + _SLICE_CHARS] for i in range(0, len(text), _SLICE_CHARS)]
            counts.extend(tokens.count_many(batch))
            counts.append(sum(tokens.count(piece) for piece in slices))
            batch, chars = [], 0
            continue
        if chars + len(text) > _BATCH_CHARS:
            counts.extend(tokens.count_many(batch))
            batch, chars = [], 0
        batch.append(text)
        chars += len(text)
    counts.extend(tokens.count_many(batch))
    return [
        # The quick test spares ordinary texts the look at their characters.
        count
        if len(text) <= count * CHARS_PER_TOKEN
        else max(count, -(-len("".join(text.split())) // CHARS_PER_TOKEN))
        for text, count in zip(texts, counts, strict=True)
    ]


def units(
    text: str,
    start: int,
    end: int,
    limit: int,
    tokens: TokenCounter,
    levels: Sequence[str] = ("sentences", "lines"),
) -> list[tuple[int, int, int]]:
    """The parts of `text[start:end]` as (start, end, size), each of at most `limit` tokens.

    Parts are sentences; a sentence over the limit is cut at line ends, a line over the limit before
    words, and a word over the limit between tokens, never inside what is seen as one character if
    that can be helped. White space between parts belongs to none.
    """
    if not levels:
        return _token_units(text, start, end, limit, limit, tokens)
    inside = text[start:end]
    if levels[0] == "sentences":
        spans = sentence_spans(inside)
    else:
        spans = _trimmed(inside, [match.span() for match in _LINE.finditer(inside)])
    if len(spans) > 10_000 and len(inside) < 20 * len(spans):
        # Millions of tiny parts: cutting by tokens (which also prefers line ends) takes less memory.
        return _token_units(text, start, end, limit, limit, tokens)
    found = []
    for (a, b), size in zip(spans, sizes([inside[a:b] for a, b in spans], tokens), strict=True):
        if size <= limit:
            found.append((start + a, start + b, size))
        else:
            found.extend(units(text, start + a, start + b, limit, tokens, levels[1:]))
    return found


def windows(text: str, limit: int, tokens: TokenCounter) -> list[tuple[int, int, int]]:
    """The fewest spans of at most `limit` tokens that hold all of a text: (start, end, about its size).

    They are of about equal size: 337 tokens under a limit of 254 give two windows of about 170, not
    one of 250 and one of 87.
    """
    parts = units(text, 0, len(text), limit, tokens)
    gap = separator_size(tokens)
    low, high = 1, limit
    fewest = len(pack([size for *_, size in parts], limit, gap))
    while low < high:  # the smallest limit that needs no more windows
        middle = (low + high) // 2
        if len(pack([size for *_, size in parts], middle, gap)) <= fewest:
            high = middle
        else:
            low = middle + 1
    groups = pack([size for *_, size in parts], high, gap)
    return [
        (parts[a][0], parts[b - 1][1], sum(size + gap for *_, size in parts[a:b]))
        for a, b in checked(text, parts, groups, limit, tokens)
    ]


def pack(part_sizes: Sequence[int], limit: int, gap: int = 0) -> Spans:
    """Runs of neighbouring parts, as (first, last + 1), each as long as fits `limit`.

    A part over the limit is a run of its own. `gap` is the size of what stands between two parts.
    """
    runs = []
    first = total = 0
    for index, size in enumerate(part_sizes):
        if index > first and total + gap + size > limit:
            runs.append((first, index))
            first, total = index, size
        else:
            total += size + (gap if index > first else 0)
    return [*runs, (first, len(part_sizes))] if part_sizes else []


def checked(
    text: str,
    parts: Sequence[tuple[int, int, int]],
    runs: Spans,
    limit: int,
    tokens: TokenCounter,
) -> Spans:
    """The same runs, halved where the whole run has more tokens than the sum of its parts said."""
    # Where white space costs tokens, how much of it there is decides: then every run is measured.
    certain = 0 if separator_size(tokens) else CERTAIN * limit
    near = [(a, b) for a, b in runs if b - a > 1 and sum(size for *_, size in parts[a:b]) > certain]
    measured = sizes([text[parts[a][0] : parts[b - 1][1]] for a, b in near], tokens)
    over = {run for run, size in zip(near, measured, strict=True) if size > limit}
    if not over:
        return runs
    halved: Spans = []
    for a, b in runs:
        middle = (a + b) // 2
        halved.extend([(a, middle), (middle, b)] if (a, b) in over else [(a, b)])
    return checked(text, parts, halved, limit, tokens)


@lru_cache(maxsize=16)
def separator_size(tokens: TokenCounter) -> int:
    """Tokens that a blank line between two texts costs: 0 for WordPiece, 1 for most BPE."""
    joined, single = tokens.count_many(["one\n\none", "one"])
    return max(0, joined - 2 * single)


def _token_units(
    text: str, start: int, end: int, limit: int, target: int, tokens: TokenCounter
) -> list[tuple[int, int, int]]:
    """Pieces of about `target` tokens; those that still measure over `limit` are cut again."""
    spans: Spans = []
    at = start
    while at < end:
        stop = end if end - at <= _SLICE_CHARS else _back_up(text, at, at + _SLICE_CHARS)
        spans.extend(_slice_spans(text, at, stop, target, tokens))
        at = stop
    spans = _trimmed(text, spans)
    found = []
    for (a, b), size in zip(spans, sizes([text[a:b] for a, b in spans], tokens), strict=True):
        if size <= limit or target == 1:
            found.append((a, b, size))
        else:
            found.extend(_token_units(text, a, b, limit, max(1, target * 3 // 4), tokens))
    return found


def _slice_spans(text: str, start: int, end: int, target: int, tokens: TokenCounter) -> Spans:
    offsets = tokens.offsets(text[start:end])
    spans: Spans = []
    at, first = start, 0
    while at < end:
        last = min(first + target, len(offsets))
        stop = end if last >= len(offsets) else start + offsets[last][0]
        stop = min(max(stop, at + 1), at + target * CHARS_PER_TOKEN, end)
        if stop < end:
            stop = _back_up(text, at, stop)
        spans.append((at, stop))
        at = stop
        while first < len(offsets) and start + offsets[first][0] < at:
            first += 1
    return spans


def _back_up(text: str, start: int, stop: int) -> int:
    """The best place to cut at or before `stop`: in the later half a line end, else a space."""
    middle = start + (stop - start) // 2
    line = text.rfind("\n", middle, stop)
    if line > start:
        return line
    if not (text[stop].isspace() or text[stop - 1].isspace()):
        for place in range(stop - 1, max(middle, stop - 1000, start), -1):
            if text[place].isspace():
                return place
    place = stop
    while place > max(start + 1, stop - 64) and _joined(text, place):
        place -= 1
    return stop if _joined(text, place) else place


def _joined(text: str, place: int) -> bool:
    """Whether the characters before and after `place` are seen as one."""
    after, before = text[place], text[place - 1]
    return (
        unicodedata.category(after)[0] == "M"  # accents, vowel signs, variation selectors
        or "\u200d" in (after, before)  # joined emoji
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\u1160" <= after <= "\u11ff"  # Hangul vowels and finals
        or ("\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff")
    )


def _trimmed(text: str, spans: Spans) -> Spans:
    kept = []
    for start, end in spans:
        inside = text[start:end]
        right = inside.rstrip()
        if right:
            kept.append((start + len(right) - len(right.lstrip()), start + len(right)))
    return kept
