"""The streams inside a file: gzip, zstandard and zip, nested, in bounded memory and bounded size.

Nothing is extracted to disk under its own name, so member names such as `../../x` are only names.
"""

import io
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.files import COMPRESSED, format_of, is_hidden
from stillroom.transforms.parsed import Refused

# What one file may expand to, in bytes: the greater of a floor and a multiple of its own size.
# Text compresses 3 to 20 times, logs up to 100; a bomb thousands of times.
MIN_EXPANDED_BYTES = 1 << 30
MAX_EXPANSION = 200
MAX_DEPTH = 4  # archives in archives
SPOOL_BYTES = 1 << 24  # a nested archive up to this size stays in memory
HEAD_BYTES = 4096
_CHUNK = 1 << 16
_ZSTD_CHUNK = 1 << 11  # one zstandard byte may give 32 kB, and its decompressor has no output limit

_UNREAD = {  # recognised, so that the reject can say what it is
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\0": "an xz file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old binary office file (.doc, .xls, .ppt)",
    b"{\\rtf": "an RTF file",
    b"SQLite format 3\0": "an SQLite database",
}


class Budget:
    """How many more bytes a file may expand to; shared by all that is inside it."""

    def __init__(self, size: int) -> None:
        self.limit = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * size)
        self.left = self.limit

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Refused(
                RejectReason.TOO_LARGE, f"expands to more than {self.limit:,} bytes; a zip bomb?"
            )


@dataclass(frozen=True, slots=True)
class Part:
    """One stream: the file itself (`member` is empty) or what an archive holds under that name."""

    member: str
    format: str
    stream: BinaryIO


def open_parts(
    stream: BinaryIO, name: str, budget: Budget, member: str = "", depth: int = 0
) -> Iterator[Part | tuple[str, Refused]]:
    """The streams in one, depth first; a part that cannot be opened is (member, why).

    Formats come from names; where a name says nothing, or says `.gz` and lies (servers decompress in
    passing), from the first bytes. A part is to be read before the next one is asked for. Rows before
    damage are readable: the damage is raised, as Refused, where it is met.
    """
    source = io.BufferedReader(cast(Any, stream), _CHUNK) if depth else stream
    try:
        head = _peek(source)
    except Refused as refused:
        yield member, refused
        return
    lower, kind = name.lower(), format_of(name)
    if not head:
        yield Part(member, "text", source)  # an empty file is empty, whatever its name
        return
    packed = sniff(head) if kind == "" or lower.endswith((*COMPRESSED, ".zip")) else ""
    if packed in ("gzip", "zstd"):
        if depth >= MAX_DEPTH:
            yield member, _too_deep()
            return
        inner = name[: name.rfind(".")] if lower.endswith(COMPRESSED) else name
        opened = decompressed(source, budget)
        yield from open_parts(opened, inner, budget, member, depth + 1)
    elif packed == "zip" or lower.endswith(".zip"):
        if depth >= MAX_DEPTH:
            yield member, _too_deep()
            return
        try:
            whole = seekable(source)
        except Refused as refused:
            yield member, refused
            return
        yield from _zip_parts(whole, budget, member, depth)
    elif packed.startswith(("a ", "an ")):
        yield member, Refused(RejectReason.UNSUPPORTED, f"{packed} has no reader")
    else:
        yield Part(member, kind or packed, source)


def sniff(head: bytes) -> str:
    """What content is by its first bytes: a format, `gzip`, `zstd`, the name of a kind that has no
    reader (`a RAR archive`), or empty. Text is told from binary by decoding it, not here."""
    for magic, name in _UNREAD.items():
        if head.startswith(magic):
            return name
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        office = (b"[Content_Types].xml", b"mimetypeapplication/epub", b"word/", b"ppt/", b"xl/")
        return "office" if any(mark in head for mark in office) else "zip"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head[257:262] == b"ustar":
        return "a tar archive"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:15].lower()
    return "html" if start.startswith((b"<!doctype html", b"<html")) else ""


def decompressed(stream: BinaryIO, budget: Budget) -> BinaryIO:
    """A stream without its gzip or zstandard, counted against a budget; any other as it is."""
    packed = sniff(_peek(stream))
    if packed not in ("gzip", "zstd"):
        return stream
    chunks = _gunzip(stream) if packed == "gzip" else _unzstd(stream)
    return cast(BinaryIO, _Chunks(chunks, budget))


