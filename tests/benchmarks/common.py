"""What benchmarks share: corpora, builds, a stub encoder, peak memory."""

import json
import logging
import os
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.recipe import Recipe, Source
from stillroom.transforms.publish import Outcome
from stillroom.transforms.sentences import sentence_spans

SETS = ("scifact", "cranfield", "xquad_en", "xquad_zh", "cmrc_trial")
os.environ.setdefault("LANCE_LOG", "error")
logging.getLogger().setLevel(logging.ERROR)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def corpus_recipe(source: Path, **changes: Any) -> Recipe:
    return Recipe("corpus", (Source("corpus", str(source)),), **changes)


def build(source: Path, kb: Path, workers: int = 1, **changes: Any) -> tuple[Outcome, float]:
    """Build and return the outcome and the seconds that the pipeline took, the launcher's imports
    and model loading apart (workers' own are inside)."""
    planned = plan_build(corpus_recipe(source, **changes), str(kb))
    began = time.perf_counter()
    outcome = run_build(planned, workers)
    return outcome, time.perf_counter() - began


def sentences(data: Path) -> list[str]:
    """Distinct sentences of all corpora, in a fixed order."""
    made: dict[str, None] = {}
    for name in (*SETS, "2wiki"):
        for row in read_jsonl(data / "retrieval" / name / "corpus" / "corpus.jsonl"):
            for start, end in sentence_spans(row["text"]):
                if end - start >= 20:
                    made[row["text"][start:end]] = None
    return list(made)


def write_documents(path: Path, texts: Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for number, text in enumerate(texts):
            stream.write(json.dumps({"_id": str(number), "title": "", "text": text}) + "\n")


class PeakMemory:
    """Highest resident bytes of this process while the block runs, sampled every 20 ms."""

    def __enter__(self) -> Self:
        self.start = self.peak = _resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, _resident())


def _resident() -> int:
    """Anonymous memory: pages of mapped files can be dropped by the system at any time."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
