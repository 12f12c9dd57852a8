"""The staging area of one build attempt: Arrow files that stages leave for each other.

Bodies go to disk, or the object store, at once and only references are shuffled, since runners hold
shuffled elements in memory. A file is written whole, so a bundle that is delivered twice, or dies
half-way, leaves one whole file or none; its name comes from its content's origin, so the second
delivery replaces the first.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

import pyarrow as pa

from stillroom.folders import open_folder, replacing

STAGING = ".staging"


@dataclass(frozen=True, slots=True)
class Staging:
    """Names and files of one attempt. `root` is a folder or URI that all workers reach; `scratch` a
    folder of the launcher's machine, for what only people look at while a build runs."""

    root: str
    scratch: str = ""

    def write(self, kind: str, name: str, table: pa.Table) -> None:
        """Write a table whole: readers see it complete or not at all."""
        folder = open_folder(self.root)
        if folder.local:
            path = Path(self.root) / _file(kind, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as aside:  # not synced: after a crash nobody reads it
                _write(table, pa.OSFile(str(aside), "wb"))
        else:
            sink = pa.BufferOutputStream()
            _write(table, sink)
            folder.write(_file(kind, name), sink.getvalue().to_pybytes())

    def read(self, kind: str, name: str) -> pa.Table:
        """The table; mapped into memory, where it is on this machine."""
        return _read(self.root, _file(kind, name))

    def names(self, kind: str) -> list[str]:
        """Names of the staged tables of a kind, sorted."""
        found = (PurePosixPath(file.name) for file in open_folder(self.root).files(kind))
        return sorted(path.stem for path in found if not path.name.startswith("."))


def _file(kind: str, name: str) -> str:
    return f"{kind}/{name}.arrow"


def _write(table: pa.Table, sink: pa.NativeFile) -> None:
    with sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


@lru_cache(maxsize=32)
def _read(root: str, name: str) -> pa.Table:
    folder = open_folder(root)
    if folder.local:
        return pa.ipc.open_file(pa.memory_map(f"{root}/{name}")).read_all()
    return pa.ipc.open_file(pa.py_buffer(folder.read(name))).read_all()
