"""Peak memory and bytes on disk as a base grows from 5,000 to 200,000 short documents.

The encoder is a stub: what is measured is everything else. Each size runs in a process of its own.
"""

import itertools
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.common import (
    PeakMemory,
    build,
    folder_bytes,
    sentences,
    use_stub,
    write_documents,
)

SIZES = (5_000, 20_000, 50_000, 200_000)


def main(data: Path) -> None:
    context = multiprocessing.get_context("spawn")
    print("  documents  seconds  peak MB over start  KB/document   KB/document on disk (serve)")
    for size in SIZES:
        with context.Pool(1) as pool:
            print(pool.apply(measure, (str(data), size)), flush=True)


def measure(data: str, size: int) -> str:
    encoder = use_stub()
    with tempfile.TemporaryDirectory() as scratch:
        source, kb = Path(scratch) / "in" / "docs.jsonl", Path(scratch) / "kb"
        write_documents(source, itertools.islice(short_texts(Path(data)), size))
        with PeakMemory() as memory:
            began = time.perf_counter()
            outcome, _ = build(source, kb, encoder=encoder)
            spent = time.perf_counter() - began
        assert outcome.accounting.read == size
        over = memory.peak - memory.start
        disk, serve = folder_bytes(kb), folder_bytes(kb / "serve")
        return (
            f"{size:11,} {spent:8.1f} {over / 1e6:19.0f} {over / 1e3 / size:12.2f} "
            f"{disk / 1e3 / size:12.2f} ({serve / 1e3 / size:.2f})"
        )


def short_texts(data: Path) -> Iterator[str]:
    """Sentences, then pairs of sentences further and further apart: distinct texts without end."""
    pool = sentences(data)
    yield from pool
    for step in itertools.count(1):
        for first, second in zip(pool, pool[step:], strict=False):
            yield f"{first} {second}"
