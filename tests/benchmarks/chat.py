"""Chat memory on LoCoMo, and topic segmentation on TIAGE and MT-Bench+.

Constants were chosen on the first three conversations and on TIAGE's training dialogues; the other two
conversations, TIAGE's set `dev` and MT-Bench+ were only looked at. Evidence recall within a budget: the
share of a question's evidence turns among the turns handed out, tokens counted as words and signs.
"""

import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import stillroom
from stillroom import engine, query_vectors
from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.recipe import Source, make_recipe
from stillroom.transforms.segmenters import make_segmenter
from stillroom.transforms.turns import Said

BUDGETS = (512, 1024, 4096)
TUNED = 3  # conversations that constants were chosen on
PARTS = ("context_weight", "contiguity", "time_weight", "same_statement")
TURNS: dict[str, Any] = {"keys": ("text", "path", "turn"), "dense_keys": ("turn",)}
PLAIN: dict[str, Any] = dict.fromkeys(PARTS, 0.0)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop"}
RESAMPLES = 2_000
_WORD = re.compile(r"\w+|[^\w\s]")


def main(data: Path) -> None:
    segmentation(data / "chat")
    refer_back(data / "chat" / "mtbenchplus" / "mtbenchplus.json")
    engine.token_counter = lambda build: count_tokens
    remember_query_vectors()
    source = data / "chat" / "locomo_dev.json"
    asked = list(questions(json.loads(source.read_text(encoding="utf-8"))))
    with tempfile.TemporaryDirectory() as scratch:
        rows: dict[str, np.ndarray] = {}
        for segment in ("turn", "session", "window", "surprise", "topical"):
            whole = {"segment_tokens": 8192} if segment in ("turn", "session", "window") else {}
            kb = memory(source, Path(scratch) / segment, segment=segment, **whole, **TURNS)
            for mode in ("lexical", "dense", "hybrid"):
                rows[f"{segment} {mode}"] = show(f"{segment}, {mode}", kb, asked, mode, PLAIN)
        show("default without facts", kb, asked, "hybrid", {})
        kb = memory(source, Path(scratch) / "default")
        show_default(kb, asked, rows)
        for name in PARTS:
            show(f"default without {name}", kb, asked, "hybrid", {name: 0.0})
        for extra in ("event", "keyphrase", "summary", "compressed"):
            choices = {name: (*kinds, "fact", extra) for name, kinds in TURNS.items()}
            made = memory(source, Path(scratch) / "expanded", **choices)
            show(f"default with {extra} keys", made, asked, "hybrid", {})
        for rate in (1.0, 0.9, 0.75, 0.5):
            made = memory(
                source, Path(scratch) / "compressed", compress_rate=rate,
                keys=("text", "path", "compressed"), dense_keys=("compressed",),
            )  # fmt: skip
            tokens = sum(map(count_tokens, made._builds[0].keys.column("text").to_pylist()))
            show(f"compressed alone, {rate}: {tokens} tokens", made, asked, "hybrid", {})


def memory(source: Path, kb: Path, **choices: Any) -> stillroom.KnowledgeBase:
    """A chat base of one file, opened; the seconds of its build are printed."""
    began = time.perf_counter()
    recipe = make_recipe("chat", (Source("chat", str(source)),), **choices)
    outcome = run_build(plan_build(recipe, str(kb)))
    spent = time.perf_counter() - began
    print(f"  ({choices}: {outcome.counts['entries']} entries, {spent:.0f} s)", flush=True)
    return stillroom.open(kb)


Question = tuple[int, str, str, frozenset[str], int]


def questions(conversations: Sequence[Any]) -> Iterator[Question]:
    """(number of the conversation, its name, text, evidence turns, category) where there is evidence and
    the question is not adversarial."""
    for number, conversation in enumerate(conversations):
        sessions = conversation["conversation"].items()
        known = {
            turn["dia_id"]
            for name, turns in sessions
            if name.startswith("session_") and isinstance(turns, list)
            for turn in turns
        }
        for asked in conversation["qa"]:
            evidence = set(re.findall(r"D\d+:\d+", " ".join(asked["evidence"]))) & known
            if asked["category"] in CATEGORIES and evidence:
                yield (
                    number, conversation["sample_id"], asked["question"], frozenset(evidence),
                    asked["category"],
                )  # fmt: skip


