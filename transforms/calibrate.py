"""Fusion weight from the corpus itself: pseudo-queries whose own key is taken out of their entry.

An entry's heading or one of its sentences plays the query; the entry must then be found by the rest
of its text. A verbatim copy would favour the lexical leg, and even what is left favours it a little,
so the fitted weight is shrunk towards a prior. An encoder that is of no use for a language
finds nothing this way, and its weight falls to zero. No relevance judgement is read.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.fusion import make_scale
from stillroom.legs import Query, gather
from stillroom.lexical import query_terms
from stillroom.query_vectors import QueryVector
from stillroom.schemas.entries import KeyKind
from stillroom.schemas.plan import EXACT_FIELD, SearchPlan
from stillroom.store import Build
from stillroom.transforms.sampling import smallest
from stillroom.transforms.sentences import sentence_spans

SAMPLE = 128  # entries, those with the smallest hash of their id
PRIOR_WEIGHT = 0.45
PRIOR_STRENGTH = 32.0  # pseudo-queries that the prior counts for
GRID = tuple(round(0.05 * step, 2) for step in range(21))
K1, B = 1.2, 0.75  # tantivy's BM25
MIN_WORDS = 4
MAX_DRIFT = 0.5  # over it, the weight is fitted again

Encode = Callable[[list[str]], np.ndarray]


@dataclass(frozen=True, slots=True)
class PseudoQuery:
    """A query made from an entry, and the entry's text without it (title and value apart)."""

    row: int
    text: str
    title: str
    value: str


@dataclass(frozen=True, slots=True)
class Asked:
    """Pseudo-queries encoded: float32 [queries, dims] `vectors` of their texts; the `texts` of their
    entries without them, and the vectors of those, `rest`."""

    queries: tuple[PseudoQuery, ...]
    vectors: np.ndarray
    texts: tuple[str, ...]
    rest: np.ndarray


@dataclass(frozen=True, slots=True)
class Calibration:
    """The build's plan with its fitted dense weight, and the reciprocal ranks that it was fitted on, by
    weight of GRID (float64 [queries, len(GRID)])."""

    build: Build
    plan: SearchPlan
    asked: Asked
    ranks: np.ndarray

    def retention(self, encode: Callable[[str], np.ndarray | None]) -> dict[str, float]:
        """The share of the mean reciprocal rank that another query encoder keeps, by leg."""
        none = np.zeros(self.asked.rest.shape[1], np.float32)
        made = [encode(query.text) for query in self.asked.queries]
        vectors = np.array([none if vector is None else vector for vector in made])
        ranks = _all_ranks(self.build, self.asked, vectors)
        kept: dict[str, float] = {}
        for leg, at in (("dense", 1.0), ("hybrid", self.plan.dense_weight)):
            new, old = (float(np.interp(at, GRID, r.mean(axis=0))) for r in (ranks, self.ranks))
            kept[leg] = round(new / old, 4) if old else 0.0
        return kept


def ask(build: Build, encode_queries: Encode, encode_documents: Encode) -> Asked:
    """The build's pseudo-queries; none where it has no vectors."""
    queries = tuple(pseudo_queries(build)) if len(build.dense) else ()
    if not queries:
        nothing = np.empty((0, build.manifest.encoder.dims), np.float32)
        return Asked((), nothing, (), nothing)
    vectors = in_two_threads(encode_queries, [q.text for q in queries])
    texts = tuple(f"{q.title}\n{q.value}".strip() for q in queries)
    return Asked(queries, vectors, texts, in_two_threads(encode_documents, list(texts)))


