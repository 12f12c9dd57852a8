"""Opening a knowledge base: the only code, on either side, that knows where its files lie.

    my.kb/CURRENT                          the live build's id
    my.kb/builds/<build>/manifest.json     immutable; receipt.json and rejects.jsonl beside it
    my.kb/{documents,entries,keys,links}.lance
    my.kb/lexical/<digest>/                tantivy, one segment
    my.kb/serve/<digest>/                  derived, memory-mapped: what a query reads

A `Build` is one build, opened for reading. It never changes: a reader moves by opening another.
"""

import fcntl
import os
import re
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import tantivy

from stillroom.analyzers import analyzer_report, analyzer_spec
from stillroom.errors import BadInput, Damaged, MissingExtra, NotAKnowledgeBase, VersionSkew
from stillroom.schemas.lexical import INDEX_FORMAT
from stillroom.schemas.manifest import DerivedFiles, Manifest, UnknownFormat, manifest_from_json

CURRENT = "CURRENT"
# serve/ holds these and no others.
VECTORS, BITS, KEY_ENTRY = "vectors.npy", "bits.npy", "key_entry.npy"
TIMES, PRIOR, GROUP = "times.npy", "prior.npy", "group.npy"
ENTRIES, KEYS, LINKS, FACETS = "entries.arrow", "keys.arrow", "links.arrow", "facets.arrow"
NO_TIME = np.iinfo(np.int64).min