def recall(
    kb: stillroom.KnowledgeBase, asked: Sequence[Question], mode: str, plan: dict[str, Any]
) -> np.ndarray:
    """float64 [questions, budgets + 2]: evidence recall within each budget, in 5 and in 10 hits."""
    build = kb._builds[0]
    kept = build.manifest
    build.manifest = replace(kept, plan=replace(kept.plan, **plan))
    try:
        return np.array([_recalls(kb, question, mode) for question in asked])
    finally:
        build.manifest = kept


def _recalls(kb: stillroom.KnowledgeBase, question: Question, mode: str) -> list[float]:
    _, name, text, evidence, _ = question
    where = {"conversation": name}
    made = []
    for budget in BUDGETS:
        hits = kb.search(text, budget=budget, where=where, mode=mode)
        made.append(_found(hits, evidence))
    ten = kb.search(text, k=10, where=where, mode=mode)
    return [*made, _found(ten[:5], evidence), _found(ten, evidence)]


def _found(hits: Any, evidence: frozenset[str]) -> float:
    turns = {mark.source_id for hit in hits for mark in hit.marks}
    return len(turns & evidence) / len(evidence)


def show(
    name: str, kb: stillroom.KnowledgeBase, asked: Sequence[Question], mode: str,
    plan: dict[str, Any],
) -> np.ndarray:  # fmt: skip
    """Print and return the recall of one row, of the tuned conversations and the others."""
    made = recall(kb, asked, mode, plan)
    held = np.array([question[0] >= TUNED for question in asked])
    cells = " ".join(f"{100 * value:5.1f}" for value in made[~held].mean(axis=0))
    others = " ".join(f"{100 * value:5.1f}" for value in made[held].mean(axis=0))
    print(f"{name:36} tuned {cells} | held out {others}", flush=True)
    return made


def show_default(
    kb: stillroom.KnowledgeBase, asked: Sequence[Question], rows: dict[str, np.ndarray]
) -> None:
    """The default against the best baseline row of each budget, and against each in the mean."""
    default = show("default", kb, asked, "hybrid", {})
    held = np.array([question[0] >= TUNED for question in asked])
    random = np.random.default_rng(0)
    count = len(BUDGETS)
    for which, mask in (("tuned", ~held), ("held out", held)):
        own = default[mask][:, :count]
        for column, budget in enumerate(BUDGETS):
            name, best = max(
                ((name, row[mask][:, column].mean()) for name, row in rows.items()),
                key=lambda item: item[1],
            )
            gap = own[:, column].mean() - best
            print(f"  {which}, {budget}: {100 * gap:+.1f} points to the best row ({name})")
        name, row = max(rows.items(), key=lambda item: item[1][mask][:, :count].mean())
        gains = (own - row[mask][:, :count]).mean(axis=1)
        picks = random.integers(0, len(gains), (RESAMPLES, len(gains)))
        low, high = np.percentile(gains[picks].mean(axis=1), (2.5, 97.5))
        print(
            f"  {which}, mean of budgets: {100 * gains.mean():+.1f} [{100 * low:+.1f}, "
            f"{100 * high:+.1f}] against {name}"
        )
    for category, word in CATEGORIES.items():
        some = default[[question[4] == category for question in asked]]
        cells = " ".join(f"{100 * value:5.1f}" for value in some.mean(axis=0))
        print(f"  {word:12} {len(some):4} questions  {cells}")


def segmentation(data: Path) -> None:
    """Pk, WindowDiff, F1 and Score of SuperDialseg, macro over dialogues."""
    tiage = json.loads((data / "tiage_dev.json").read_text(encoding="utf-8"))
    sets = {
        f"TIAGE {which}": [(d["utterances"], d["segments"]) for d in tiage if d["set"] == which]
        for which in ("train", "dev")
    }
    sets["MT-Bench+"] = list(mtbench(data / "mtbenchplus" / "mtbenchplus.json"))
    from stillroom.models import load_encoder

    spec = load_encoder("minilm").spec
    for name, dialogues in sets.items():
        for segment in ("topical", "surprise"):
            recipe = make_recipe("chat", (Source("x", "x"),), segment=segment)
            segmenter = make_segmenter(recipe, spec)
            scores = np.array([_scores(segmenter, *dialogue) for dialogue in dialogues])
            pk, difference, f1 = scores.mean(axis=0)
            score = 0.5 * f1 + 0.25 * (1 - pk) + 0.25 * (1 - difference)
            print(
                f"{name:12} {segment:9} Pk {pk:.3f} WindowDiff {difference:.3f} F1 {f1:.3f} "
                f"Score {score:.3f}",
                flush=True,
            )


