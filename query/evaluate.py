"""Retrieval quality on judged queries: BEIR-style queries.jsonl and qrels.tsv, by ir-measures.

Near-duplicates are not collapsed here: judgements name documents, not groups. Intervals are 95 %
bootstrap percentiles over queries, seeded.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stillroom.errors import BadInput, MissingExtra
from stillroom.hits import Hit
from stillroom.knowledge_base import KnowledgeBase

BY = ("document", "entry", "span")
RESAMPLES = 1_000
_SPAN = re.compile(r".+:\d+-\d+", re.DOTALL)
DEPTH = 100  # ranks judged
ENTRIES_A_DOCUMENT = 4  # hits asked for, by rank judged: several hits may be of one document


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean and 95 % interval of one measure over the judged queries."""

    mean: float
    low: float
    high: float


def evaluate(
    kb: KnowledgeBase, queries: str | Path, qrels: str | Path, by: str = "document",
    mode: str = "hybrid", encoder: str | None = None, rerank: str | None = None,
) -> dict[str, Measured]:  # fmt: skip
    """nDCG@10, recall@k and MRR@10 of `kb` on judged queries.

    `by` says what the corpus ids of the judgements are: documents by `source_key`, entries by id, or
    spans written `source_key:start-end` (found by any overlapping hit). Raises BadInput, MissingExtra.
    """
    try:
        import ir_measures
        from ir_measures import RR, R, nDCG
    except ImportError as error:
        raise MissingExtra("evaluating", "eval") from error
    if by not in BY:
        raise BadInput(f"--by is one of {', '.join(BY)}, not {by!r}")
    texts, judged = read_queries(queries), read_qrels(qrels)
    asked = {name: texts[name] for name in judged if name in texts}
    if not asked:
        raise BadInput(f"no query of {queries} is judged in {qrels}")
    if by == "span":
        for names in judged.values():
            for name in names:
                if not _SPAN.fullmatch(name):
                    raise BadInput(f"{qrels}: {name!r} is not a span: KEY:START-END")
    run: dict[str, dict[str, float]] = {}
    options: dict[str, Any] = {
        "mode": mode,
        "encoder": encoder,
        "collapse": False,
        "rerank": rerank,
    }
    options["k"] = DEPTH * (ENTRIES_A_DOCUMENT if by == "document" else 1)
    for (name, _), hits in zip(
        asked.items(), kb.search_batch(list(asked.values()), **options), strict=True
    ):
        run[name] = _ranked(hits, by, judged[name])
    measures = [nDCG @ 10, R @ 5, R @ 10, R @ 100, RR @ 10]
    by_query: dict[str, list[float]] = {str(measure): [] for measure in measures}
    some = {name: judged[name] for name in asked}
    for metric in ir_measures.iter_calc(measures, some, run):
        by_query[str(metric.measure)].append(metric.value)
    return {name: interval(np.array(values)) for name, values in by_query.items()}


def read_queries(path: str | Path) -> dict[str, str]:
    """Query texts by id from JSONL rows with `_id` and `text`. Raises BadInput with the line."""
    made: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            made[str(row["_id"])] = str(row["text"])
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path}:{number} is not a row with _id and text") from error
    return made


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Judgements by query: TSV `query, document, grade` with a header, or TREC's four columns."""
    made: dict[str, dict[str, int]] = {}
    for position, (number, line) in enumerate(_lines(path)):
        cells = line.split("\t") if "\t" in line else line.split()
        if position == 0 and not cells[-1].strip().lstrip("-").isdigit():
            continue
        try:
            query, document, grade = (cells[0], cells[-2], int(cells[-1]))
        except (IndexError, ValueError) as error:
            raise BadInput(f"{path}:{number} is not a judgement: {line[:80]!r}") from error
        if len(cells) < 3:
            raise BadInput(f"{path}:{number} is not query, document, grade: {line[:80]!r}")
        made.setdefault(query, {})[document] = max(grade, 0)
    return made


def interval(values: np.ndarray, resamples: int = RESAMPLES) -> Measured:
    """Mean of `values` and its 95 % bootstrap interval."""
    if not len(values):
        return Measured(float("nan"), float("nan"), float("nan"))
    random = np.random.default_rng(0)
    picks = random.integers(0, len(values), (resamples, len(values)))
    low, high = np.percentile(values[picks].mean(axis=1), (2.5, 97.5))
    return Measured(float(values.mean()), float(low), float(high))


def _ranked(hits: Any, by: str, judged: Mapping[str, int]) -> dict[str, float]:
    """Found ids with falling scores, each once, at most DEPTH."""
    found: dict[str, float] = {}
    for hit in hits:
        for name in _names(hit, by, judged):
            if name not in found and len(found) < DEPTH:
                found[name] = float(-len(found))
    return found


def _names(hit: Hit, by: str, judged: Mapping[str, int]) -> list[str]:
    if by == "document":
        return [hit.source_key]
    if by == "entry":
        return [hit.id]
    start, end = hit.span.start, hit.span.end
    inside = []
    for name in judged:
        key, _, span = name.rpartition(":")
        first, _, last = span.partition("-")
        if key == hit.source_key and int(first) < end and start < int(last):
            inside.append(name)
    return inside or [f"{hit.source_key}:{start}-{end}"]


def _lines(path: str | Path) -> list[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}") from error
    lines = enumerate(text.removeprefix("\ufeff").split("\n"), 1)
    return [(number, line.rstrip("\r")) for number, line in lines if line.strip()]
