"""Listing a source and opening what is in it, through Beam's FileSystems.

Local folders are walked here, because Beam's own listing leaves out what it cannot stat, and follows
no rule for hidden files; `gs://`, `s3://` and the like are listed by Beam. Decompression is ours too:
Beam's stops at a damaged gzip member without saying so (apache/beam#31040), and knows no limits.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO
from urllib.parse import quote_from_bytes, unquote_to_bytes

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from stillroom.errors import BadInput
from stillroom.schemas.recipe import Source

DIRECTORY = "directory"  # a folder that could not be listed: the listing is not complete
SPECIAL = "special"  # a socket, fifo or device: opening one may wait for ever

_FORMATS = {
    "text": "txt text log rst tex org adoc asciidoc srt vtt",
    "markdown": "md markdown mdown mkd mkdn mdx qmd rmd",
    "html": "html htm xhtml",
    "pdf": "pdf",
    "office": "docx pptx xlsx epub",
    "jsonl": "jsonl ndjson json",
    "csv": "csv",
    "tsv": "tsv tab",
    "parquet": "parquet pq",
    "zip": "zip",
}
_BY_EXTENSION = {f".{ext}": name for name, exts in _FORMATS.items() for ext in exts.split()}
COMPRESSED = (".gz", ".zst", ".zstd")
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a source. `path` is relative to the source's root, with forward slashes, and is
    the same however the root was written. `size` is in bytes. `format` is a reader's name, `zip`,
    `directory`, `special`, or empty where the content must tell.
    """

    source: str
    uri: str
    path: str
    size: int
    format: str


def list_source(source: Source) -> list[InputFile]:
    """The files of a source, sorted by path.

    A folder is read recursively without hidden files and folders. A glob matches files only (`**`
    crosses folders); a name that exists is never a glob. What cannot be listed or opened stays in
    the list, to be rejected when read. Raises BadInput if nothing matches or a remote listing fails.
    """
    uri = source.uri
    if uri.startswith("file://"):
        uri = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    found = _list_remote(uri) if "://" in uri else _list_local(uri)
    files = [
        InputFile(source.name, file_uri, path, size, kind or format_of(path))
        for path, file_uri, size, kind in found
    ]
    if not files:
        raise BadInput(
            f"source {source.name!r}: no file matches {source.uri!r}. "
            "Give a file, a folder, or a glob such as 'docs/**/*.md'"
        )
    return sorted(files, key=lambda file: file.path)


def is_complete(files: Sequence[InputFile]) -> bool:
    """Whether everything could be listed. Only then does an absent document mean a removed one."""
    return all(file.format != DIRECTORY for file in files)


def format_of(path: str) -> str:
    """The reader for a name, below `.gz` and `.zst`; empty if the name does not tell."""
    name = PurePosixPath(path.lower())
    while name.suffix in COMPRESSED:
        name = name.with_suffix("")
    return _BY_EXTENSION.get(name.suffix, "")


def is_hidden(path: str) -> bool:
    """Whether a relative path has a hidden part, or is what macOS adds to archives."""
    parts = path.split("/")
    return any(part.startswith(".") and part not in (".", "..") for part in parts) or (
        parts[0] == "__MACOSX"
    )


def open_file(file: InputFile) -> BinaryIO:
    """The file's own bytes, seekable, never decompressed. Raises OSError as its file system does."""
    uri = file.uri
    if uri.startswith("file://"):
        return open(unquote_to_bytes(uri.removeprefix("file://")), "rb")
    stream: BinaryIO = FileSystems.open(uri, compression_type=CompressionTypes.UNCOMPRESSED)
    return stream


_Found = tuple[str, str, int, str]  # path, uri, size, kind


def _list_local(uri: str) -> Iterator[_Found]:
    if not os.path.lexists(uri):
        uri = os.path.expanduser(uri)
    full = os.path.abspath(uri)
    if os.path.isdir(full):
        yield from _walk(full)
    elif os.path.lexists(full):
        yield _found(full, os.path.basename(full))
    elif _MAGIC.search(full):
        root, pattern = _split_glob(full)
        matches = glob_regex(pattern).fullmatch
        hidden = "/." in f"/{pattern}"
        for found in _walk(root, hidden):
            if matches(found[0]):
                yield found