def calibrate(build: Build, asked: Asked) -> Calibration:
    """Fit the dense weight of a build."""
    plan = build.manifest.plan
    if not asked.queries:
        plan = replace(
            plan, dense_weight=min(PRIOR_WEIGHT, plan.dense_most) if len(build.dense) else 0.0
        )
        return Calibration(build, plan, asked, np.empty((0, len(GRID))))
    ranks = _all_ranks(build, asked, asked.vectors)
    quality = ranks.mean(axis=0)
    weight, confidence = shrunk_weight(ranks)
    figures = {
        "queries": float(len(asked.queries)),
        "lexical_mrr": round(float(quality[0]), 4),
        "dense_mrr": round(float(quality[-1]), 4),
        "fused_mrr": round(float(np.interp(weight, GRID, quality)), 4),
        "prior": PRIOR_WEIGHT,
        "spread": round(confidence, 4),
    }
    plan = replace(plan, dense_weight=min(weight, plan.dense_most), calibration=figures)
    return Calibration(build, plan, asked, ranks)


def _all_ranks(build: Build, asked: Asked, vectors: np.ndarray) -> np.ndarray:
    plan, lengths = build.manifest.plan, _mean_lengths(build)
    return np.array(
        [
            _reciprocal_ranks(build, plan, query, vector, own, lengths)
            for query, vector, own in zip(asked.queries, vectors, asked.rest, strict=True)
        ]
    )


def in_two_threads(encode: Encode, texts: list[str]) -> np.ndarray:
    """Encode in two threads: only this step of a build runs, so another core is free. A vector does
    not depend on its batch."""
    middle = len(texts) // 2
    with ThreadPoolExecutor(2) as pool:
        return np.concatenate(list(pool.map(encode, (texts[:middle], texts[middle:]))))


def sample_of(build: Build) -> tuple[str, ...]:
    """Ids of the SAMPLE entries with the smallest hash, sorted: what two builds are compared by."""
    ids = build.entries.column("id")
    return tuple(sorted(ids[row].as_py() for row in _sampled(build, SAMPLE)))


def drift_between(fitted: Collection[str], now: Collection[str]) -> float:
    """Share of the entries that the fit was made on which the sample no longer has, 0 to 1."""
    return round(1.0 - len(set(fitted) & set(now)) / max(1, len(fitted)), 4)


def shrunk_weight(ranks: np.ndarray) -> tuple[float, float]:
    """The weight and its spread from reciprocal ranks [queries, len(GRID)].

    Each weight of GRID is as likely as its ranks are good (mean log-likelihood of a pseudo-query
    found at rank r taken as -log r), times a prior around PRIOR_WEIGHT worth PRIOR_STRENGTH
    queries; the mean is returned.
    """
    grid = np.array(GRID)
    evidence = np.log(np.maximum(ranks, 1e-3)).sum(axis=0)
    prior = -PRIOR_STRENGTH * (grid - PRIOR_WEIGHT) ** 2
    log = evidence + prior
    share = np.exp(log - log.max())
    share /= share.sum()
    mean = float((share * grid).sum())
    spread = float(np.sqrt((share * (grid - mean) ** 2).sum()))
    return round(mean, 3), spread


