"""Opening a knowledge base: the only code, on either side, that knows where its files lie.

    my.kb/CURRENT                          the live build's id
    my.kb/builds/<build>/manifest.json     immutable; receipt.json and rejects.jsonl beside it
    my.kb/{documents,entries,keys,links}.lance
    my.kb/lexical/<digest>/                tantivy, one segment
    my.kb/serve/<digest>/                  derived, memory-mapped: what a query reads
    my.kb/encoders/<digest>/               the light query encoder

A `Build` is one build, opened for reading. It never changes: a reader moves by opening another. The
folder may lie on an object store (`stillroom.folders`): then what a query reads is cached here.
"""

import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from stillroom.analyzers import analyzer_report, analyzer_spec
from stillroom.approximate import Proposals
from stillroom.elastic import Dense
from stillroom.errors import Damaged, MissingExtra, NotAKnowledgeBase, VersionSkew
from stillroom.folders import PathLike, open_folder
from stillroom.light import LightEncoder
from stillroom.schemas.entries import LinkKind
from stillroom.schemas.lexical import INDEX_FORMAT
from stillroom.schemas.manifest import Manifest, UnknownFormat, manifest_from_json

CURRENT = "CURRENT"
# serve/ holds these and no others; bits, basis, scale and addresses only where the vectors' form needs them.
VECTORS, BITS, KEY_ENTRY = "vectors.npy", "bits.npy", "key_entry.npy"
BASIS, SCALE, ADDRESSES = "basis.npy", "scale.npy", "addresses.npy"
TIMES, PRIOR, GROUP = "times.npy", "prior.npy", "group.npy"
ENTRIES, KEYS, LINKS, FACETS = "entries.arrow", "keys.arrow", "links.arrow", "facets.arrow"
NO_TIME = np.iinfo(np.int64).min
MAPPED = (
    "entries", "keys", "links", "facets", "dense", "key_entry", "times", "prior", "group",
    "searcher", "light",
)  # fmt: skip


def build_folder(build: str) -> str:
    """Name of the folder of a build, from the knowledge base's."""
    return f"builds/{build}"


def manifest_name(build: str) -> str:
    return f"{build_folder(build)}/manifest.json"


def current_build(kb: PathLike) -> str:
    """Id of the live build, or "" where nothing was published yet."""
    folder = open_folder(kb)
    try:
        return folder.read(CURRENT).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise Damaged(f"{folder.uri}/{CURRENT} cannot be read: {error}") from error


def read_manifest(kb: PathLike, build: str) -> Manifest:
    """The manifest of one build. Raises Damaged or VersionSkew."""
    folder = open_folder(kb)
    path = f"{folder.uri}/{manifest_name(build)}"
    try:
        return manifest_from_json(folder.read(manifest_name(build)).decode())
    except FileNotFoundError as error:
        raise Damaged(f"{folder.uri} names build {build}, but {path} is not there") from error
    except UnknownFormat as error:
        raise VersionSkew(f"{path}: {error}") from error
    except ValueError as error:  # a UnicodeDecodeError too
        raise Damaged(f"{path}: {error}") from error


def table_uri(kb: PathLike, name: str) -> str:
    """Where a Lance table lies: a path or URI that Lance opens itself."""
    return f"{open_folder(kb).uri}/{name}.lance"


def open_table(kb: PathLike, manifest: Manifest, name: str) -> Any:
    """A Lance table of a build, at its pinned version, as a `lancedb` table (imported lazily)."""
    try:
        import lancedb
    except ImportError as error:  # pragma: no cover - a base dependency
        raise MissingExtra("reading tables", "build") from error
    table = lancedb.connect(open_folder(kb).uri).open_table(name)
    table.checkout(manifest.tables[name].version)
    return table