def _walk(root: str, hidden: bool = False) -> Iterator[_Found]:
    """Files below `root`. Each real folder once, so that links in a circle end; linked folders
    after all real ones, so that a file keeps its own path rather than a link's."""
    seen: set[tuple[int, int]] = set()
    folders, links = [root], list[str]()
    while folders or links:
        folder = folders.pop() if folders else links.pop(0)
        try:
            state = os.stat(folder)
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name, reverse=True)
        except OSError:
            yield _relative(folder, root) or ".", _local_uri(folder), 0, DIRECTORY
            continue
        for entry in entries:
            if entry.name.startswith(".") and not hidden:
                continue
            try:
                is_folder, is_link = entry.is_dir(), entry.is_symlink()
            except OSError:  # a link to itself
                is_folder, is_link = False, True
            if is_folder:
                (links if is_link else folders).append(entry.path)
            else:
                yield _found(entry.path, _relative(entry.path, root))


def _relative(path: str, root: str) -> str:
    relative = path[len(root) :].lstrip(os.sep).replace(os.sep, "/")
    return _printable(relative)


def _printable(path: str) -> str:
    """A name that is not UTF-8 is shown with escapes; `os` gives it surrogates."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _local_uri(path: str) -> str:
    """A plain path, or `file://` with percents where the name is not UTF-8."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return "file://" + quote_from_bytes(os.fsencode(path))
    return path


def _found(full: str, relative: str) -> _Found:
    path, size, kind = _printable(relative), 0, ""
    try:
        state = os.stat(full)
    except OSError:
        pass  # a broken link: opening it gives the error that is reported
    else:
        size = state.st_size
        kind = "" if stat.S_ISREG(state.st_mode) else SPECIAL
    return path, _local_uri(full), size, kind


def _list_remote(uri: str) -> Iterator[_Found]:
    """Object stores have no folders: a name is an object, or else a prefix, or else a glob."""
    try:
        exact = FileSystems.match([uri])[0].metadata_list if not _MAGIC.search(uri) else []
        exact = [item for item in exact if item.path == uri]
        if exact:
            root, listed, matches = (
                uri.rpartition("/")[0],
                exact,
                re.compile(".*", re.DOTALL).fullmatch,
            )
            hidden = True
        else:
            root, pattern = _split_glob(uri) if _MAGIC.search(uri) else (uri.rstrip("/"), "**")
            listed = FileSystems.match([f"{root}/**"])[0].metadata_list
            matches, hidden = glob_regex(pattern).fullmatch, "/." in f"/{pattern}"
    except (BeamIOError, ValueError, OSError) as error:
        raise BadInput(f"{uri!r} cannot be listed: {error}") from error
    for item in listed:
        path = item.path[len(root) :].lstrip("/")
        # Some stores keep empty objects whose names end in a slash, to show folders.
        if not path.endswith("/") and matches(path) and (hidden or not is_hidden(path)):
            yield path, item.path, int(item.size_in_bytes or 0), ""


def _split_glob(pattern: str) -> tuple[str, str]:
    """The fixed folder before a pattern's first wildcard, and the rest."""
    first = _MAGIC.search(pattern)
    cut = pattern.rfind("/", 0, first.start() if first else len(pattern))
    return pattern[:cut] or "/", pattern[cut + 1 :]


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A glob over relative paths: `*` and `?` stay inside a folder and pass over hidden names, `**`
    crosses folders, `[...]` is a set."""
    made, i = "", 0
    while i < len(pattern):
        at_start = i == 0 or pattern[i - 1] == "/"
        visible = r"(?!\.)" if at_start else ""
        if pattern.startswith("**/", i) and at_start:
            made += r"(?:(?!\.)[^/]+/)*"
            i += 3
        elif pattern.startswith("**", i):
            made += visible + r"(?:[^/]|/(?!\.))*"
            i += 2
        elif pattern[i] == "*":
            made += visible + "[^/]*"
            i += 1
        elif pattern[i] == "?":
            made += visible + "[^/]"
            i += 1
        elif pattern[i] == "[" and (end := pattern.find("]", i + 2)) > 0:
            inside = pattern[i + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            made += f"(?!/)[{'^' + inside[1:] if inside[0] in '!^' else inside}]"
            i = end + 1
        else:
            made += re.escape(pattern[i])
            i += 1
    try:
        return re.compile(made, re.DOTALL)
    except re.error as error:
        raise BadInput(f"{pattern!r} is not a glob: {error}") from error
