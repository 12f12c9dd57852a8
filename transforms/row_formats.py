"""Rows out of JSONL, JSON arrays, CSV, TSV and Parquet, as mappings of columns, streamed."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.archives import seekable
from stillroom.transforms.decode import decode_text, sniff_encoding
from stillroom.transforms.json_items import json_items, limited_lines
from stillroom.transforms.parsed import Refused

Row = Mapping[Any, Any]
HEAD_BYTES = 1 << 20  # what encoding and dialect are told from
PARQUET_ROWS = 64
_ESCAPED = re.compile("[\udc80-\udcff]")


def json_rows(stream: BinaryIO, limit: int) -> Iterator[tuple[int, Row | Refused]]:
    """Objects with the line each begins on: one to a line, or the items of an array, or objects that
    go over several lines."""
    text, head = open_text(stream, None)
    lines = _one_to_a_line(head)
    for number, item in (limited_lines if lines else json_items)(text, limit):
        if item is None:
            yield (
                number,
                Refused(
                    RejectReason.TOO_LARGE, f"line {number}: over {limit:,} characters", str(number)
                ),
            )
        elif item.strip():
            yield number, _json_row(number, item)


def _json_row(number: int, item: str) -> Row | Refused:
    try:
        row = json.loads(_mend(item))
    except (ValueError, RecursionError) as error:
        return Refused(
            RejectReason.MALFORMED, f"line {number}: {type(error).__name__}: {error}", str(number)
        )
    if not isinstance(row, dict):
        return Refused(
            RejectReason.MALFORMED,
            f"line {number}: a {type(row).__name__}, not an object",
            str(number),
        )
    return row


def _one_to_a_line(head: str) -> bool:
    """Whether values are one to a line. Any early line that is a whole object shows it, so that a
    broken first row does not turn a file of lines into one unreadable value."""
    lines = [line for line in head.split("\n") if line.strip()][:50]
    values = [_loaded(line) for line in lines]
    if lines[0].lstrip().startswith("[") and (len(lines) == 1 or values[0] is None):
        return False
    if len(lines) == 1 or any(isinstance(value, dict) and value for value in values):
        return True
    return not lines[0].lstrip().startswith("{") or lines[0].rstrip().endswith("}")


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def csv_rows(stream: BinaryIO, kind: str, limit: int) -> Iterator[tuple[int, Row | Refused]]:
    """Rows counted from 1 below the header, whose names they have. The delimiter of CSV is the
    commonest of `,;|` and tab in the header. Ragged rows are Refused(MALFORMED)."""
    csv.field_size_limit(2**31 - 1)  # ours is by the record, below
    text, head = open_text(stream, "")
    lines = _RecordLines(text, limit)
    delimiter, quoting = _dialect(head, kind)
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
    header: list[str] | None = None
    number = 0
    while True:
        lines.size = 0
        line = lines.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except (csv.Error, _RecordTooLong) as error:
            number += 1
            reason = RejectReason.MALFORMED
            if isinstance(error, _RecordTooLong):
                reason = RejectReason.TOO_LARGE
            yield number, Refused(reason, f"line {line}: {error}", str(number))
            reader = csv.reader(lines, delimiter=delimiter, quoting=quoting)
            continue
        if not any(field.strip() for field in fields):
            continue
        fields = [_mend(field) for field in fields]
        if header is None:
            header = _header(fields)
            continue
        number += 1
        if len(fields) != len(header):
            yield (
                number,
                Refused(
                    RejectReason.MALFORMED,
                    f"line {line}: {len(fields)} fields; the header has {len(header)}",
                    str(number),
                ),
            )
        else:
            yield number, dict(zip(header, fields, strict=True))


class _RecordTooLong(Exception):
    pass


class _RecordLines:
    """Lines for csv.reader: an open quote must not draw a whole file into one field."""

    def __init__(self, text: io.TextIOWrapper, limit: int) -> None:
        self.lines = limited_lines(text, limit)
        self.limit = limit
        self.number = self.size = 0

    def __iter__(self) -> "_RecordLines":
        return self

    def __next__(self) -> str:
        self.number, line = next(self.lines)
        self.size += self.limit + 1 if line is None else len(line)
        if line is None or self.size > self.limit:
            raise _RecordTooLong(f"a record over {self.limit:,} characters; an open quote?")
        return line


def _dialect(head: str, kind: str) -> tuple[str, Any]:
    first = head.split("\n", 1)[0]
    bare = re.sub(r'"[^"]*"', "", first)
    delimiter = "\t" if kind == "tsv" else max(",;\t|", key=bare.count)
    if delimiter != "\t":
        return delimiter, csv.QUOTE_MINIMAL
    # Most TSV has no quoting (MS MARCO, BEIR), and a quotation mark that opens a field there would
    # swallow the rows after it. It is quoted if each field that opens with a mark ends with one.
    opened = [
        field.strip("\r")
        for line in head.split("\n")[:-1]
        for field in line.split("\t")
        if field.startswith('"')
    ]
    quoted = opened and all(len(field) > 1 and field.endswith('"') for field in opened)
    return delimiter, csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE


def _header(fields: list[str]) -> list[str]:
    """Column names, each once: a nameless one is `column3`, a second `text` is `text_2`."""
    names: list[str] = []
    for i, field in enumerate(fields, 1):
        name = base = field.strip().removeprefix("\ufeff") or f"column{i}"
        count = 1
        while name in names:
            count += 1
            name = f"{base}_{count}"
        names.append(name)
    return names


def parquet_rows(stream: BinaryIO) -> Iterator[tuple[int, Row | Refused]]:
    """Rows counted from 1, a small batch in memory. Raises Refused(CORRUPT)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        table = pq.ParquetFile(seekable(stream))
        for batch in table.iter_batches(batch_size=PARQUET_ROWS):
            names = batch.schema.names
            columns = [_values(column) for column in batch.columns]
            for i in range(batch.num_rows):
                number += 1
                yield number, {name: col[i] for name, col in zip(names, columns, strict=True)}
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, Refused):
            raise
        first = next(iter(str(error).splitlines()), "")
        raise Refused(RejectReason.CORRUPT, f"{type(error).__name__}: {first}") from error


