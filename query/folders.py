"""Where a knowledge base lies: a local folder, or a prefix of an object store.

Everything that is said of a knowledge base's files is said here once: whole or not at all, created
only if absent, swapped only if unchanged. `stillroom.object_store` says it for `s3://`, `gs://` and
`az://`; Lance tables have their own way to both.
"""

import errno
import fcntl
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from stillroom.errors import BadInput, Damaged, MissingExtra, StillroomError
from stillroom.schemas.ids import DIGEST_BYTES

PathLike = str | os.PathLike[str]
SCRATCH = ".scratch-"
CACHE = "STILLROOM_CACHE"  # the environment variable that names the cache


class Locked(StillroomError):
    """Another process is changing this knowledge base."""


class FileState(NamedTuple):
    """A file below a folder: its name from there, size in bytes, and seconds since it was written."""

    name: str
    size: int
    age: float


class Folder(Protocol):
    """The files of one knowledge base, by names with forward slashes. Safe for many threads.

    Every method raises a StillroomError where the file system or store refuses.
    """

    uri: str
    local: bool

    def read(self, name: str) -> bytes:
        """A whole file. Raises FileNotFoundError."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def checksum(self, name: str) -> str:
        """BLAKE2b of a file, hexadecimal."""

    def write(self, name: str, data: bytes) -> None:
        """Durable and atomic: readers see the old file or the new one."""

    def create(self, name: str, data: bytes) -> bool:
        """As `write`, but a file that is there already stays as it is; whether this one was made."""

    def swap(self, name: str, expected: bytes | None, data: bytes) -> bool:
        """As `write`, if the file still holds `expected` (None: if there is none); whether it is now
        `data`."""

    def files(self, prefix: str = "") -> list[FileState]:
        """All files below a prefix, sorted by name."""

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders right below a prefix, sorted."""

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it. Nothing there is no error."""

    def path(self, name: str, size: int, checksum: str) -> Path:
        """An immutable file as one that can be mapped. Raises Damaged if it is missing or has
        another size."""

    def place(self, made: Path, name: str) -> None:
        """Move a local folder of immutable files here, as the folder `name`."""

    def scratch(self) -> AbstractContextManager[Path]:
        """A local folder for files to be placed later; gone afterwards."""

    def lock(self) -> AbstractContextManager[None]:
        """One writer at a time, where there are locks. Raises Locked."""

    def hold(self, name: str) -> Any:
        """A shared lock on a file as long as the result lives; None where there are no locks."""

    def is_held(self, name: str) -> bool:
        """Whether some process holds a file."""


@lru_cache(maxsize=64)
def _opened(location: str) -> Folder:
    if not is_uri(location):
        return LocalFolder(Path(location).expanduser().absolute())
    scheme, _, rest = re.sub("^([^:]+):/+", r"\1://", location).partition("://")
    if scheme == "file":
        return LocalFolder(Path("/" + rest))
    try:
        from stillroom.object_store import ObjectFolder
    except ImportError as error:
        raise MissingExtra(f"a knowledge base at {scheme}://", "cloud") from error
    return ObjectFolder(f"{scheme}://{rest.rstrip('/')}")


def open_folder(location: PathLike) -> Folder:
    """The folder at a path or URI; nothing is read yet. Raises BadInput, MissingExtra."""
    return _opened(os.fspath(location))


def is_uri(path: PathLike) -> bool:
    """Whether a path names another file system, also where `Path` has folded its slashes."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)))


def file_checksum(path: Path) -> str:
    """BLAKE2b of a file, hexadecimal."""
    state = blake2b(digest_size=DIGEST_BYTES)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            state.update(block)
    return state.hexdigest()


def cache_folder() -> Path:
    """A folder of this machine for what can be fetched or made again, made if need be. Raises BadInput
    where it cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(os.environ.get(CACHE) or f"{base}/stillroom").expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "it is not writable")
    except OSError as error:
        raise BadInput(
            f"files are cached in {folder}, but {error.strerror}: name another folder in {CACHE}"
        ) from error
    return folder


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to, which takes its place when the block ends well: whoever reads
    `path` sees the old file or the new one. Not synced to the disk."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


class LocalFolder:
    """A folder of this machine, or of a network file system that has locks."""

    local = True

    def __init__(self, root: Path) -> None:
        self.root, self.uri = root, str(root)

    def read(self, name: str) -> bytes:
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(self.root / name) from error
        except OSError as error:
            raise Damaged(f"{self.root / name} cannot be read: {error}") from error

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def checksum(self, name: str) -> str:
        return file_checksum(self.root / name)

    def write(self, name: str, data: bytes) -> None:
        with self._writing(name):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as aside:
                _write_through(aside, data)
            _sync(path.parent)

    def create(self, name: str, data: bytes) -> bool:
        path, made = self.root / name, True
        with self._writing(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                _write_through(aside, data)
                os.link(aside, path)
            except FileExistsError:
                made = False
            finally:
                aside.unlink(missing_ok=True)
            _sync(path.parent)
        return made

    def swap(self, name: str, expected: bytes | None, data: bytes) -> bool:
        """Other than on an object store, only the lock keeps another swap from coming between."""
        try:
            found: bytes | None = self.read(name)
        except FileNotFoundError:
            found = None
        if found == expected:
            self.write(name, data)
        return found in (expected, data)

    def files(self, prefix: str = "") -> list[FileState]:
        made, now = [], time.time()
        for path in (self.root / prefix).rglob("*"):
            with suppress(FileNotFoundError):  # it went while we looked
                if path.is_file():
                    state = path.stat()
                    name = path.relative_to(self.root).as_posix()
                    made.append(FileState(name, state.st_size, now - state.st_mtime))
        return sorted(made)

    def folders(self, prefix: str) -> list[str]:
        return sorted(path.name for path in (self.root / prefix).glob("*") if path.is_dir())

    def remove(self, name: str) -> None:
        path = self.root / name
        with self._writing(name), suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def path(self, name: str, size: int, checksum: str) -> Path:
        """The size only: cheap on every open. `stillroom verify` compares checksums."""
        path = self.root / name
        try:
            found = path.stat().st_size
        except OSError as error:
            raise Damaged(f"{path} is missing or cannot be read: {error}") from error
        if found != size:
            raise Damaged(f"{path} has {found} bytes, its manifest says {size}")
        return path

    def place(self, made: Path, name: str) -> None:
        target = self.root / name
        with self._writing(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(made, target)
            except OSError as error:  # equal files are there already, and stay
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        with self._writing(SCRATCH):
            self.root.mkdir(parents=True, exist_ok=True)
            made = tempfile.mkdtemp(prefix=SCRATCH, dir=self.root)
        try:
            yield Path(made)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._writing(".lock"):
            stream = (self.root / ".lock").open("w")
        with stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise Locked(f"another build, rollback or gc of {self.root} is running") from error
            yield

    def hold(self, name: str) -> BinaryIO | None:
        try:
            stream = (self.root / name).open("rb")
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return None
        return stream

    def is_held(self, name: str) -> bool:
        with (self.root / name).open("rb") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadInput(f"{self.root / name} cannot be written: {error.strerror}") from error


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
