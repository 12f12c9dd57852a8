"""The builds of a knowledge base: listed, pointed at, held. Only files, no tables: a serving host can
roll back with nothing but the base install.
"""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillroom.errors import BadInput, StillroomError
from stillroom.schemas.manifest import Manifest
from stillroom.store import (
    CURRENT,
    Build,
    current_build,
    is_uri,
    manifest_path,
    read_manifest,
)


class Locked(StillroomError):
    """Another process is changing this knowledge base."""


@contextmanager
def build_lock(root: Path) -> Iterator[None]:
    """One writer of a knowledge base at a time. Raises Locked where another is at work."""
    try:
        stream = (root / ".lock").open("w")
    except OSError as error:
        raise BadInput(f"{root} cannot be written: {error.strerror}") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Locked(f"another build, rollback or gc of {root} is running") from error
        yield


def write_whole(path: Path, text: str) -> None:
    """Durable and atomic: readers see the old file or the new one."""
    os.replace(_written_aside(path, text), path)
    _sync_folder(path.parent)


def write_once(path: Path, text: str) -> None:
    """As `write_whole`, but a file that is there already stays as it is."""
    aside = _written_aside(path, text)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink()
    _sync_folder(path.parent)


def _written_aside(path: Path, text: str) -> Path:
    """A file beside `path` with this text, on disk."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    return aside


def point_current(root: Path, build: str) -> None:
    """Make `build` the live one. The build lock is held."""
    write_whole(root / CURRENT, build + "\n")


def list_builds(root: Path) -> list[Manifest]:
    """All builds that are kept, in the order in which they were published."""
    paths = (root / "builds").glob("*/manifest.json")
    ordered = sorted((path.stat().st_mtime_ns, path.parent.name) for path in paths)
    return [read_manifest(root, name) for _, name in ordered]


def find_build(root: Path, name: str) -> str:
    """The full id of a build by its beginning. Raises BadInput for none or several."""
    found = [path.parent.name for path in (root / "builds").glob(f"{name}*/manifest.json")]
    if len(found) != 1 or not name.isalnum():
        kept = ", ".join(m.build[:12] for m in list_builds(root)) or "none"
        raise BadInput(f"{len(found)} builds of {root} begin with {name!r}; there are {kept}")
    return found[0]


def rollback(path: str, name: str) -> str:
    """Point `CURRENT` at an earlier build (or a later one again), after a look at its files; the id
    that is live now. Raises BadInput, Damaged, VersionSkew, Locked."""
    root = _root(path)
    with build_lock(root):
        build = find_build(root, name)
        Build(root, read_manifest(root, build))  # refuses what could not be served
        if current_build(root) != build:
            point_current(root, build)
    return build


def is_held(root: Path, build: str) -> bool:
    """Whether a reader has this build open (it holds a shared lock on its manifest)."""
    with manifest_path(root, build).open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _root(path: str) -> Path:
    if is_uri(path):
        raise BadInput(f"{path}: builds are changed in a local folder")
    return Path(path).expanduser()
