"""The light query encoder against the full one: quality on judged queries, and the time of a query.

SciFact (full size), Cranfield, XQuAD-en, and LoCoMo's turns with the questions' evidence as judgements; one
build of each, whose retention was measured without any of these queries.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stillroom
from stillroom.evaluate import evaluate
from stillroom.models import load_encoder, load_for
from tests.benchmarks.common import build, read_jsonl

SETS = ("scifact", "cranfield", "xquad_en", "locomo")
MODES = ("dense", "hybrid")
MEASURES = ("nDCG@10", "R@100")
ROUNDS = 200


def main(data: Path) -> None:
    kept: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in SETS:
            folder = data / "retrieval" / name
            if name == "locomo":
                folder = Path(scratch) / "locomo-input"
                write_locomo(data / "chat" / "locomo_dev.json", folder)
            base = Path(scratch) / name
            _, seconds = build(folder / "corpus", base)
            kb = stillroom.open(base)
            light = kb.manifests[0].light
            print(f"{name}: {seconds:.0f} s, retention measured in the build {light.retention}")
            for mode in MODES:
                figures = {
                    encoder: evaluate(
                        kb, folder / "queries.test.jsonl", folder / "qrels.test.tsv", "document",
                        mode, encoder,
                    )
                    for encoder in ("full", "light")
                }  # fmt: skip
                for measure in MEASURES:
                    full, new = (figures[e][measure].mean for e in ("full", "light"))
                    kept.setdefault((mode, measure), []).append(new / full)
                    print(
                        f"  {mode:6} {measure:10} {full:.4f} -> {new:.4f}  {new / full:6.1%}",
                        flush=True,
                    )
            if name == "scifact":
                texts = [row["text"] for row in read_jsonl(folder / "queries.test.jsonl")]
                print_speed(kb, texts[:ROUNDS])
    for (mode, measure), shares in kept.items():
        print(f"mean {mode:6} {measure:10} {np.mean(shares):6.1%}, lowest {min(shares):6.1%}")


def print_speed(kb: stillroom.KnowledgeBase, texts: list[str]) -> None:
    """Milliseconds a query, text to vector and whole searches, one thread."""
    one = kb._builds[0]
    light = one.light
    ids = {text: light._ids(text) for text in texts}
    measured = {
        "light": median_ms(light.encode, texts),
        "light, look-up alone": median_ms(lambda text: light.mean(ids[text]), texts),
    }
    name = one.manifest.encoder.name
    full = {
        "torch float32": load_encoder(name, "float32", "torch"),
        "ONNX Runtime float32": load_encoder(name, "float32", "onnx"),
        "the base's own": load_for(one.manifest.encoder, exact=False),
    }
    for what, encoder in full.items():
        ms = median_ms(lambda text, e=encoder: e.encode_queries([text]), texts)
        ratios = ", ".join(f"{fast} {ms / quick:.0f}x" for fast, quick in measured.items())
        print(f"  {what:22} {ms:8.4f} ms; {ratios} as fast")
    for what, ms in measured.items():
        print(f"  {what:22} {ms:8.4f} ms")
    for encoder in ("full", "light"):
        spent = milliseconds(lambda text, e=encoder: kb.search(text, encoder=e), texts)
        print(f"  whole hybrid query, {encoder:5} p50 {np.percentile(spent, 50):.2f} ms, p99 "
              f"{np.percentile(spent, 99):.2f} ms")  # fmt: skip


def milliseconds(work: Callable[[str], object], texts: list[str]) -> np.ndarray:
    for text in texts[:20]:
        work(text)
    spent = []
    for text in texts:
        began = time.perf_counter()
        work(text)
        spent.append((time.perf_counter() - began) * 1e3)
    return np.array(spent)


def median_ms(work: Callable[[str], object], texts: list[str]) -> float:
    return float(np.median(milliseconds(work, texts)))


def write_locomo(path: Path, folder: Path) -> None:
    """Turns as documents, questions with evidence as queries (the adversarial ones, category 5, have
    none)."""
    (folder / "corpus").mkdir(parents=True)
    turns, queries, qrels = [], [], []
    for conversation in json.loads(path.read_text(encoding="utf-8")):
        name = conversation["sample_id"]
        for session, said in conversation["conversation"].items():
            if session.startswith("session_") and isinstance(said, list):
                for turn in said:
                    text = f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption') or ''}"
                    turns.append({"_id": f"{name}:{turn['dia_id']}", "text": text.strip()})
        known = {turn["_id"] for turn in turns}
        for number, question in enumerate(conversation["qa"]):
            named = " ".join(question.get("evidence", [])).replace(";", " ").replace(",", " ")
            evidence = {f"{name}:{one}" for one in named.split()} & known
            if question.get("category") != 5 and evidence:
                queries.append({"_id": f"{name}:q{number}", "text": question["question"]})
                qrels += [f"{name}:q{number}\t{one}\t1\n" for one in sorted(evidence)]
    for file, rows in (("corpus/corpus.jsonl", turns), ("queries.test.jsonl", queries)):
        lines = [json.dumps(row) + "\n" for row in rows]
        (folder / file).write_text("".join(lines), encoding="utf-8")
    (folder / "qrels.test.tsv").write_text("".join(qrels), encoding="utf-8")
