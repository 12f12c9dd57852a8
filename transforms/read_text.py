"""Files that hold one document: text, Markdown, HTML, PDF and office formats."""

import io
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.decode import clean_text, decode_text
from stillroom.transforms.parsed import Parsed, Refused, parse_time, typed_facets
from stillroom.transforms.read_html import read_html

# Limits in bytes. Parsers of these formats hold the file several times over.
MAX_HTML_BYTES = 64 << 20
MAX_PDF_BYTES = 256 << 20
MAX_OFFICE_BYTES = 64 << 20
MAX_OFFICE_EXPANDED = 512 << 20
MAX_FRONT_MATTER = 1 << 16
_DATE_KEYS = ("date", "created_at", "created", "published")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_PDF_LOCK = threading.Lock()  # PDFium is not thread-safe, and Beam's workers are threads


def byte_limit(kind: str, max_chars: int) -> int:
    """How many bytes of a file of this format are read before it is refused as too large."""
    limits = {"html": MAX_HTML_BYTES, "pdf": MAX_PDF_BYTES, "office": MAX_OFFICE_BYTES}
    return limits.get(kind, 4 * max_chars + 4)  # no encoding needs over four bytes a character


def read_whole(kind: str, raw: bytes, name: str, max_chars: int) -> Parsed:
    """The one document of a file; `kind` is its format, `name` its path, for a title and a suffix.

    Raises Refused or BinaryContent; a parser's own errors are named in a Refused(CORRUPT).
    """
    if not raw.strip():
        raise Refused(RejectReason.EMPTY, "nothing but white space" if raw else "no bytes")
    path = PurePosixPath(name)
    if kind == "markdown":
        parsed = read_markdown(raw, path.stem)
    elif kind == "html":
        parsed = read_html(raw, path.stem)
    elif kind == "pdf":
        parsed = read_pdf(raw, path.stem, max_chars)
    elif kind == "office":
        parsed = read_office(raw, path.stem, path.suffix.lower())
    else:
        text, repairs = decode_text(raw)
        parsed = Parsed("text", path.stem, text, repairs=repairs)
    if not parsed.text.strip():
        raise Refused(RejectReason.EMPTY, "nothing but white space")
    if len(parsed.text) > max_chars:
        raise Refused(
            RejectReason.TOO_LARGE, f"{len(parsed.text):,} characters; the limit is {max_chars:,}"
        )
    return parsed