def seekable(stream: BinaryIO) -> BinaryIO:
    """The stream, or a copy of it in memory or a nameless temporary file, that can seek."""
    if stream.seekable():
        return stream
    copy = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - closed when collected
    while chunk := stream.read(_CHUNK):
        copy.write(chunk)
    copy.seek(0)
    return cast(BinaryIO, copy)


def read_all(stream: BinaryIO, limit: int) -> bytes:
    """All bytes of a stream. Raises Refused(TOO_LARGE) once there are more than `limit`."""
    chunks, size = list[bytes](), 0
    while chunk := stream.read(min(_CHUNK * 16, limit - size + 1)):
        size += len(chunk)
        if size > limit:
            raise Refused(RejectReason.TOO_LARGE, f"more than {limit:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _zip_parts(
    stream: BinaryIO, budget: Budget, outer: str, depth: int
) -> Iterator[Part | tuple[str, Refused]]:
    try:
        archive = zipfile.ZipFile(stream)
        infos = sorted(archive.infolist(), key=lambda info: info.filename)
    except Exception as error:  # noqa: BLE001 - zipfile lets struct and Unicode errors through
        yield outer, Refused(RejectReason.CORRUPT, f"not a whole zip: {error}")
        return
    members = [info for info in infos if not info.is_dir() and not is_hidden(info.filename)]
    if not members:
        yield outer, Refused(RejectReason.EMPTY, "an archive without files")
    for info in members:
        name = info.filename.encode("utf-8", "replace").decode("utf-8")
        member = f"{outer}!{name}" if outer else name
        try:
            opened = open_member(archive, info, budget)
        except Refused as refused:
            yield member, refused
            continue
        yield from open_parts(opened, name, budget, member, depth + 1)
        if budget.left < 0:  # said once, by the member that went over; the rest is not read
            return


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> BinaryIO:
    """One member of a zip, counted against a budget. Raises Refused."""
    if info.flag_bits & 1:
        raise Refused(RejectReason.ENCRYPTED, "the member needs a password")
    try:
        opened = archive.open(info)
    except NotImplementedError as error:  # a compression that zipfile does not know
        raise Refused(RejectReason.UNSUPPORTED, str(error)) from error
    except Exception as error:
        raise Refused(RejectReason.CORRUPT, f"{type(error).__name__}: {error}") from error
    return guarded(opened, budget)


def guarded(stream: Any, budget: Budget) -> BinaryIO:
    """A stream that counts against a budget, and calls any damage CORRUPT."""
    return cast(BinaryIO, _Chunks(_chunks(stream), budget))


def _too_deep() -> Refused:
    return Refused(RejectReason.UNSUPPORTED, f"archives nested deeper than {MAX_DEPTH}")


def _peek(stream: BinaryIO) -> bytes:
    if isinstance(stream, io.BufferedReader):
        return stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return head


def _chunks(stream: Any) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _gunzip(stream: BinaryIO) -> Iterator[bytes]:
    """Any number of members. gzip.GzipFile drops what it has decoded when it meets damage."""
    inflate, data = None, b""
    while data := data or stream.read(_CHUNK):
        if inflate is None:
            if not data.strip(b"\0"):  # tapes pad with zeros
                data = b""
                continue
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        yield inflate.decompress(data, _CHUNK)
        data = inflate.unconsumed_tail
        if inflate.eof:
            data, inflate = inflate.unused_data, None
    if inflate is not None:
        yield inflate.flush()
        raise Refused(RejectReason.CORRUPT, "the gzip stream is cut off")


def _unzstd(stream: BinaryIO) -> Iterator[bytes]:
    """Any number of frames. zstandard's own stream reader takes a cut-off frame for a whole one."""
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    inflate, data = None, b""
    while data := data or stream.read(_ZSTD_CHUNK):
        inflate = inflate or decompressor.decompressobj()
        yield inflate.decompress(data)
        data = b""
        if inflate.eof:
            data, inflate = inflate.unused_data, None
    if inflate is not None:
        raise Refused(RejectReason.CORRUPT, "the zstandard stream is cut off")


class _Chunks(io.RawIOBase):
    """Chunks as a stream that counts against a budget, and calls any damage CORRUPT."""

    def __init__(self, chunks: Iterator[bytes], budget: Budget) -> None:
        self._next: Callable[[], bytes | None] = lambda: next(chunks, None)
        self._budget = budget
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            try:
                chunk = self._next()
            except (Refused, MemoryError):
                raise
            except Exception as error:
                raise Refused(RejectReason.CORRUPT, f"{type(error).__name__}: {error}") from error
            if chunk is None:
                return 0
            self._budget.spend(len(chunk))
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
