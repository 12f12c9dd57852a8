"""Query latency at 5,000 and 100,000 entries of one vector each, by part, and recall of the scan."""

import itertools
import tempfile
from pathlib import Path

import numpy as np

import stillroom
from stillroom.dense import nearest_vectors
from stillroom.evaluate import read_queries
from stillroom.models import load_encoder
from tests.benchmarks.common import build, write_documents
from tests.benchmarks.growth import short_texts

SIZES = (5_000, 100_000)
WARM, ASKED = 20, 300


def main(data: Path) -> None:
    queries = list(read_queries(data / "retrieval/scifact/queries.test.jsonl").values())[:ASKED]
    for size in SIZES:
        with tempfile.TemporaryDirectory() as scratch:
            source, kb_path = Path(scratch) / "in" / "docs.jsonl", Path(scratch) / "kb"
            write_documents(source, itertools.islice(short_texts(data), size))
            _, seconds = build(source, kb_path, workers=2)
            kb = stillroom.open(kb_path)
            print(
                f"{len(kb):,} entries, {len(kb._builds[0].vectors):,} vectors, built in {seconds:.0f} s"
            )
            report(kb, queries)
            recall(kb, queries)


def report(kb: stillroom.KnowledgeBase, queries: list[str]) -> None:
    for query in queries[:WARM]:
        kb.search(query)
    parts = [dict(kb.search(query).timings) for query in queries]
    names = sorted({name for one in parts for name in one})
    whole = np.array([sum(v for name, v in one.items() if name != "encode") for one in parts])
    for name in names:
        values = np.array([one.get(name, 0.0) for one in parts])
        print(
            f"  {name:10} p50 {np.median(values):6.2f} ms  p99 {np.percentile(values, 99):6.2f} ms"
        )
    print(
        f"  {'all but encoding':16} p50 {np.median(whole):6.2f} ms  p99 {np.percentile(whole, 99):.2f} ms"
    )


def recall(kb: stillroom.KnowledgeBase, queries: list[str]) -> None:
    """Recall@10 of the sign-bit scan against all products."""
    built = kb._builds[0]
    encoder = load_encoder("minilm")
    count = max(built.manifest.plan.depth, built.manifest.plan.rescore)
    shares = []
    for vector in encoder.encode_queries(queries):
        exact = np.argsort(-(built.vectors @ vector), kind="stable")[:10]
        found, _ = nearest_vectors(built.vectors, built.bits, vector, count)
        shares.append(len(set(exact) & set(found[:10])) / 10)
    print(f"  recall@10 of the dense leg against exact search: {np.mean(shares):.4f}")
