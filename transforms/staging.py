"""The staging area of one build attempt: Arrow files that stages leave for each other.

Bodies go to disk at once and only references are shuffled, since runners hold shuffled elements in
memory. A file is written aside and renamed, so a bundle that is delivered twice, or dies half-way,
leaves one whole file or none; its name comes from its content's origin, so the second delivery
replaces the first.
"""

import os
import threading
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from stillroom.schemas.ids import canonical_json


class Staging:
    """Names and files below one folder. Cheap to pickle: it holds only the path."""

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, kind: str, name: str) -> Path:
        return Path(self.root) / kind / f"{name}.arrow"

    def write(self, kind: str, name: str, table: pa.Table) -> None:
        """Write a table whole: readers see it complete or not at all."""
        path = self.path(kind, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        with pa.OSFile(str(aside), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        os.replace(aside, path)

    def read(self, kind: str, name: str) -> pa.Table:
        """The table, mapped into memory."""
        return _mapped(str(self.path(kind, name)))

    def names(self, kind: str) -> list[str]:
        """Names of the staged tables of a kind, sorted."""
        return sorted(path.stem for path in (Path(self.root) / kind).glob("[!.]*.arrow"))


@lru_cache(maxsize=64)
def _mapped(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


class StageCounter:
    """Counts for the live view, one small file for each stage and process, at most three a second.

    For people only: a retried bundle counts twice here. The accounting counts elements.
    """

    EVERY = 0.3  # seconds between writes

    def __init__(self, staging_root: str, stage: str) -> None:
        self._path = Path(staging_root) / "progress" / f"{stage}.{os.getpid()}.{id(self)}"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._count = 0
        self._written = 0.0

    def add(self, count: int) -> None:
        self._count += count
        now = time.monotonic()
        if now - self._written >= self.EVERY:
            self._written = now
            self.flush()

    def flush(self) -> None:
        aside = self._path.with_name(f".{self._path.name}")
        aside.write_text(canonical_json(self._count))
        os.replace(aside, self._path)


def read_progress(staging_root: str) -> dict[str, int]:
    """Sum of all counters by stage."""
    totals: dict[str, int] = {}
    for path in _progress_files(Path(staging_root) / "progress"):
        try:
            count = int(path.read_text() or 0)
        except (OSError, ValueError):
            continue  # being replaced at this moment; the next look sees it
        stage = path.name.split(".", 1)[0]
        totals[stage] = totals.get(stage, 0) + count
    return totals


def _progress_files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(path for path in folder.iterdir() if not path.name.startswith("."))
