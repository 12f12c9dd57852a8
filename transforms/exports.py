"""The files of one chat export, whatever holds them: an archive, a folder, or files side by side."""

import io
import re
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import BinaryIO, TypeVar

from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.archives import (
    Budget,
    decompressed,
    guarded,
    open_member,
    open_parts,
    seekable,
)
from stillroom.transforms.files import InputFile, is_hidden, open_file
from stillroom.transforms.load import SHARD_BYTES, SHARD_FILES, Shard
from stillroom.transforms.parsed import Refused

HEAD_BYTES = 1 << 16
MAX_HEADS = 1024  # that are kept: each format asks for them again
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.zst")
# Files that make the folder they lie in one export, with all below it.
_ROOTS = ({"users.json", "channels.json"}, {"users.json", "dms.json"}, {"realm.json"})
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_Info = TypeVar("_Info", zipfile.ZipInfo, tarfile.TarInfo)
_DIGITS = re.compile(r"\d+")


class Files:
    """An export's files by name; `opener` opens one. Implements `conversations.Export`."""

    def __init__(self, names: Sequence[str], opener: Callable[[str], BinaryIO]) -> None:
        self.names = tuple(sorted(names))
        self._opener = opener
        self._heads: dict[str, bytes] = {}

    def open(self, name: str) -> BinaryIO:
        """A file's bytes, decompressed. Raises Refused, OSError."""
        return self._opener(name)

    def head(self, name: str) -> bytes:
        """Its first 64 kB; empty where it cannot be read."""
        if name in self._heads:
            return self._heads[name]
        head = b""
        with suppress(Refused, OSError), self.open(name) as stream:
            head = _read_up_to(stream, HEAD_BYTES)
        if len(self._heads) < MAX_HEADS:  # an archive may hold a hundred thousand photographs
            self._heads[name] = head
        return head


def plan_exports(source: Source, files: Sequence[InputFile]) -> list[Shard]:
    """Files grouped so that each group holds whole exports: an archive, a folder known by the files in
    it, else neighbours in one folder. Names that differ in digits only (the parts of one export) stay
    together."""
    roots = _roots(files)
    groups: list[list[InputFile]] = []
    last = ("", "")
    size = 0
    for file in files:
        root = next((r for r in roots if _below(file.path, r)), None)
        if is_archive(file.path):
            group, alike = ("archive", file.path), False
        elif root is not None:
            group, alike = ("root", root), True
        else:
            folder = file.path.rpartition("/")[0]
            group = ("folder", folder)
            alike = bool(groups) and _plain(groups[-1][-1].path) == _plain(file.path)
        full = size + file.size > SHARD_BYTES or (groups and len(groups[-1]) >= SHARD_FILES)
        if group != last or (full and not alike):
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
        last = group
    return [Shard(source, tuple(group)) for group in groups]


def open_export(files: Sequence[InputFile]) -> tuple[InputFile, Files]:
    """The export in one group of files, and what stands for it: the archive, or the folder that they
    lie in. Raises Refused and OSError where an archive cannot be opened."""
    if len(files) == 1 and is_archive(files[0].path):
        return files[0], _archive(files[0])
    by_name = {file.path: file for file in files}
    root = _common_folder(list(by_name)) if _roots(files) else ""
    named = {name[len(root) :]: file for name, file in by_name.items()}
    above = files[0].uri.removesuffix(files[0].path)
    folder = replace(files[0], path=root, uri=(above + root).rstrip("/"))

    def opener(name: str) -> BinaryIO:
        file = named[name]
        part = next(open_parts(open_file(file), file.path, Budget(file.size)))
        if isinstance(part, tuple):
            raise part[1]
        return part.stream

    return folder, Files(list(named), opener)


def is_archive(path: str) -> bool:
    """Whether a name is that of an archive of files."""
    return path.lower().endswith(ARCHIVES)


def _archive(file: InputFile) -> Files:
    whole = open_file(file)
    if file.path.lower().endswith(".zip"):
        return _zip(file, whole)
    return _tar(file, seekable(decompressed(whole, Budget(file.size))))


def _zip(file: InputFile, whole: BinaryIO) -> Files:
    try:
        archive = zipfile.ZipFile(seekable(whole))
        members = {
            info.filename.encode("utf-8", "replace").decode("utf-8"): info
            for info in archive.infolist()
            if not info.is_dir()
        }
    except Exception as error:
        raise Refused(RejectReason.CORRUPT, f"not a whole zip: {error}") from error
    return _members(members, lambda info: open_member(archive, info, Budget(file.size)))


def _tar(file: InputFile, whole: BinaryIO) -> Files:
    try:
        archive = tarfile.open(fileobj=whole)  # noqa: SIM115 - it lives as long as the export
        members = {info.name.removeprefix("./"): info for info in archive if info.isfile()}
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        raise Refused(RejectReason.CORRUPT, f"not a whole tar archive: {error}") from error

    def opener(info: tarfile.TarInfo) -> BinaryIO:
        stream = archive.extractfile(info)
        return guarded(stream or io.BytesIO(), Budget(file.size))

    return _members(members, opener)


def _members(members: Mapping[str, _Info], opener: Callable[[_Info], BinaryIO]) -> Files:
    seen = {name: info for name, info in members.items() if not is_hidden(name)}
    if not seen:
        raise Refused(RejectReason.EMPTY, "an archive without files")
    root = _common_folder(list(seen))
    named = {name[len(root) :]: info for name, info in seen.items()}
    return Files(list(named), lambda name: opener(named[name]))


def _common_folder(names: Sequence[str]) -> str:
    """The folders that enclose all of an export, with a slash at the end. A folder that holds days of
    messages is a channel: its name says something and stays."""
    root = ""
    while True:
        rest = [name[len(root) :] for name in names]
        first = rest[0].partition("/")[0] + "/"
        inside = [name[len(first) :] for name in rest if name.startswith(first)]
        if len(inside) < len(rest):
            return root
        here = [name for name in inside if "/" not in name]
        if here and all(_DAY.fullmatch(name) for name in here):
            return root
        root += first


def _roots(files: Sequence[InputFile]) -> list[str]:
    """Folders that are one export, outermost first."""
    names: dict[str, set[str]] = {}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        names.setdefault(folder, set()).add(name)
    return sorted(folder for folder, inside in names.items() if any(r <= inside for r in _ROOTS))


def _below(path: str, folder: str) -> bool:
    return not folder or path.startswith(folder + "/")


def _plain(path: str) -> str:
    return _DIGITS.sub("", str(PurePosixPath(path)))


def _read_up_to(stream: BinaryIO, size: int) -> bytes:
    chunks: list[bytes] = []
    with suppress(Refused):  # damage further on: what comes before it tells the format all the same
        while size > 0 and (chunk := stream.read(size)):
            chunks.append(chunk)
            size -= len(chunk)
    return b"".join(chunks)