def read_markdown(raw: bytes, stem: str) -> Parsed:
    """The text after the front matter. The title is the front matter's, else the first level-1
    heading, else `stem`. Front matter that is not a YAML mapping is text."""
    text, repairs = decode_text(raw)
    matter, body = split_front_matter(text)
    title = matter.pop("title", None)
    created = None
    for key in _DATE_KEYS:
        created = parse_time(matter.get(key))
        if created:
            del matter[key]
            break
    facets, more = typed_facets(matter)
    shown = " ".join(clean_text(str(title))[0].split()) if title is not None else ""
    return Parsed(
        "markdown", shown or _first_heading(body) or stem, body, facets, created, (*repairs, *more)
    )


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The YAML mapping between two `---` lines that begin a text, and what follows it."""
    found = re.match(r"---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", text, re.DOTALL)
    if not found or found.end() > MAX_FRONT_MATTER:
        return {}, text
    import yaml

    try:
        # Aliases can make a kilobyte stand for gigabytes, and front matter has no use for them.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(found[1] or "")):
            return {}, text
        matter = yaml.safe_load(found[1] or "")
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, AttributeError):
        return {}, text
    if not isinstance(matter, dict):
        return {}, text
    return {str(key): value for key, value in matter.items()}, text[found.end() :]


def _first_heading(text: str) -> str:
    fence, previous = "", ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if fence:
            if opened and line.strip().startswith(fence) and not line.strip(" \t`~"):
                fence = ""
            continue
        if opened:
            fence = opened[1]
        elif found := _HEADING.fullmatch(line):
            if found[1]:
                return found[1]
        elif previous.strip() and re.fullmatch(r" {0,3}=+[ \t]*", line):
            return previous.strip()
        previous = line
    return ""


def read_pdf(raw: bytes, stem: str, max_chars: int) -> Parsed:
    """The text of all pages, blank lines between them; `pages` is a facet.

    A page that cannot be read is counted (`pages_lost`, a facet and a repair), not a reason to lose
    the others. Raises Refused(ENCRYPTED, CORRUPT, EMPTY, TOO_LARGE).
    """
    import pypdfium2

    with _PDF_LOCK:
        try:
            document = pypdfium2.PdfDocument(raw)
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower() or "security" in str(error).lower():
                raise Refused(RejectReason.ENCRYPTED, "the PDF needs a password") from error
            raise Refused(RejectReason.CORRUPT, f"PdfiumError: {error}") from error
        try:
            meta = document.get_metadata_dict(skip_empty=True)
            count, lost, pages = len(document), 0, list[str]()
            size = 0
            for index in range(count):
                try:
                    pages.append(_page_text(document, index))
                except pypdfium2.PdfiumError:
                    lost += 1
                    continue
                size += len(pages[-1])
                if size > max_chars:
                    raise Refused(
                        RejectReason.TOO_LARGE,
                        f"over {max_chars:,} characters by page {index + 1} of {count}",
                    )
        finally:
            document.close()
    if lost == count:
        raise Refused(RejectReason.CORRUPT, f"none of {count} pages can be read")
    text, repairs = clean_text("\n\n".join(page for page in pages if page))
    if not text.strip():
        raise Refused(RejectReason.EMPTY, f"{count} pages without text: scanned images?")
    facets, more = typed_facets(
        {"pages": count, "pages_lost": lost or None, "author": meta.get("Author")}
    )
    # CRLF is how PDFium ends lines, not something of the file that was mended.
    mended = tuple(name for name in repairs if name != "newlines")
    title = " ".join(clean_text(meta.get("Title", ""))[0].split())
    return Parsed(
        "pdf", title or stem, text, facets, _pdf_time(meta.get("CreationDate", "")),
        (*mended, *more, *(("pages_lost",) if lost else ())),
    )  # fmt: skip


def _page_text(document: Any, index: int) -> str:
    page = document[index]
    try:
        textpage = page.get_textpage()
        try:
            text: str = textpage.get_text_range()
        finally:
            textpage.close()
    finally:
        page.close()
    # PDFium puts U+FFFE (or U+0002) for a hyphen that breaks a word at a line's end.
    return re.sub("[\x02\ufffe](?:\r?\n)?", "", text).strip()


def _pdf_time(written: str) -> Any:
    """`D:20240131120000+01'00'`, of which everything after the year may be missing."""
    found = re.match(
        r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-]\d\d)'?(\d\d)?)?", written
    )
    if not found:
        return None
    year, month, day, hour, minute, second, zone, zone_minute = found.groups()
    return parse_time(
        f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}"
        + (f"{zone}:{zone_minute or '00'}" if zone else "+00:00")
    )


def read_office(raw: bytes, stem: str, suffix: str) -> Parsed:
    """docx, pptx, xlsx and epub as Markdown, by markitdown. Raises Refused."""
    if raw.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in raw:
            raise Refused(RejectReason.ENCRYPTED, "the office file needs a password")
        raise Refused(RejectReason.UNSUPPORTED, "an old binary office file")
    suffix = suffix if suffix in (".docx", ".pptx", ".xlsx", ".epub") else ""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            suffix = suffix or _office_suffix(archive.namelist())
            _check_expanded(archive)
    except Refused:
        raise
    except Exception as error:
        raise Refused(RejectReason.CORRUPT, f"{type(error).__name__}: {error}") from error
    try:
        from markitdown import MarkItDown, MissingDependencyException, StreamInfo
    except ImportError as error:
        raise _office_missing() from error
    try:
        result = MarkItDown(enable_plugins=False).convert_stream(
            io.BytesIO(raw), stream_info=StreamInfo(extension=suffix)
        )
    except MissingDependencyException as error:
        raise _office_missing() from error
    except Exception as error:
        if "MissingDependencyException" in str(error):
            raise _office_missing() from error
        first = next(iter(str(error).splitlines()), "")
        raise Refused(RejectReason.CORRUPT, f"{type(error).__name__}: {first}") from error
    text, repairs = clean_text(result.markdown)
    title = " ".join(clean_text(result.title or "")[0].split())
    return Parsed("office", title or _first_heading(text) or stem, text, repairs=repairs)


def _office_missing() -> Refused:
    return Refused(RejectReason.UNSUPPORTED, "needs pip install 'stillroom[office]'")


def _office_suffix(names: list[str]) -> str:
    for start, suffix in (("word/", ".docx"), ("ppt/", ".pptx"), ("xl/", ".xlsx")):
        if any(name.startswith(start) for name in names):
            return suffix
    return ".epub"


def _check_expanded(archive: zipfile.ZipFile) -> None:
    """Reads through every member: a header may lie about a size, and markitdown would believe it."""
    size = 0
    for chunk in _members(archive):
        size += len(chunk)
        if size > MAX_OFFICE_EXPANDED:
            raise Refused(
                RejectReason.TOO_LARGE, f"expands to more than {MAX_OFFICE_EXPANDED:,} bytes"
            )


def _members(archive: zipfile.ZipFile) -> Iterator[bytes]:
    for info in archive.infolist():
        if info.flag_bits & 1:
            raise Refused(RejectReason.ENCRYPTED, "the office file needs a password")
        with archive.open(info) as stream:
            while chunk := stream.read(1 << 16):
                yield chunk
