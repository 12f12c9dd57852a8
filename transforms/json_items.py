"""JSON values out of a stream, one at a time: lines, or the items of an array of any length, at the
top or inside an object."""

import json
import re
from collections.abc import Iterator
from typing import Any, TextIO

_CHUNK = 1 << 16
_NAME_CHARS = 1 << 16
_OUTSIDE = re.compile(r'["{}\[\],]')
_INSIDE = re.compile(r'["\\]')
_NESTED = re.compile(r'["{}\[\]]')
_VISIBLE = re.compile(r"\S")
_LEVEL = re.compile(r'["{}\[\],:]')


def limited_lines(stream: TextIO, limit: int) -> Iterator[tuple[int, str | None]]:
    """Lines with their numbers from 1; None for a line over `limit` characters, which is skipped in
    bounded memory."""
    number = 0
    while line := stream.readline(limit + 1):
        number += 1
        if len(line) <= limit or line.endswith("\n"):
            yield number, line
            continue
        while line and not line.endswith("\n"):
            line = stream.readline(_CHUNK)
        yield number, None


def json_items(stream: TextIO, limit: int) -> Iterator[tuple[int, str | None]]:
    """The texts of the items of one array, or of values that follow each other, and the line on
    which each begins; None for one over `limit` characters.

    Only brackets and strings are looked at: whether an item is JSON is for the caller to find out, so
    that one bad item does not lose the others. What is left at a cut-off end is an item too.
    """
    depth, base, line, began = 0, -1, 1, 1
    in_string = escaped = too_long = False
    item: list[str] = []
    size = 0

    def add(text: str) -> None:
        nonlocal size, too_long, began, line
        if not item and not text.strip() and not too_long:
            line += text.count("\n")
            return
        if not item and not too_long:
            blank = len(text) - len(text.lstrip())
            began = line + text[:blank].count("\n")
        line += text.count("\n")
        size += len(text)
        too_long = too_long or size > limit
        if too_long:
            item.clear()
        else:
            item.append(text)

    def take() -> tuple[int, str | None] | None:
        nonlocal size, too_long
        made = None if too_long else "".join(item).strip()
        found = (began, made) if too_long or made else None
        item.clear()
        size, too_long = 0, False
        return found

    while chunk := stream.read(_CHUNK):
        position = 0
        if escaped:
            escaped = False
            add(chunk[0])
            position = 1
        start = position
        while found := (_INSIDE if in_string else _OUTSIDE).search(chunk, position):
            position = found.end()
            char = found[0]
            if in_string:
                if char == "\\":
                    if position == len(chunk):
                        escaped = True
                        break
                    position += 1
                else:
                    in_string = False
                continue
            if char == '"':
                in_string = True
            elif char in "{[":
                if base < 0:
                    base = 1 if char == "[" else 0
                    if base:
                        add(chunk[start : position - 1])
                        start = position
                depth += 1
            elif char in "}]":
                depth -= 1
                if depth < base:  # the array's own end
                    add(chunk[start : position - 1])
                    start = position
                    if ready := take():
                        yield ready
                    depth, base = max(depth, 0), -1
                elif depth == base and base == 0:
                    add(chunk[start:position])
                    start = position
                    if ready := take():
                        yield ready
            elif depth <= max(base, 0):  # a comma between items
                add(chunk[start : position - 1])
                start = position
                if ready := take():
                    yield ready
        add(chunk[start:])
    if ready := take():
        yield ready


class JsonReader:
    """A pull parser over one JSON value. `members` and `items` walk an object or an array; for each,
    the value at hand is read with `text`, walked in turn to its end, or left, which skips it.

    As in `json_items`, only brackets and strings are looked at, so that what is broken costs itself
    and no neighbour. Memory is bounded by the limits that `text` is given. `line` counts from 1.
    """

    def __init__(self, stream: TextIO) -> None:
        self.line = 1
        self._stream, self._chunk, self._at = stream, "", 0

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            found = _VISIBLE.search(self._chunk, self._at)
            end = found.start() if found else max(self._at, len(self._chunk))
            self.line += self._chunk.count("\n", self._at, end)
            self._at = end
            if found:
                return found[0]
            if not self._next_chunk():
                return ""

    def members(self) -> Iterator[str]:
        """The names of the members of the object at hand; nothing if it is no object."""
        if self.peek() != "{":
            return
        self._at += 1
        while (char := self.peek()) not in ("", "}"):
            if char in ",:]":
                self._at += 1
                continue
            name = _loaded(self.text(_NAME_CHARS, stops=":,") or "")
            if self.peek() == ":":
                self._at += 1
                if isinstance(name, str):
                    yield name
                self.text(0)
        self._at += 1

    def items(self) -> Iterator[int]:
        """The line of each item of the array at hand; nothing if it is no array."""
        if self.peek() != "[":
            return
        self._at += 1
        while (char := self.peek()) not in ("", "]"):
            if char in ",}":
                self._at += 1
                continue
            yield self.line
            self.text(0)
        self._at += 1

    def text(self, limit: int, stops: str = ",") -> str | None:
        """What is left of the value at hand, up to one of `stops` or the bracket that closes what it
        is in; None if that is over `limit` characters."""
        self.peek()
        parts: list[str] = []
        size = depth = 0
        quoted = False

        def keep(end: int) -> None:
            nonlocal size
            part = self._chunk[start:end]
            self.line += part.count("\n")
            size += len(part)
            if size > limit:
                parts.clear()
            else:
                parts.append(part)

        start = self._at
        while True:
            marks = _INSIDE if quoted else _NESTED if depth else _LEVEL
            found = marks.search(self._chunk, self._at)
            if not found:
                keep(len(self._chunk))
                start = 0
                if not self._next_chunk():
                    break
                continue
            char = found[0]
            if not quoted and not depth and (char in stops or char in "]}"):
                self._at = found.start()
                keep(self._at)
                break
            self._at = found.end()
            if quoted and char == "\\":
                self._at += 1  # perhaps into the next chunk
            elif char == '"':
                quoted = not quoted
            elif char in "{[":
                depth += 1
            elif char in "}]":
                depth -= 1
        return None if size > limit else "".join(parts).strip()

    def _next_chunk(self) -> bool:
        beyond = max(0, self._at - len(self._chunk))
        self._chunk = self._stream.read(_CHUNK)
        self._at = beyond
        return bool(self._chunk)


def json_members(
    stream: TextIO, limit: int, array: str
) -> Iterator[tuple[int, str | None] | dict[str, Any]]:
    """The items of the array that is one member of an object, as `json_items` gives them, and the
    object's other members as a dict: first those that stand before the array, and last all of them.

    Other members that are no JSON, or over `limit`, are left out of the dict.
    """
    reader = JsonReader(stream)
    header: dict[str, Any] = {}
    for name in reader.members():
        if name == array and reader.peek() == "[":
            yield dict(header)
            for line in reader.items():
                yield line, reader.text(limit)
        elif (text := reader.text(limit)) and (value := _loaded(text)) is not None:
            header[name] = value
    yield header


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
