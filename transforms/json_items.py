"""JSON values out of a stream, one at a time: lines, or the items of an array of any length."""

import re
from collections.abc import Iterator
from typing import TextIO

_CHUNK = 1 << 16
_OUTSIDE = re.compile(r'["{}\[\],]')
_INSIDE = re.compile(r'["\\]')


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
