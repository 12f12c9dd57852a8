"""A base of short texts as it grows: time, memory, bytes, and what a query costs and finds.

Vectors come from a static embedding model whose table is a light encoder's, fitted on abstracts
(its rows times their weights): a real vector space of real words, without a transformer's time. Up to
50,000 documents a build is alone in its process; the larger ones are queried as well.
"""

import itertools
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import stillroom
from tests.benchmarks.common import (
    PeakMemory,
    build,
    folder_bytes,
    read_jsonl,
    sentences,
    write_documents,
)

SIZES = (5_000, 20_000, 50_000, 100_000, 200_000, 1_000_000)
FITTED_ON = 1_000  # abstracts of SciFact that the static model's table is fitted on
WARM, ASKED, COMPARED = 20, 300, 100
PARTS = ("lexical", "dense", "fuse", "fetch", "encode")


def main(data: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "static"
        with context.Pool(1) as pool:
            pool.apply(write_model, (str(data), str(model)))
        for size in SIZES:
            with context.Pool(1) as pool:
                print(pool.apply(measure, (str(data), str(model), size)), flush=True)


def write_model(data: str, folder: str) -> None:
    """A sentence-transformers folder whose only module is a static embedding."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Normalize, StaticEmbedding
    from tokenizers import Tokenizer

    with tempfile.TemporaryDirectory() as scratch:
        source, kb = Path(scratch) / "in" / "docs.jsonl", Path(scratch) / "kb"
        rows = read_jsonl(Path(data) / "retrieval" / "scifact" / "corpus" / "corpus.jsonl")
        write_documents(source, (row["text"] for row in rows[:FITTED_ON]))
        build(source, kb)
        light = stillroom.open(kb)._builds[0].light
        table = light._table.astype(np.float32) * light._weights[:, None]
        tokenizer = Tokenizer.from_str(light._tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    model = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=table), Normalize()]
    )
    model.save(folder)


def measure(data: str, model: str, size: int) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        source, kb_path = Path(scratch) / "in" / "docs.jsonl", Path(scratch) / "kb"
        write_documents(source, itertools.islice(short_texts(Path(data)), size))
        stillroom.models.load_encoder(model)
        with PeakMemory() as memory:
            began = time.perf_counter()
            outcome, _ = build(source, kb_path, encoder=model)
            spent = time.perf_counter() - began
        assert outcome.accounting.read == size
        over = memory.peak - memory.start
        parts = {
            name: folder_bytes(kb_path / name)
            for name in ("serve", "lexical", "documents.lance", "entries.lance", "keys.lance")
        }
        index = folder_bytes(kb_path / "keys.lance" / "_indices")
        took = f"{spent:.0f} s ({1e3 * spent / size:.2f} ms each)"
        lines = [
            f"{size:,} documents: {took}, peak +{over / 1e6:,.0f} MB ({over / 1e3 / size:.1f} KB each)",
            "  bytes each: "
            + ", ".join(f"{name} {count / size:,.0f}" for name, count in parts.items())
            + f" (index of vectors {index / size:,.0f})",
            f"  stages: {stages(kb_path, outcome.build)}",
        ]
        if size >= SIZES[3]:
            texts = read_jsonl(Path(data) / "retrieval" / "scifact" / "queries.test.jsonl")
            lines += asked(kb_path, [row["text"] for row in texts])
    return "\n".join(lines)


def stages(kb: Path, build_id: str) -> str:
    spent = json.loads((kb / "builds" / build_id / "timings.json").read_text())
    return json.dumps(spent)


def asked(kb_path: Path, texts: list[str]) -> list[str]:
    """Milliseconds of whole hybrid queries and their parts; recall@10 of the dense leg against every
    product."""
    kb = stillroom.open(kb_path)
    one = kb._builds[0]
    for text in texts[:WARM]:
        kb.search(text, encoder="full")
    spent, parts = [], []
    for text in texts[:ASKED]:
        began = time.perf_counter()
        hits = kb.search(text, encoder="full")
        spent.append(1e3 * (time.perf_counter() - began))
        parts.append(hits.timings)
    shown = ", ".join(
        f"{name} {np.median([p.get(name, 0.0) for p in parts]):.2f}" for name in PARTS
    )
    shares = []
    encoder = stillroom.models.load_for(one.manifest.encoder, exact=False)
    for vector in encoder.encode_queries(texts[:COMPARED]):
        best = one.dense.exact(vector, 10)[1]
        found = one.dense.nearest(vector, one.manifest.plan.depth)[1][:10]
        shares.append(float((found >= best[-1] - 1e-6).mean()))
    p50, p99 = np.percentile(spent, (50, 99))
    return [
        f"  {one.manifest.plan.tier}, hybrid p50 {p50:.2f} ms, p99 {p99:.2f} (p50 by part: {shown})",
        f"  recall@10 of the dense leg against all products {np.mean(shares):.4f}"
        + (f"; measured in the build {dict(one.manifest.index)}" if one.manifest.index else ""),
    ]


def short_texts(data: Path) -> Iterator[str]:
    """Sentences, then pairs of sentences further and further apart: distinct texts without end."""
    pool = sentences(data)
    yield from pool
    for step in itertools.count(1):
        for first, second in zip(pool, pool[step:], strict=False):
            yield f"{first} {second}"
