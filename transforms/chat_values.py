"""Values of JSON chat logs: records out of damaged files, safe getters, times and roles.

Nothing here raises for a value of the wrong type: it counts as absent.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from io import StringIO
from typing import Any, TextIO

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.conversations import Conversation, Export
from stillroom.transforms.decode import BinaryContent, decode_text, sniff_encoding
from stillroom.transforms.json_items import json_items, limited_lines
from stillroom.transforms.parsed import Refused, parse_time
from stillroom.transforms.row_formats import open_text

MAX_RECORD_CHARS = 1 << 26  # one conversation's JSON
Record = dict[str, Any]
_ESCAPED = re.compile("[\udc80-\udcff]")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\],]|"', re.DOTALL)
_CLOSING = {"{": "}", "[": "]"}
_ROLES = {
    "user": ("user", "human", "prompter"),
    "assistant": (
        *("assistant", "gpt", "chatgpt", "bing", "bard", "claude", "gemini", "chatbot", "bot"),
        *("model", "ai", "function_call"),
    ),
    "system": ("system", "developer"),
    "tool": ("tool", "function", "observation", "function_response", "tool_response"),
}
_ROLE_OF = {name: role for role, names in _ROLES.items() for name in names}


def text_of(value: Any) -> str:
    """A string or number as text; nothing for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return repr(value) if abs(value) < 1 << 1000 else ""  # not NaN, nor what is no number of a log


def dict_of(value: Any) -> Record:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def role_of(name: str) -> str:
    """The role that a format's word for the speaker stands for; `person` for a name."""
    return _ROLE_OF.get(name.strip().lower(), "person")


def time_of(value: Any, zone: tzinfo) -> datetime | None:
    """When something was said: an epoch number or numeral in seconds or smaller units, or ISO 8601,
    which is in `zone` where it names none. Zero, and what is impossible, is None."""
    try:
        if isinstance(value, str) and not re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", value):
            at = datetime.fromisoformat(value.strip())
            return with_zone(at, zone)
        number = float(value) if isinstance(value, str | int | float) else 0.0
        return parse_time(value) if number > 0 and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None


def with_zone(at: datetime, zone: tzinfo) -> datetime | None:
    """An aware time; None at the ends of the calendar, where it is none in another zone."""
    try:
        aware = at if at.tzinfo else at.replace(tzinfo=zone)
        aware.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return aware


