"""What forms of the vectors keep of the dense leg's nDCG@10, on gold judgements, and bytes a vector.

Beside it what the build itself measured, from pseudo-queries alone. `bit`: the signs propose
`SearchPlan.rescore` vectors whatever the base's size, else small bases would compute all products.
"""

import json
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from stillroom.dense import hamming, sign_bits
from stillroom.elastic import Dense, bytes_per_vector, quantise, rotate, scale_of
from stillroom.evaluate import read_qrels, read_queries
from stillroom.models import load_encoder
from stillroom.schemas.plan import DTYPES
from stillroom.store import Build
from stillroom.transforms.pca import axes_of, basis_of, moments_of
from tests.benchmarks.common import build

SETS = ("scifact", "cranfield", "xquad_en", "locomo")
DIMS = (384, 256, 128, 64, 32)


def main(data: Path) -> None:
    kept: dict[str, list[float]] = defaultdict(list)
    for name in SETS:
        with tempfile.TemporaryDirectory() as scratch:
            folder = data / "retrieval" / name
            if name == "locomo":
                folder = locomo(data / "chat" / "locomo_dev.json", Path(scratch) / "locomo")
            build(folder / "corpus", Path(scratch) / "kb", workers=2)
            report(name, Build.open_current(Path(scratch) / "kb"), folder, kept)
    print("mean over the sets:")
    _table({form: f"{100 * np.mean(values):.1f}" for form, values in kept.items()})


def report(name: str, opened: Build, folder: Path, kept: dict[str, list[float]]) -> None:
    """One set: retention by gold, and what the build said."""
    queries = read_queries(folder / "queries.test.jsonl")
    judged = read_qrels(folder / "qrels.test.tsv")
    asked = [one for one in queries if one in judged]
    encoded = load_encoder("minilm").encode_queries([queries[one] for one in asked])
    keys = np.array(opened.entries.column("source_key").to_pylist())[opened.key_entry]
    gold = [judged[one] for one in asked]
    vectors = np.array(opened.vectors)
    full = ndcg(encoded @ vectors.T, keys, gold)
    print(f"{name}: {len(vectors):,} vectors, {len(asked)} queries, whole nDCG@10 {full:.4f}")
    cells = {}
    for form, scores in all_scores(vectors, encoded, opened.manifest.plan.rescore):
        share = ndcg(scores, keys, gold) / full
        kept[form].append(share)
        said = opened.manifest.elastic.get(form, {}).get("retention", np.nan)
        cells[form] = f"{100 * share:.1f} (said {100 * said:.1f})"
    _table(cells)


def all_scores(vectors: np.ndarray, queries: np.ndarray, proposed: int):
    """(form, [queries, n] scores; -inf where a vector is not proposed) of each form."""
    axes = axes_of(moments_of(vectors))
    for dims in DIMS:
        basis = basis_of(axes, dims) if dims < vectors.shape[1] else None
        rows = vectors if basis is None else rotate(vectors, basis)
        scale = scale_of(np.abs(rows).max(axis=0))
        whole = Dense(rows, None, basis)
        small = Dense(quantise(rows, scale), None, basis, scale)
        every = np.arange(len(rows))
        yield f"{dims}/f32", np.stack([whole.scores(every, one) for one in queries])
        scores = np.stack([small.scores(every, one) for one in queries])
        yield f"{dims}/int8", scores
        bits, asked = sign_bits(rows), queries if basis is None else rotate(queries, basis)
        for row, one in zip(scores, sign_bits(asked).T, strict=True):
            row[np.argsort(hamming(bits, one), kind="stable")[proposed:]] = -np.inf
        yield f"{dims}/bit", scores


def ndcg(scores: np.ndarray, keys: np.ndarray, gold: list[dict[str, int]]) -> float:
    """Mean nDCG@10 by document, each with its best vector; `keys` names the document of each."""
    names, inverse = np.unique(keys, return_inverse=True)
    discount = 1 / np.log2(np.arange(2, 12))
    made = []
    for row, grades in zip(scores, gold, strict=True):
        best = np.full(len(names), -np.inf)
        np.maximum.at(best, inverse, row)
        top = [n for n in np.argsort(-best, kind="stable")[:10] if best[n] > -np.inf]
        gains = np.array([grades.get(names[n], 0) for n in top], float)
        ideal = np.sort([g for g in grades.values() if g > 0])[::-1][:10]
        made.append((gains @ discount[: len(gains)]) / (ideal @ discount[: len(ideal)]))
    return float(np.mean(made))


def locomo(source: Path, into: Path) -> Path:
    """LoCoMo's development dialogues as a judged set: a turn a document, evidence turns as answers."""
    rows, queries, judged = [], [], []
    for sample in json.loads(source.read_text()):
        name = sample["sample_id"]
        for session, turns in sample["conversation"].items():
            if session.startswith("session_") and isinstance(turns, list):
                for turn in turns:
                    caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
                    text = f"{turn['speaker']}: {turn['text']}{caption}"
                    rows.append({"_id": f"{name}:{turn['dia_id']}", "title": "", "text": text})
        known = {row["_id"] for row in rows}
        for number, asked in enumerate(sample["qa"]):
            evidence = " ".join(asked.get("evidence", ())).replace(";", " ").replace(",", " ")
            found = sorted({f"{name}:{one}" for one in evidence.split()} & known)
            if asked.get("category") != 5 and found:  # 5: questions without an answer
                queries.append({"_id": f"{name}:q{number}", "text": asked["question"]})
                judged += [f"{name}:q{number}\t{one}\t1" for one in found]
    (into / "corpus").mkdir(parents=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (into / "corpus" / "corpus.jsonl").write_text(lines)
    (into / "queries.test.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
    (into / "qrels.test.tsv").write_text("".join(f"{line}\n" for line in judged))
    return into


def _table(cells: dict[str, str]) -> None:
    print(f"  {'dims':>4} " + " ".join(f"{dtype:>20} {'bytes':>5}" for dtype in DTYPES))
    for dims in DIMS:
        row = (
            f"{cells[f'{dims}/{dtype}']:>20} {bytes_per_vector(dims, dtype):5}" for dtype in DTYPES
        )
        print(f"  {dims:4} " + " ".join(row), flush=True)