def _values(column: Any) -> list[Any]:
    import pyarrow as pa

    try:
        return cast(list[Any], column.to_pylist())
    except (OverflowError, ValueError, pa.ArrowException):
        # a time outside Python's range; a string column that is not UTF-8
        made = []
        for value in column:
            try:
                made.append(value.as_py())
            except UnicodeDecodeError:
                made.append(value.as_buffer().to_pybytes())
            except (OverflowError, ValueError, pa.ArrowException):
                made.append(str(getattr(value, "value", "")) or None)
        return made


def open_text(stream: BinaryIO, newline: str | None) -> tuple[io.TextIOWrapper, str]:
    """A row file as text, and its beginning. The encoding is told from the first megabyte; bytes
    that are not UTF-8 further on become surrogates for `_mend`, so that they cost one row at most.

    Raises BinaryContent, and Refused(EMPTY).
    """
    ahead = _Ahead(stream, HEAD_BYTES)
    if not ahead.head.strip():
        raise Refused(RejectReason.EMPTY, "nothing but white space" if ahead.head else "no bytes")
    encoding, mark = sniff_encoding(ahead.head, partial=True)
    errors = "surrogateescape" if encoding == "utf-8" else "replace"
    head = ahead.head[mark:].decode(encoding, "replace")
    ahead.skip(mark)
    reader = io.BufferedReader(cast(Any, ahead), 1 << 16)
    return io.TextIOWrapper(reader, encoding=encoding, errors=errors, newline=newline), head


def _mend(text: str) -> str:
    """Bytes that were not UTF-8, decoded by themselves: mostly one row of another code page."""
    if _ESCAPED.search(text):
        return decode_text(text.encode("utf-8", "surrogateescape"))[0]
    return text


class _Ahead(io.RawIOBase):
    """A stream whose head was read in advance. Damage within the head is raised after the head."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        chunks, self._error = list[bytes](), cast(Exception | None, None)
        read = getattr(stream, "read1", stream.read)
        try:
            while size > 0 and (chunk := read(min(size, 1 << 16))):
                chunks.append(chunk)
                size -= len(chunk)
        except Refused as error:
            self._error = error
        self.head = b"".join(chunks)
        if self._error and not self.head:
            raise self._error
        self._rest = memoryview(self.head)
        self._stream = stream

    def skip(self, count: int) -> None:
        self._rest = self._rest[count:]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            if self._error:
                raise self._error
            read = getattr(self._stream, "read1", self._stream.read)
            self._rest = memoryview(read(len(buffer)))
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