class UniqueKeys:
    """Keys as they are given; a second `a` is `a#2`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, key: str) -> str:
        self._counts[key] += 1
        while (count := self._counts[key]) > 1:
            key = f"{key}#{count}"
            self._counts[key] += 1
        return key


def malformed(what: str, value: Any, wanted: str, key: str = "") -> Refused:
    """A Refused that shows the value which is not what it should be."""
    shown = json.dumps(value, default=str)[:200] if _is_flat(value) else type(value).__name__
    return Refused(RejectReason.MALFORMED, f"{what} is {shown}, not {wanted}", key)


def _is_flat(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def peek(head: bytes) -> Record | None:
    """The object that a file is, as far as its head goes; None for a list, or what is no JSON."""
    is_list = _head_text(head).startswith("[")
    return None if is_list else next(iter(peek_records(head)), None)


def peek_records(head: bytes) -> list[Record]:
    """The objects at the head of a file of records, as `records` finds them. Of one within which the
    head ends, what was complete by then."""
    text = _head_text(head)
    items = _items(StringIO(text), text) if text else iter(())
    found = (_partly_loaded(item or "") for _, item in items)
    return [item for item in found if isinstance(item, dict)]


def _head_text(head: bytes) -> str:
    if b"{" not in head:  # in each encoding: spares most other files the guess of theirs
        return ""
    try:
        encoding, mark = sniff_encoding(head, partial=True)
    except BinaryContent:
        return ""
    return head[mark:].decode(encoding, "replace").strip()


def _partly_loaded(item: str) -> Any:
    value = _loaded(item)
    return _loaded(_closed(item)) if value is None else value


def _closed(text: str) -> str:
    """The first value in `text`; if it is cut off, up to its last comma, with its brackets closed."""
    open_brackets: list[str] = []
    end, closing = 0, ""
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token == '"':  # a string that is cut off
            break
        if token in _CLOSING:
            open_brackets.append(_CLOSING[token])
            end = found.end()
        elif token in "}]":
            if open_brackets:
                open_brackets.pop()
            end = found.end()
            if not open_brackets:
                return text[:end]
        elif token == ",":
            end = found.start()
        else:
            continue
        closing = "".join(reversed(open_brackets))
    return text[:end] + closing


def _is_record(value: Any) -> bool:
    return isinstance(value, dict)


def claimed(
    export: Export, names: Sequence[str], is_ours: Callable[[Record], bool]
) -> Sequence[str]:
    """The files that begin with records of which one `is_ours`."""
    return [name for name in names if any(map(is_ours, peek_records(export.head(name))))]


def records(export: Export, name: str) -> Iterator[tuple[int, Record | Refused]]:
    """The objects of a JSON file with the lines they begin on: the items of its array, values that
    follow each other, or one a line, with or without commas at the ends of the lines.

    As Python's json does, NaN is read, and of two equal names the last counts. Raises Refused.
    """
    with export.open(name) as stream:
        try:
            text, head = open_text(stream, None)
        except BinaryContent as error:
            raise Refused(RejectReason.BINARY, str(error)) from error
        for line, item in _items(text, head):
            if item is None:
                detail = f"line {line}: over {MAX_RECORD_CHARS:,} characters"
                yield line, Refused(RejectReason.TOO_LARGE, detail, f"{name}:{line}")
            elif item:
                yield line, parse_record(item, f"{name}:{line}")


def _items(text: TextIO, head: str) -> Iterator[tuple[int, str | None]]:
    if not _one_to_a_line(head):
        yield from json_items(text, MAX_RECORD_CHARS)
        return
    for line, item in limited_lines(text, MAX_RECORD_CHARS):
        item = item if item is None else item.strip().removesuffix(",")
        if item not in ("[", "]"):
            yield line, item


def _one_to_a_line(head: str) -> bool:
    """Whether a broken record can be told from its neighbours by the line. A first record over
    several lines ends its first line with what has to go on."""
    lines = [line.strip() for line in head.split("\n") if line.strip()][:50]
    first = lines[0].removesuffix(",")
    if _is_record(_loaded(first)):
        return True
    if lines[0].startswith("[") or lines[0].endswith(("{", "[", ",", ":")):
        return False
    return any(_loaded(line.removesuffix(",")) for line in lines[1:] if line.startswith("{"))


def parse_record(item: str, key: str) -> Record | Refused:
    """One item's text as an object, or why it is none. Bytes that were not UTF-8 are decoded by
    themselves: mostly one message of another code page."""
    try:
        if _ESCAPED.search(item):
            item = decode_text(item.encode("utf-8", "surrogateescape"))[0]
        value = json.loads(item, strict=False)
    except (ValueError, RecursionError) as error:
        return Refused(RejectReason.MALFORMED, f"{type(error).__name__}: {error}", key)
    return value if isinstance(value, dict) else malformed("it", value, "an object", key)


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def made_of_records(
    export: Export, name: str, make: Callable[[Record, str], Conversation | Refused]
) -> Iterator[Conversation | Refused]:
    """What `make` makes of each record of a file, given also the record's place in it."""
    for line, record in records(export, name):
        yield record if isinstance(record, Refused) else make(record, f"{name}:{line}")


def read_files(
    names: Sequence[str], read_one: Callable[[str], Iterator[Conversation | Refused]]
) -> Iterator[Conversation | Refused]:
    """What `read_one` makes of each file. A damaged file ends with its Refused and the next goes on;
    one that gives nothing is Refused(EMPTY)."""
    for name in names:
        found = False
        try:
            for made in read_one(name):
                found = True
                yield made
        except Refused as error:
            yield Refused(error.reason, f"{name}: {error.detail}", name)
            continue
        if not found:
            yield Refused(RejectReason.EMPTY, f"{name}: no conversation", name)