def is_uri(path: str | os.PathLike[str]) -> bool:
    """Whether a path names another file system, also where `Path` has folded its slashes."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path)))


def manifest_path(root: Path, build: str) -> Path:
    return root / "builds" / build / "manifest.json"


def current_build(root: Path) -> str:
    """Id of the live build, or "" where nothing was published yet."""
    try:
        return (root / CURRENT).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Damaged(f"{root / CURRENT} cannot be read: {error}") from error


def read_manifest(root: Path, build: str) -> Manifest:
    """The manifest of one build. Raises Damaged or VersionSkew."""
    path = manifest_path(root, build)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise Damaged(f"{root} names build {build}, but {path} is not there") from error
    except (OSError, UnicodeDecodeError) as error:
        raise Damaged(f"{path} cannot be read: {error}") from error
    try:
        return manifest_from_json(text)
    except UnknownFormat as error:
        raise VersionSkew(f"{path}: {error}") from error
    except ValueError as error:
        raise Damaged(f"{path}: {error}") from error


def open_table(root: Path, manifest: Manifest, name: str) -> Any:
    """A Lance table of a build, at its pinned version, as a `lancedb` table (imported lazily)."""
    try:
        import lancedb
    except ImportError as error:  # pragma: no cover - a base dependency
        raise MissingExtra("reading tables", "build") from error
    table = lancedb.connect(str(root)).open_table(name)
    table.checkout(manifest.tables[name].version)
    return table


class Build:
    """One published build, its files mapped into memory. Safe for many threads."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self.root, self.manifest = root, manifest
        spec = analyzer_spec()
        if spec != self.manifest.analyzer:
            raise VersionSkew(
                f"{root} was built with the analyzer {self.manifest.analyzer.name}/"
                f"{self.manifest.analyzer.probe[:8]}, this process has {analyzer_report()}: "
                "use the same Python and tantivy versions, or build again"
            )
        if self.manifest.lexical_format != INDEX_FORMAT:
            raise VersionSkew(
                f"{root} has a lexical index of format {self.manifest.lexical_format!r}, this version "
                f"reads {INDEX_FORMAT!r}: build again, or install the version that built it"
            )
        self.serve = root / "serve" / self.manifest.serve.digest
        self.lexical = root / "lexical" / self.manifest.lexical.digest
        self._held = _hold(manifest_path(root, manifest.build))
        _check_sizes(self.serve, self.manifest.serve)
        _check_sizes(self.lexical, self.manifest.lexical)

    @classmethod
    def open_current(cls, path: str | os.PathLike[str]) -> "Build":
        """The live build of the knowledge base at `path`. Raises NotAKnowledgeBase and others."""
        if is_uri(path):
            raise BadInput(f"{path}: a knowledge base is opened from a local folder; copy it first")
        root = Path(path).expanduser()
        build = current_build(root) if root.is_dir() else ""
        if not build:
            why = "has no published build" if root.is_dir() else "is not a folder"
            raise NotAKnowledgeBase(f"{root} {why}: `stillroom build corpus SOURCE --kb {root}`")
        while True:
            try:
                return cls(root, read_manifest(root, build))
            except Damaged:
                # Between reading CURRENT and holding its build, another may have gone live and gc
                # swept this one: then the new one is what was asked for.
                live = current_build(root)
                if live == build:
                    raise
                build = live

    @cached_property
    def entries(self) -> pa.Table:
        """SERVE_ENTRIES, mapped: a value is read from disk only when a hit is looked at."""
        return _map_arrow(self.serve / ENTRIES)

    @cached_property
    def keys(self) -> pa.Table:
        """SERVE_KEYS, in the order of `vectors`."""
        return _map_arrow(self.serve / KEYS)

    @cached_property
    def links(self) -> pa.Table:
        """SERVE_LINKS, sorted by source row."""
        return _map_arrow(self.serve / LINKS)

    @cached_property
    def facets(self) -> pa.Table:
        """SERVE_FACETS, sorted by name and value."""
        return _map_arrow(self.serve / FACETS)

    @cached_property
    def vectors(self) -> np.ndarray:
        """float32 [vectors, dims], unit rows, grouped by entry row."""
        return _map_numpy(self.serve / VECTORS)

    @cached_property
    def bits(self) -> np.ndarray:
        """uint64 [dims / 64 rounded up, vectors]: signs of `vectors`, one row for 64 dimensions."""
        return _map_numpy(self.serve / BITS)

    @cached_property
    def key_entry(self) -> np.ndarray:
        """int32 [vectors]: the entry row of each vector, ascending."""
        return _map_numpy(self.serve / KEY_ENTRY)

    @cached_property
    def times(self) -> np.ndarray:
        """int64 [2, entries]: starts and ends in microseconds UTC, NO_TIME where there is none."""
        return _map_numpy(self.serve / TIMES)

    @cached_property
    def prior(self) -> np.ndarray:
        """float64 [entries]."""
        return _map_numpy(self.serve / PRIOR)

    @cached_property
    def group(self) -> np.ndarray:
        """int32 [entries]: row of the near-duplicate that stands for each entry."""
        return _map_numpy(self.serve / GROUP)

    @cached_property
    def searcher(self) -> tuple[tantivy.Schema, tantivy.Searcher]:
        """The lexical index. It is opened through a private folder of links, since tantivy writes a
        lock file beside what it opens, which a read-only folder or another user's does not allow."""
        with tempfile.TemporaryDirectory(
            prefix="stillroom-", ignore_cleanup_errors=True
        ) as private:
            for name in self.manifest.lexical.files:
                os.symlink((self.lexical / name).resolve(), Path(private) / name)
            try:
                index = tantivy.Index.open(private)
                index.config_reader("manual")  # the default starts a thread that watches the folder
            except ValueError as error:
                raise Damaged(
                    f"the lexical index {self.lexical} cannot be opened: {error}"
                ) from error
            return index.schema, index.searcher()

    def row_of(self, entry_id: str) -> int:
        """The row of an entry by its id, or -1. Rows are sorted by id: a binary search."""
        ids, low, high = self.entries.column("id"), 0, self.entries.num_rows
        while low < high:
            middle = (low + high) // 2
            if ids[middle].as_py() < entry_id:
                low = middle + 1
            else:
                high = middle
        return low if low < self.entries.num_rows and ids[low].as_py() == entry_id else -1


def _hold(path: Path) -> BinaryIO | None:
    """A shared lock on a build's manifest, as long as its reader lives: gc passes it by. None for a
    build that is not published yet, and where the file system has no locks (there, gc keeps to age)."""
    try:
        stream = path.open("rb")
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return None
    return stream


def _map_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _map_numpy(path: Path) -> np.ndarray:
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _check_sizes(folder: Path, files: DerivedFiles) -> None:
    """Sizes only: cheap on every open. `stillroom verify` compares checksums."""
    for name, (size, _) in files.files.items():
        try:
            found = (folder / name).stat().st_size
        except OSError as error:
            raise Damaged(f"{folder / name} is missing or cannot be read: {error}") from error
        if found != size:
            raise Damaged(f"{folder / name} has {found} bytes, its manifest says {size}")
