"""What `rerank="maxsim"` does to judged queries: nDCG@10 with each share of the score, and its time.

The share is chosen on SciFact's train queries; the others are only shown.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import stillroom
from stillroom import rerank
from stillroom.evaluate import evaluate
from tests.benchmarks.common import build, read_jsonl

SHARES = (0.1, 0.2, 0.3, 0.5, 0.7)
ASKED = 100
JUDGED = (("scifact", "train"), ("scifact", "test"), ("cranfield", "test"), ("xquad_en", "test"))


def main(data: Path) -> None:
    shipped = rerank.WEIGHT
    with tempfile.TemporaryDirectory() as scratch:
        for name, split in JUDGED:
            folder, base = data / "retrieval" / name, Path(scratch) / name
            if not base.exists():
                build(folder / "corpus", base)
            kb = stillroom.open(base)
            queries, qrels = folder / f"queries.{split}.jsonl", folder / f"qrels.{split}.tsv"
            shown = [f"without {evaluate(kb, queries, qrels)['nDCG@10'].mean:.4f}"]
            for share in SHARES:
                rerank.WEIGHT = share
                made = evaluate(kb, queries, qrels, rerank="maxsim")["nDCG@10"].mean
                shown.append(f"{share} {made:.4f}")
            rerank.WEIGHT = shipped
            texts = [row["text"] for row in read_jsonl(queries)][:ASKED]
            spent = []
            for text in texts:
                began = time.perf_counter()
                kb.search(text, rerank="maxsim")
                spent.append(1e3 * (time.perf_counter() - began))
            print(
                f"  {name} {split}: {', '.join(shown)}; p50 {np.median(spent):.0f} ms", flush=True
            )
