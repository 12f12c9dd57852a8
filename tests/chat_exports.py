"""An export held in memory, for tests of chat formats."""

import io
from collections.abc import Sequence
from typing import BinaryIO

HEAD_BYTES = 1 << 16


class MemoryExport:
    """The files of one export, by name."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    @property
    def names(self) -> Sequence[str]:
        return sorted(self.files)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.files[name])

    def head(self, name: str) -> bytes:
        return self.files[name][:HEAD_BYTES]
