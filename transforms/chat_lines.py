"""Plain-text chat logs: their lines, however long or badly encoded, and ids for what has none."""

import io
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO, TextIO, cast

from stillroom.schemas.ids import digest
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.decode import BinaryContent
from stillroom.transforms.json_items import limited_lines
from stillroom.transforms.parsed import Refused
from stillroom.transforms.row_formats import open_text

MAX_LINE_CHARS = 1 << 24
REMEMBERED = 1 << 16
_ESCAPED = re.compile("[\udc80-\udcff]")


class ContentIds:
    """Ids of messages that have none: a digest of time as written, speaker, text and the ordinal
    among equal ones, so that two equal messages of one minute are two, and the same two in a longer
    export. Equal ones have equal times and thus lie close to each other: only the last ones are
    remembered."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()

    def seen(self, time: str, speaker: str, text: str) -> bool:
        """Whether there was one like it."""
        return digest(time, speaker, text) in self._seen

    def __call__(self, time: str, speaker: str, text: str) -> str:
        name = digest(time, speaker, text)
        ordinal = self._seen.pop(name, -1) + 1
        self._seen[name] = ordinal
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return digest(time, speaker, text, ordinal)


def text_lines(stream: BinaryIO, sniff: bool = True) -> Iterator[str | Refused]:
    """Lines without their ends; a Refused for one over 16 M characters.

    The file's encoding is told from its beginning; without `sniff` it is UTF-8. A line that is
    something else is read as Windows-1252, as clients do: channels mix the two. Raises Refused.
    """
    text = sniffed_text(stream) if sniff else _utf8(stream)
    for number, line in limited_lines(text, MAX_LINE_CHARS):
        if line is None:
            yield Refused(
                RejectReason.TOO_LARGE,
                f"line {number}: over {MAX_LINE_CHARS:,} characters",
                str(number),
            )
        else:
            yield _mended(line.rstrip("\n"))


def sniffed_text(stream: BinaryIO) -> TextIO:
    """A file as text, in the encoding that its beginning shows; damage is raised at the end of what
    came before it. Raises Refused."""
    quiet = _Quiet(stream)
    try:
        text = open_text(cast(BinaryIO, quiet), None)[0]
    except BinaryContent as error:
        raise Refused(RejectReason.BINARY, str(error)) from error
    except Refused as refused:
        raise quiet.damage or refused from None
    return cast(TextIO, _Text(text, quiet))


def read_rest(text: TextIO) -> None:
    """Reads on to the end of a file whose value is complete: archives tell of damage only there."""
    while text.read(1 << 16):
        pass


class _Quiet(io.RawIOBase):
    """A stream that ends where it is damaged. Readers ask for more than they need at once: if that
    raised, they would lose what they had."""

    def __init__(self, stream: BinaryIO) -> None:
        self.damage: Refused | None = None
        self._read = getattr(stream, "read1", stream.read)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            made = b"" if self.damage else self._read(len(buffer))
        except Refused as refused:
            self.damage, made = refused, b""
        buffer[: len(made)] = made
        return len(made)


class _Text:
    """The two methods of a text that are used of one, with the damage at its end."""

    def __init__(self, text: TextIO, quiet: _Quiet) -> None:
        self._text, self._quiet = text, quiet

    def read(self, size: int) -> str:
        return self._or_damage(self._text.read(size))

    def readline(self, size: int) -> str:
        return self._or_damage(self._text.readline(size))

    def _or_damage(self, made: str) -> str:
        if not made and self._quiet.damage:
            raise self._quiet.damage
        return made


def head_lines(head: bytes) -> list[str]:
    """The lines of a file's head, as far as they can be told without looking further."""
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8"
    text = head.decode(encoding, "replace").removeprefix("\ufeff")
    return [line.rstrip("\r") for line in text.split("\n")]


def _utf8(stream: BinaryIO) -> TextIO:
    quiet = _Quiet(stream)
    text = io.TextIOWrapper(
        io.BufferedReader(quiet), encoding="utf-8-sig", errors="surrogateescape"
    )
    return cast(TextIO, _Text(text, quiet))


def _mended(line: str) -> str:
    if _ESCAPED.search(line):
        return line.encode("utf-8", "surrogateescape").decode("cp1252", "replace")
    return line
