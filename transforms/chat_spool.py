"""Records grouped on disk, for logs in which many conversations are interleaved: one pass writes each
record to a temporary file, and each group is then read for itself. Memory holds eight bytes a record."""

import json
import tempfile
from array import array
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

SPOOL_BYTES = 1 << 24  # up to this size it stays in memory


class Spool:
    """Groups of JSON objects, in the order in which they came. A context manager: its file has no
    name and ends with it."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - see __exit__
        self._places: dict[str, array[int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, group: str, record: dict[str, Any]) -> None:
        place = self._file.seek(0, 2)
        self._file.write(json.dumps(record).encode("ascii") + b"\n")
        self._places.setdefault(group, array("Q")).append(place)

    def groups(self) -> list[str]:
        return list(self._places)

    def records(self, group: str) -> Iterator[dict[str, Any]]:
        for place in self._places[group]:
            self._file.seek(place)
            yield json.loads(self._file.readline())
