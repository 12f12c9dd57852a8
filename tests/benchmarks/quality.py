"""Retrieval quality on judged sets: each leg, the hybrid, compressed keys, and bm25s beside them."""

import tempfile
from pathlib import Path

import bm25s
import numpy as np
import Stemmer

import stillroom
from stillroom.evaluate import evaluate, interval, read_qrels, read_queries
from tests.benchmarks.common import SETS, build, read_jsonl

COMPRESSED = {"keys": ("text", "path", "compressed"), "dense_keys": ("compressed",)}


def main(data: Path) -> None:
    print(f"{'set':12} {'what':18} {'nDCG@10':>8} {'95 % interval':>16} {'R@100':>7}  weight")
    means: dict[str, list[float]] = {}
    for name in SETS:
        folder = data / "retrieval" / name
        splits = [s for s in ("train", "test") if (folder / f"queries.{s}.jsonl").exists()]
        for split in splits:
            if "zh" not in name and "cmrc" not in name:
                ndcg, recall = bm25s_scores(folder, split)
                print(f"{name:12} {'bm25s ' + split:18} {ndcg:8.4f} {'':16} {recall:7.4f}")
        for label, changes in (("", {}), (" compressed .75", COMPRESSED)):
            with tempfile.TemporaryDirectory() as scratch:
                kb_path = Path(scratch) / "kb"
                outcome, _ = build(folder / "corpus", kb_path, workers=2, **changes)
                kb = stillroom.open(kb_path)
                for split in splits:
                    for mode in ("lexical", "dense", "hybrid"):
                        if label and mode == "lexical":
                            continue
                        measured = evaluate(
                            kb, folder / f"queries.{split}.jsonl", folder / f"qrels.{split}.tsv",
                            mode=mode,
                        )  # fmt: skip
                        ndcg_, recall_ = measured["nDCG@10"], measured["R@100"]
                        what = f"{mode} {split}{label and ' .75'}"
                        print(
                            f"{name:12} {what:18} {ndcg_.mean:8.4f} "
                            f"{ndcg_.low:7.3f} to {ndcg_.high:.3f} {recall_.mean:7.4f}  "
                            f"{outcome.plan.dense_weight if mode == 'hybrid' else ''}",
                            flush=True,
                        )
                        if split == "test":
                            means.setdefault(mode + label, []).append(ndcg_.mean)
    for what, values in means.items():
        print(f"mean over {len(values)} test sets, {what}: {np.mean(values):.4f}")


def bm25s_scores(folder: Path, split: str) -> tuple[float, float]:
    """nDCG@10 and recall@100 of bm25s with English stemming and stop words, in this process."""
    import ir_measures
    from ir_measures import R, nDCG

    rows = read_jsonl(folder / "corpus" / "corpus.jsonl")
    stem = Stemmer.Stemmer("english")
    texts = [f"{row['title']} {row['text']}" for row in rows]
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    index.index(
        bm25s.tokenize(texts, stopwords="en", stemmer=stem, show_progress=False),
        show_progress=False,
    )
    queries = read_queries(folder / f"queries.{split}.jsonl")
    judged = read_qrels(folder / f"qrels.{split}.tsv")
    asked = {name: text for name, text in queries.items() if name in judged}
    tokens = bm25s.tokenize(list(asked.values()), stopwords="en", stemmer=stem, show_progress=False)
    found, scores = index.retrieve(tokens, k=min(100, len(rows)), show_progress=False)
    run = {
        name: {rows[i]["_id"]: float(s) for i, s in zip(found[n], scores[n], strict=True)}
        for n, name in enumerate(asked)
    }
    some = {name: judged[name] for name in asked}
    by_measure: dict[str, list[float]] = {}
    for metric in ir_measures.iter_calc([nDCG @ 10, R @ 100], some, run):
        by_measure.setdefault(str(metric.measure), []).append(metric.value)
    means = {name: interval(np.array(values)).mean for name, values in by_measure.items()}
    return means["nDCG@10"], means["R@100"]