def refer_back(path: Path) -> None:
    """MT-Bench+: the topic to which a last question refers, by the first hit: the share of the topic's
    turns that it holds, and of its turns that are of the topic; beside those of the gold topics."""
    from stillroom.pipelines import chat

    asked, topics, gold = [], {}, {}
    for dialogue in json.loads(path.read_text(encoding="utf-8")):
        said = [turn for turn in dialogue["conversations"] if turn["from"] == "human"]
        labels = [turn["turn-info"].rpartition("-")[0] for turn in said]
        topics[dialogue["id"]] = list(
            zip([turn["value"].strip() for turn in said[:-1]], labels[:-1], strict=True)
        )
        asked.append((dialogue["id"], said[-1]["value"], labels[-1]))
        lengths = [len(list(group)) for _, group in groupby(labels[:-1])]
        ends = np.cumsum(lengths).tolist()
        texts = tuple(turn["value"].strip() for turn in said[:-1])
        gold[texts] = list(zip([0, *ends[:-1]], ends, strict=True))

    class Gold:
        def setup(self) -> None: ...

        def runs(self, turns: Sequence[Said]) -> Any:
            return gold[tuple(turn.text.partition(": ")[2] for turn in turns)]

    made = chat.make_segmenter
    for name, segmenter in (("topical", made), ("gold topics", lambda *_: Gold())):
        chat.make_segmenter = segmenter
        with tempfile.TemporaryDirectory() as scratch:
            kb = memory(path, Path(scratch) / "kb", segment="topical", segment_tokens=8192)
            figures = np.array([_referred(kb, topics, *one) for one in asked])
        chat.make_segmenter = made
        cells = ", ".join(
            f"{word} {100 * value:.1f}"
            for word, value in zip(("hit", "coverage", "purity"), figures.mean(axis=0), strict=True)
        )
        print(f"MT-Bench+ refer-back, {name}: {cells} (first hit, %)", flush=True)


def _referred(
    kb: stillroom.KnowledgeBase, topics: dict[str, Any], name: str, question: str, wanted: str
) -> tuple[float, float, float]:
    hit = kb.search(question, k=1, where={"conversation": name})[0]
    inside = [label for text, label in topics[name] if text in hit.value]
    right = [label for label in inside if label in wanted]  # a conjunction names two topics
    whole = [label for _, label in topics[name] if label in wanted]
    return float(bool(right)), len(right) / len(whole), len(right) / max(1, len(inside))


def mtbench(path: Path) -> Iterator[tuple[list[str], list[int]]]:
    """What people said, without the last question, and the lengths of its topics."""
    for dialogue in json.loads(path.read_text(encoding="utf-8")):
        said = [turn for turn in dialogue["conversations"] if turn["from"] == "human"][:-1]
        topics = [turn["turn-info"].rpartition("-")[0] for turn in said]
        yield [turn["value"] for turn in said], [len(list(g)) for _, g in groupby(topics)]


def _scores(segmenter: Any, texts: list[str], lengths: list[int]) -> tuple[float, float, float]:
    runs = segmenter.runs([Said(text, "", "user") for text in texts])
    gold = _ends(lengths)
    made = _ends([last - first for first, last in runs])
    window = max(2, round(len(gold) / (sum(gold) + 1) / 2))
    pairs = [
        (sum(gold[i : i + window]), sum(made[i : i + window]))
        for i in range(len(gold) - window + 1)
    ]
    both = sum(a and b for a, b in zip(gold, made, strict=True))
    return (
        float(np.mean([(a > 0) != (b > 0) for a, b in pairs])),
        float(np.mean([a != b for a, b in pairs])),
        2 * both / (sum(gold) + sum(made)) if both else 0.0,
    )


def _ends(lengths: Sequence[int]) -> list[int]:
    """1 for the last turn of each segment but the last segment's."""
    made = [int(i == length - 1) for length in lengths for i in range(length)]
    return [*made[:-1], 0]


def count_tokens(text: str) -> int:
    return len(_WORD.findall(text))


def remember_query_vectors() -> None:
    """Each question is encoded once for all rows."""
    known: dict[str, Any] = {}
    encode = query_vectors._full

    def once(build: Any, text: str, note: str = "") -> Any:
        if text not in known:
            known[text] = encode(build, text, note)
        return known[text]

    query_vectors._full = once
