"""200 readers, threads of four processes, through 20 publishes, two rollbacks and a gc.

Every page of a build names its edition, so that an answer put together from two builds shows. The
readers rest between questions: 200 that never do would only measure two cores.
"""

import collections
import multiprocessing
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import stillroom
from stillroom.store import current_build
from stillroom.transforms.maintenance import collect_garbage, verify_build
from stillroom.versions import list_builds, rollback
from tests.benchmarks.common import build

PROCESSES, THREADS, PUBLISHES, PAGES = 4, 50, 20, 60


def main(data: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch:
        folder, kb = Path(scratch) / "in", Path(scratch) / "kb"
        write_edition(folder, 0)
        build(folder, kb)
        stop, answers = context.Event(), context.Queue()
        readers = [
            context.Process(target=read_many, args=(str(kb), stop, answers))
            for _ in range(PROCESSES)
        ]
        for reader in readers:
            reader.start()
        for edition in range(1, PUBLISHES + 1):
            write_edition(folder, edition)
            build(folder, kb)
            if edition % 10 == 5:
                rollback(kb, list_builds(kb)[-3].build)
            if edition == 12:
                print(f"gc removed {len(collect_garbage(kb, keep=3))} builds", flush=True)
        last = current_build(kb)
        time.sleep(2)
        stop.set()
        made = [answers.get(timeout=120) for _ in readers]
        for reader in readers:
            reader.join()
        report(made, last, verify_build(kb))


def write_edition(folder: Path, edition: int) -> None:
    """PAGES pages of this edition; those whose number it divides are new."""
    folder.mkdir(exist_ok=True)
    for n in range(PAGES):
        text = f"# Page {n}\n\nPage {n} of edition number{edition} is about subject {n % 7}."
        (folder / f"{n}.md").write_text(text, encoding="utf-8")


def read_many(kb: str, stop: Any, answers: Any) -> None:
    errors: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    seconds: list[float] = []
    lock = threading.Lock()

    def read(number: int) -> None:
        base = stillroom.open(kb)
        while not stop.is_set():
            began = time.perf_counter()
            try:
                hits = base.search(f"edition subject {number % 7}", k=20, mode="lexical")
                words = " ".join(hit.value for hit in hits).split()
                editions = {word for word in words if word.startswith("number")}
                builds = {hit.build_id for hit in hits}
                problem = "" if (len(hits), len(editions), len(builds)) == (20, 1, 1) else "mixed"
                base.refresh()
            except Exception as error:  # noqa: BLE001 - whatever a reader sees is what is measured
                problem, builds = f"{type(error).__name__}: {error}", set()
            with lock:
                seconds.append(time.perf_counter() - began)
                seen.update(builds)
                if problem:
                    errors[problem] += 1
            stop.wait(0.5)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((os.getpid(), dict(errors), dict(seen), seconds))


def report(made: list[Any], last: str, problems: list[str]) -> None:
    errors: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    for _, some_errors, some_seen, _ in made:
        errors.update(some_errors)
        seen.update(some_seen)
    spent = np.concatenate([seconds for *_, seconds in made]) * 1000
    print(f"readers {PROCESSES * THREADS}, answers {sum(seen.values()):,} from {len(seen)} builds")
    print(f"errors {sum(errors.values())} {dict(errors) or ''}; verify: {problems or 'no problem'}")
    print(f"the last build answered {seen[last]:,} times")
    print(f"search and refresh p50 {np.percentile(spent, 50):.1f} ms, p99 "
          f"{np.percentile(spent, 99):.1f} ms beside the builds")  # fmt: skip
