"""What stages say of their work: counts for the live view, and time as Beam distributions.

Both are for people: a bundle that is delivered twice counts twice here. The accounting counts
elements.
"""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from apache_beam.metrics.metric import Metrics

from stillroom.folders import replacing
from stillroom.schemas.ids import canonical_json

MICROSECONDS = "microseconds"  # name of each stage's distribution; the namespace is the stage
STEP = "step"  # a file of the launcher's scratch folder: the step of publishing that is at work
T = TypeVar("T")


@contextmanager
def timed(stage: str) -> Iterator[None]:
    """Add the time of this block to a stage's distribution. Only inside a running bundle."""
    began = time.perf_counter()
    try:
        yield
    finally:
        _spent(stage, began)


def timed_each(stage: str, items: Iterable[T]) -> Iterator[T]:
    """The same items, the time that making them takes added to a stage's. What is done with an item
    is not: fused stages run inside each other's loops."""
    iterator = iter(items)
    while True:
        began = time.perf_counter()
        try:
            item = next(iterator)
        except StopIteration:
            return
        finally:
            _spent(stage, began)
        yield item


def _spent(stage: str, began: float) -> None:
    spent = round((time.perf_counter() - began) * 1e6)
    Metrics.distribution(stage, MICROSECONDS).update(spent)


def stage_seconds(metrics: Any) -> dict[str, float]:
    """Seconds of work by stage, summed over workers, from the metrics of a finished pipeline."""
    made: dict[str, float] = {}
    for found in metrics.query()["distributions"]:
        if found.key.metric.name == MICROSECONDS:
            stage = found.key.metric.namespace
            made[stage] = made.get(stage, 0.0) + found.result.sum / 1e6
    return made


class StageCounter:
    """Counts for the live view, one small file for each stage and process, at most three a second.

    They lie on the machine that they are counted on: the live view sees those of its own.
    """

    EVERY = 0.3  # seconds between writes

    def __init__(self, scratch: str, stage: str) -> None:
        self._path: Path | None = None
        if scratch and Path(scratch).is_dir():  # a worker elsewhere has no such folder
            self._path = Path(scratch) / "progress" / f"{stage}.{os.getpid()}.{id(self)}"
            self._path.parent.mkdir(exist_ok=True)
        self._count = 0
        self._written = 0.0

    def add(self, count: int) -> None:
        self._count += count
        now = time.monotonic()
        if now - self._written >= self.EVERY:
            self._written = now
            self.flush()

    def flush(self) -> None:
        if self._path is None:
            return
        with replacing(self._path) as aside:
            aside.write_text(canonical_json(self._count))


def read_progress(scratch: str) -> dict[str, int]:
    """Sum of all counters by stage."""
    totals: dict[str, int] = {}
    for path in _progress_files(Path(scratch) / "progress"):
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