class Build:
    """One published build, its files mapped into memory. Safe for many threads."""

    def __init__(self, kb: PathLike, manifest: Manifest) -> None:
        folder = open_folder(kb)
        self.kb, self.manifest = folder.uri, manifest
        spec = analyzer_spec()
        if spec != self.manifest.analyzer:
            raise VersionSkew(
                f"{self.kb} was built with the analyzer {self.manifest.analyzer.name}/"
                f"{self.manifest.analyzer.probe[:8]}, this process has {analyzer_report()}: "
                "use the same Python and tantivy versions, or build again"
            )
        if self.manifest.lexical_format != INDEX_FORMAT:
            raise VersionSkew(
                f"{self.kb} has a lexical index of format {self.manifest.lexical_format!r}, this "
                f"version reads {INDEX_FORMAT!r}: build again, or install the version that built it"
            )
        # gc passes by what is held. None for a build that is not published yet.
        self._held = folder.hold(manifest_name(manifest.build))
        self._serve, self._lexical = (
            {
                name: folder.path(f"{place}/{files.digest}/{name}", size, checksum)
                for name, (size, checksum) in files.files.items()
            }
            for place, files in (("serve", manifest.serve), ("lexical", manifest.lexical))
        )
        if not folder.local:
            # Once mapped, what another process sweeps from the cache stays readable here.
            for name in MAPPED:
                getattr(self, name)

    @classmethod
    def open_current(cls, kb: PathLike) -> "Build":
        """The live build of the knowledge base at `kb`. Raises NotAKnowledgeBase and others."""
        folder = open_folder(kb)
        build = current_build(kb)
        if not build:
            missing = folder.local and not Path(folder.uri).is_dir()
            why = "is not a folder" if missing else "has no published build"
            raise NotAKnowledgeBase(
                f"{folder.uri} {why}: `stillroom build corpus SOURCE --kb {folder.uri}`"
            )
        while True:
            try:
                return cls(kb, read_manifest(kb, build))
            except Damaged:
                # Between reading CURRENT and holding its build, another may have gone live and gc
                # swept this one: then the new one is what was asked for.
                live = current_build(kb)
                if live == build:
                    raise
                build = live

    @cached_property
    def entries(self) -> pa.Table:
        """SERVE_ENTRIES, mapped: a value is read from disk only when a hit is looked at."""
        return _map_arrow(self._serve[ENTRIES])

    @cached_property
    def keys(self) -> pa.Table:
        """SERVE_KEYS, in the order of `vectors`."""
        return _map_arrow(self._serve[KEYS])

    @cached_property
    def links(self) -> pa.Table:
        """SERVE_LINKS, sorted by source row."""
        return _map_arrow(self._serve[LINKS])

    @cached_property
    def next_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows that follow others in their documents, and those others, ascending: int32 each."""
        following = self.links.filter(pc.equal(self.links.column("kind"), LinkKind.NEXT.value))
        return following.column("target").to_numpy(), following.column("source").to_numpy()

    @cached_property
    def facets(self) -> pa.Table:
        """SERVE_FACETS, sorted by name and value."""
        return _map_arrow(self._serve[FACETS])

    @cached_property
    def vectors(self) -> np.ndarray:
        """[vectors, dims], grouped by entry row, in the form that the plan names (`elastic.Dense`)."""
        return _map_numpy(self._serve[VECTORS])

    @cached_property
    def dense(self) -> Dense:
        """The vectors to search, whatever their form."""
        bits, basis, scale, addresses = (
            _map_numpy(self._serve[name]) if name in self._serve else None
            for name in (BITS, BASIS, SCALE, ADDRESSES)
        )
        propose = None
        if addresses is not None:
            table = open_table(self.kb, self.manifest, "keys")
            propose = Proposals(table, addresses, self.manifest.plan.probes)
        return Dense(self.vectors, bits, basis, scale, propose)

    @cached_property
    def key_entry(self) -> np.ndarray:
        """int32 [vectors]: the entry row of each vector, ascending."""
        return _map_numpy(self._serve[KEY_ENTRY])

    @cached_property
    def times(self) -> np.ndarray:
        """int64 [2, entries]: starts and ends in microseconds UTC, NO_TIME where there is none."""
        return _map_numpy(self._serve[TIMES])

    @cached_property
    def prior(self) -> np.ndarray:
        """float64 [entries]."""
        return _map_numpy(self._serve[PRIOR])

    @cached_property
    def group(self) -> np.ndarray:
        """int32 [entries]: row of the near-duplicate that stands for each entry."""
        return _map_numpy(self._serve[GROUP])

    @cached_property
    def searcher(self) -> tuple[tantivy.Schema, tantivy.Searcher]:
        """The lexical index. It is opened through a private folder of links, since tantivy writes a
        lock file beside what it opens, which a read-only folder or another user's does not allow."""
        with tempfile.TemporaryDirectory(
            prefix="stillroom-", ignore_cleanup_errors=True
        ) as private:
            for name, path in self._lexical.items():
                os.symlink(path.resolve(), Path(private) / name)
            try:
                index = tantivy.Index.open(private)
                index.config_reader("manual")  # the default starts a thread that watches the folder
            except ValueError as error:
                raise Damaged(
                    f"the lexical index of {self.kb} cannot be opened: {error}"
                ) from error
            return index.schema, index.searcher()

    @cached_property
    def light(self) -> LightEncoder | None:
        """The light query encoder, or None where the build has none."""
        if self.manifest.light is None:
            return None
        made = self.manifest.light.files
        place = f"encoders/{made.digest}"
        folder = open_folder(self.kb)
        return LightEncoder(
            {name: folder.path(f"{place}/{name}", *known) for name, known in made.files.items()}
        )

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


def _map_arrow(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _map_numpy(path: Path) -> np.ndarray:
    # A plain array over the same mapped bytes: numpy's `memmap` costs microseconds at each look.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
