"""One input file in, its documents and rejects out. No error leaves here: each becomes a Reject."""

import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from apache_beam.io.filesystem import BeamIOError

from stillroom.schemas.documents import Document
from stillroom.schemas.ids import document_id
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms.archives import Budget, Part, open_parts, read_all
from stillroom.transforms.decode import BinaryContent, clean_text
from stillroom.transforms.files import SPECIAL, InputFile, open_file
from stillroom.transforms.parsed import Parsed, Refused
from stillroom.transforms.read_rows import read_rows
from stillroom.transforms.read_text import byte_limit, read_whole

STAGE = "read"
ROW_FORMATS = ("jsonl", "csv", "tsv", "parquet")
MAX_DETAIL = 500


def read_files(
    files: Sequence[InputFile], source: Source, max_chars: int
) -> Iterator[Document | Reject]:
    """`read_file` for each of them."""
    for file in files:
        yield from read_file(file, source, max_chars)


def read_file(file: InputFile, source: Source, max_chars: int) -> Iterator[Document | Reject]:
    """The documents of a file, and a Reject for each part, row or whole that gives none.

    The format is the source's, else the name's, else the content's. Documents come before the Reject
    for the damage that ended them. Never raises, on whatever bytes; texts are at most `max_chars`
    code points. A Reject's `document_id` is that of the document it would have been (of the file or
    member itself, if it holds rows and no row is to blame).
    """
    try:
        if file.format == SPECIAL:
            raise Refused(RejectReason.UNSUPPORTED, "a socket, fifo or device, not a file")
        with open_file(file) as stream:
            for part in open_parts(stream, file.path, Budget(file.size)):
                if isinstance(part, Part):
                    yield from _read_part(file, part, source, max_chars)
                else:
                    member, refused = part
                    yield make_reject(file, member, refused)
    except Exception as error:  # noqa: BLE001 - it belongs to this file, and is told
        yield make_reject(file, "", refusal(error, opening=True))


def _read_part(
    file: InputFile, part: Part, source: Source, max_chars: int
) -> Iterator[Document | Reject]:
    kind = part.format if source.format == "auto" else source.format
    try:
        if kind in ROW_FORMATS:
            for row in read_rows(part.stream, kind, source, max_chars):
                if isinstance(row, Refused):
                    yield make_reject(file, part.member, row)
                else:
                    yield _document(file, part.member, row)
        else:
            yield _document(file, part.member, _whole(part.stream, kind, file, part, max_chars))
    except Exception as error:  # noqa: BLE001 - the other parts are still to be read
        yield make_reject(file, part.member, refusal(error))


def _whole(stream: BinaryIO, kind: str, file: InputFile, part: Part, max_chars: int) -> Parsed:
    name = part.member.rpartition("!")[2] or file.path
    for suffix in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(suffix)
    return read_whole(kind, read_all(stream, byte_limit(kind, max_chars)), name, max_chars)


def refusal(error: Exception, opening: bool = False) -> Refused:
    """The reason for an error, and its class and first line."""
    if isinstance(error, Refused):
        return error
    first = next(iter(str(error).splitlines()), "")
    detail = f"{type(error).__name__}: {first}"
    if isinstance(error, BinaryContent):
        return Refused(RejectReason.BINARY, first)
    if isinstance(error, MemoryError):
        return Refused(RejectReason.TOO_LARGE, detail)
    if isinstance(error, OSError | BeamIOError) and not isinstance(error, zlib.error):
        return Refused(RejectReason.UNREADABLE, detail)
    # An unknown scheme is a ValueError of Beam's.
    return Refused(RejectReason.UNREADABLE if opening else RejectReason.CORRUPT, detail)


def _document(file: InputFile, member: str, parsed: Parsed) -> Document:
    return Document(
        id=document_id(file.source, file.path, member, parsed.key),
        source=file.source,
        source_key=parsed.key or (f"{file.path}!{member}" if member else file.path),
        uri=_uri(file, member, parsed.key),
        kind=parsed.kind,
        title=parsed.title,
        text=parsed.text,
        metadata=parsed.metadata,
        created_at=parsed.created_at,
        repairs=tuple(dict.fromkeys(parsed.repairs)),
    )


def make_reject(file: InputFile, member: str, refused: Refused) -> Reject:
    """What is told of an input that gave no document."""
    detail = clean_text(refused.detail)[0]
    return Reject(
        uri=_uri(file, member, refused.key),
        stage=STAGE,
        reason=refused.reason,
        detail=detail if len(detail) <= MAX_DETAIL else detail[: MAX_DETAIL - 1] + "…",
        document_id=document_id(file.source, file.path, member, refused.key),
    )


def _uri(file: InputFile, member: str, key: str) -> str:
    return file.uri + (f"!{member}" if member else "") + (f"#{key}" if key else "")