def pseudo_queries(build: Build, sample: int = SAMPLE) -> Iterator[PseudoQuery]:
    """Up to `sample` pseudo-queries, alternately from a heading that only one entry has and from the
    sentence in the middle of a value."""
    ranked = _sampled(build, 16 * sample)
    analyzer = standard_analyzer()
    made = 0
    groups: set[int] = set()
    names: dict[str, int] = Counter(_name(build, row) for row in ranked)
    for row in ranked[: 8 * sample]:
        if made == sample:
            return
        if int(build.group[row]) in groups:
            continue
        groups.add(int(build.group[row]))
        name = _name(build, row)
        value = str(build.entries.column("value")[row].as_py())
        title = str(build.entries.column("title")[row].as_py())
        if made % 2 == 0 and names[name] == 1 and len(analyzer.words(name)) >= MIN_WORDS:
            made += 1
            yield PseudoQuery(row, name, "", value.replace(name, " ", 1))
            continue
        spans = [
            s for s in sentence_spans(value) if len(analyzer.words(value[s[0] : s[1]])) >= MIN_WORDS
        ]
        if len(spans) < 3:
            continue
        start, end = spans[len(spans) // 2]
        made += 1
        yield PseudoQuery(row, value[start:end], title, value[:start] + " " + value[end:])


def _sampled(build: Build, count: int) -> list[int]:
    """Rows of the `count` entries with the smallest hash of their id."""
    return smallest("sample", build.entries.column("id").to_pylist(), count)


def _name(build: Build, row: int) -> str:
    """The innermost heading over an entry, else its title."""
    path = build.entries.column("path")[row].as_py()
    return str(path[-1] if path else build.entries.column("title")[row].as_py())


def _reciprocal_ranks(
    build: Build, plan: SearchPlan, query: PseudoQuery, vector: np.ndarray, own: np.ndarray,
    lengths: dict[str, float],
) -> np.ndarray:  # fmt: skip
    """float64 [len(GRID)]: 1/rank of the query's own entry among all, for each dense weight."""
    made = QueryVector(vector, "")
    legs = gather(build, plan, Query(query.text), None, lambda _build, _text: made, {})
    # Near-duplicates of the entry still hold the query word for word: they are no better answers.
    others = build.group[legs.candidates] != build.group[query.row]
    own_lexical = _own_bm25(build, plan, query, lengths)
    own_dense = build.dense.similarity(own, vector) if np.isfinite(own).all() else -1.0
    lexical = legs.lexical[others]
    dense = legs.dense[others]
    scale = make_scale(
        [np.append(lexical[~np.isnan(lexical)], own_lexical)],
        [np.append(dense[legs.dense_rank[others] > 0], own_dense)],
    )
    a, b = scale.lexical(lexical), scale.dense(dense)
    own_a = float(scale.lexical(np.array([own_lexical]))[0])
    own_b = float(scale.dense(np.array([own_dense]))[0])
    grid = np.array(GRID)[:, None]
    better = (grid * b + (1 - grid) * a) > grid * own_b + (1 - grid) * own_a
    reached = np.array(GRID) * own_b + (1 - np.array(GRID)) * own_a > 0
    ranks: np.ndarray = np.where(reached, 1.0 / (1 + better.sum(axis=1)), 0.0)
    return ranks


def _own_bm25(
    build: Build, plan: SearchPlan, query: PseudoQuery, lengths: dict[str, float]
) -> float:
    """BM25 of the entry without the query's source, with the index's own frequencies."""
    _, searcher = build.searcher
    analyzer = standard_analyzer()
    total, score = build.entries.num_rows, 0.0
    body = f"{query.title}\n{query.value}"
    words = Counter(t.text for t in analyzer.words(body))
    texts = {
        KeyKind.TEXT.value: words,
        KeyKind.PATH.value: Counter(t.text for t in analyzer.words(query.title)),
        EXACT_FIELD: Counter(t.text for t in analyzer.identifiers(body)),
    }
    wanted = query_terms(query.text, plan.field_weights)
    for name, weight in plan.field_weights.items():
        counts = texts.get(name)
        if not counts or weight <= 0:
            continue
        length = sum(counts.values()) / (lengths.get(name) or 1.0)
        for term, times in wanted[name].items():
            if counts[term]:
                found = searcher.doc_freq(name, term)
                idf = math.log(1 + (total - found + 0.5) / (found + 0.5))
                tf = counts[term] * (K1 + 1) / (counts[term] + K1 * (1 - B + B * length))
                score += weight * times * idf * tf
    return score


def _mean_lengths(build: Build) -> dict[str, float]:
    """Mean terms an entry has by field, over the sample."""
    analyzer = standard_analyzer()
    rows = _sampled(build, SAMPLE)
    totals: Counter[str] = Counter()
    for row in rows:
        title = str(build.entries.column("title")[row].as_py())
        body = title + "\n" + str(build.entries.column("value")[row].as_py())
        totals[KeyKind.TEXT.value] += len(analyzer.words(body))
        totals[KeyKind.PATH.value] += len(analyzer.words(title))
        totals[EXACT_FIELD] += len(analyzer.identifiers(body))
    return {name: count / len(rows) for name, count in totals.items()}
