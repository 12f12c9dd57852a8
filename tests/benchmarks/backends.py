"""What runs the encoder: documents a second and milliseconds a query, one thread, by backend and dtype.

Ratios are to torch in float32 in the same process; `auto` is what a build would take here.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from stillroom.backends import is_installed
from stillroom.encoders import Encoder
from stillroom.errors import VersionSkew
from stillroom.models import load_encoder
from tests.benchmarks.common import read_jsonl

DOCUMENTS, QUERIES, ROUNDS = 64, 60, 3
CHOICES = (
    ("torch", "float32"), ("torch", "bfloat16"), ("onnx", "float32"), ("openvino", "float32"),
    ("openvino", "bfloat16"),
)  # fmt: skip


def main(data: Path) -> None:
    folder = data / "retrieval" / "scifact"
    rows = list(read_jsonl(folder / "corpus" / "corpus.jsonl"))[:DOCUMENTS]
    texts = [f"{row['title']}\n{row['text']}" for row in rows]
    queries = [row["text"] for row in read_jsonl(folder / "queries.test.jsonl")][:QUERIES]
    chosen = load_encoder("minilm").spec
    print(f"auto: {chosen.backend}, {chosen.dtype}")
    base: tuple[float, float] | None = None
    reference: np.ndarray | None = None
    for backend, dtype in CHOICES:
        if not is_installed(backend):
            print(f"{backend} is not installed")
            continue
        try:
            began = time.perf_counter()
            encoder = load_encoder("minilm", dtype, backend)
        except VersionSkew as error:
            print(f"{backend:9} {dtype:9} {error}")
            continue
        loading = time.perf_counter() - began
        made, rate = documents_a_second(encoder, texts)
        spent = query_milliseconds(encoder, queries)
        if base is None or reference is None:
            base, reference = (rate, spent), made
        cosine = float(np.min(np.sum(made * reference, axis=1)))
        print(
            f"{backend:9} {dtype:9} {rate:6.1f} documents/s ({rate / base[0]:.2f}x), query "
            f"{spent:6.2f} ms ({base[1] / spent:.2f}x), cosine {cosine:.5f}, loaded in {loading:.1f} s",
            flush=True,
        )


def documents_a_second(encoder: Encoder, texts: list[str]) -> tuple[np.ndarray, float]:
    made = encoder.encode_documents(texts[:8])
    best = min(_seconds(lambda: encoder.encode_documents(texts)) for _ in range(ROUNDS))
    made = encoder.encode_documents(texts)
    return made, len(texts) / best


def query_milliseconds(encoder: Encoder, queries: list[str]) -> float:
    encoder.encode_queries(queries[:5])
    return 1e3 * float(
        np.median([_seconds(lambda q=q: encoder.encode_queries([q])) for q in queries])
    )


def _seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this thread's work: other work on the machine does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began
