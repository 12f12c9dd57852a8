"""The one search engine: filter, legs, fuse, collapse, pack; for one base or several at once.

A base's plan says with which weights; reasons are made only when a hit is asked for them. Several bases are scored on one common
scale: fusing their finished lists by rank would let the worst base's first hit equal the best one's.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.dense import best_by_entry, nearest_vectors
from stillroom.errors import BadInput
from stillroom.filters import Filter, UnknownFacet, When, Where, make_filter
from stillroom.fusion import Scale, fuse, make_scale
from stillroom.hits import Hit, Hits, Reason
from stillroom.lexical import lexical_leg, matched_ranges
from stillroom.schemas.documents import Span
from stillroom.schemas.plan import EXACT_FIELD, SearchPlan
from stillroom.store import Build
from stillroom.tokens import without_surrogates

MODES = ("hybrid", "dense", "lexical")
Encode = Callable[[Build, str], np.ndarray]


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed search. Raises BadInput for a mode or k that cannot be."""

    text: str
    k: int = 10
    where: Where | None = None
    since: When = None
    until: When = None
    mode: str = "hybrid"
    collapse: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadInput(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.k < 1:
            raise BadInput(f"k is at least 1, not {self.k}")
        if not isinstance(self.text, str):
            raise BadInput(f"a query is a text, not {type(self.text).__name__}")
        object.__setattr__(self, "text", without_surrogates(self.text))


@dataclass
class Legs:
    """Both legs' lists over one base. `candidates` are entry rows, ascending; `lexical` and `dense` their raw
    scores (NaN where there is none), ranks 1-based (0: not in that leg's list)."""

    build: Build
    plan: SearchPlan
    candidates: np.ndarray
    lexical: np.ndarray
    dense: np.ndarray
    lexical_rank: np.ndarray
    dense_rank: np.ndarray
    vector: np.ndarray  # row of the best vector, -1 where none
    lexical_list: np.ndarray  # raw scores of the leg's own list, for the scale
    dense_list: np.ndarray
    untimed: int = 0
    score: np.ndarray = field(default_factory=lambda: np.empty(0))


def search(builds: Sequence[Build], query: Query, encode: Encode | None) -> Hits:
    """The hits of `query` over `builds`. `encode` makes a query vector (None: lexical leg only)."""
    timings: dict[str, float] = {}
    if not query.text.strip():
        return Hits((), ("the query is empty",), timings)
    gathered: list[Legs] = []
    refused: list[UnknownFacet] = []
    for build in builds:
        try:
            with _timed(timings, "filter"):
                allowed = make_filter(build, query.where, query.since, query.until)
        except UnknownFacet as error:
            refused.append(error)  # of several bases, some may have the facet
            continue
        plan = build.manifest.plan
        deep = replace(plan, depth=max(plan.depth, query.k))
        gathered.append(gather(build, deep, query, allowed, encode, timings))
    if not gathered:
        raise refused[0]
    with _timed(timings, "fuse"):
        scale = make_scale([g.lexical_list for g in gathered], [g.dense_list for g in gathered])
        for legs in gathered:
            legs.score = score(legs, scale, query.mode)
        ranked = _rank(gathered)
        chosen = _collapse(gathered, ranked, query)
    with _timed(timings, "fetch"):
        hits = tuple(
            Hit(
                gathered[base].build,
                int(gathered[base].candidates[position]),
                float(gathered[base].score[position]),
                partial(_reasons, gathered[base], position, scale, query),
                duplicates,
            )
            for base, position, duplicates in chosen
        )
        for hit in hits:
            hit.value  # noqa: B018 - read now, so that the caller's first look costs nothing
    notes = _notes(gathered, query, encode)
    return Hits(hits, notes, timings)


def gather(
    build: Build, plan: SearchPlan, query: Query, allowed: Filter | None, encode: Encode | None,
    timings: dict[str, float],
) -> Legs:  # fmt: skip
    """Run the legs that mode and plan ask for, and give every candidate its score in both."""
    none = np.empty(0, np.int64), np.empty(0, np.float32)
    lexical_rows, lexical_scores = none
    if query.mode != "dense":
        with _timed(timings, "lexical"):
            lexical_rows, lexical_scores = lexical_leg(build, plan, query.text, allowed)
    dense_rows, dense_scores = none
    vector_rows = np.empty(0, np.int64)
    vector = None
    wanted = query.mode == "dense" or (query.mode == "hybrid" and plan.dense_weight > 0)
    if wanted and encode is not None and len(build.vectors):
        with _timed(timings, "encode"):
            vector = encode(build, query.text)
        with _timed(timings, "dense"):
            mask = None if allowed is None else allowed.rows[build.key_entry]
            count = max(plan.depth, plan.rescore)
            rows, scores = nearest_vectors(build.vectors, build.bits, vector, count, mask)
            dense_rows, dense_scores, vector_rows = best_by_entry(build.key_entry, rows, scores)
            dense_rows, dense_scores = dense_rows[: plan.depth], dense_scores[: plan.depth]
            vector_rows = vector_rows[: plan.depth]
    candidates = np.union1d(lexical_rows, dense_rows)
    legs = Legs(
        build, plan, candidates,
        lexical=_placed(candidates, lexical_rows, lexical_scores, np.nan),
        dense=_placed(candidates, dense_rows, dense_scores, np.nan),
        lexical_rank=_placed(candidates, lexical_rows, np.arange(1, len(lexical_rows) + 1), 0),
        dense_rank=_placed(candidates, dense_rows, np.arange(1, len(dense_rows) + 1), 0),
        vector=_placed(candidates, dense_rows, vector_rows, -1),
        lexical_list=lexical_scores,
        dense_list=dense_scores,
        untimed=0 if allowed is None else allowed.untimed,
    )  # fmt: skip
    if vector is not None:
        with _timed(timings, "dense"):
            _fill_dense(legs, vector)
    return legs


def score(legs: Legs, scale: Scale, mode: str) -> np.ndarray:
    """float64 [candidates]: the fused score, or the raw one of a single leg."""
    if mode == "lexical":
        base = legs.lexical.astype(np.float64)
    elif mode == "dense":
        base = legs.dense.astype(np.float64)
    else:
        weight = legs.plan.dense_weight if len(legs.dense_list) else 0.0
        base = fuse(scale.lexical(legs.lexical), scale.dense(legs.dense), weight)
    if legs.plan.prior_weight:
        base = base + legs.plan.prior_weight * legs.build.prior[legs.candidates]
    return base


def _fill_dense(legs: Legs, vector: np.ndarray) -> None:
    """True cosines for candidates that only the lexical leg proposed."""
    missing = np.flatnonzero(np.isnan(legs.dense))
    if not len(missing):
        return
    rows = legs.candidates[missing]
    starts = np.searchsorted(legs.build.key_entry, rows, "left")
    counts = np.searchsorted(legs.build.key_entry, rows, "right") - starts
    some = counts > 0
    missing, starts, counts = missing[some], starts[some], counts[some]
    if not len(missing):
        return
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    keys = np.arange(counts.sum()) - np.repeat(first - starts, counts)
    cosines = legs.build.vectors[keys] @ vector
    best = np.maximum.reduceat(cosines, first)
    legs.dense[missing] = best
    winners = np.flatnonzero(cosines == np.repeat(best, counts))
    owner = np.searchsorted(first, winners, "right") - 1
    _, once = np.unique(owner, return_index=True)
    legs.vector[missing] = keys[winners[once]]


def _placed(
    candidates: np.ndarray, rows: np.ndarray, values: np.ndarray, missing: float
) -> np.ndarray:
    """`values` of `rows` laid out over sorted `candidates`, `missing` elsewhere."""
    out = np.full(len(candidates), missing, values.dtype if len(values) else np.float64)
    out[np.searchsorted(candidates, rows)] = values
    return out


def _rank(gathered: list[Legs]) -> Iterator[tuple[int, int]]:
    """(base, candidate position), best first; equal scores by base, then by entry id."""
    base = np.concatenate([np.full(len(g.candidates), i) for i, g in enumerate(gathered)])
    position = np.concatenate([np.arange(len(g.candidates)) for g in gathered])
    scores = np.concatenate([g.score for g in gathered])
    order = np.lexsort((position, base, -scores))
    known = ~np.isnan(scores)
    return ((int(base[i]), int(position[i])) for i in order if known[i])


def _collapse(
    gathered: list[Legs], ranked: Iterator[tuple[int, int]], query: Query
) -> list[tuple[int, int, tuple[str, ...]]]:
    """The first k, near-duplicates folded into the best of their group, with the folded ids."""
    chosen: list[tuple[int, int]] = []
    seen: dict[tuple[int, int], int] = {}
    folded: list[list[str]] = []
    for base, position in ranked:
        legs = gathered[base]
        row = int(legs.candidates[position])
        if query.collapse and legs.plan.collapse:
            group = (base, int(legs.build.group[row]))
            if group in seen:
                folded[seen[group]].append(str(legs.build.entries.column("id")[row].as_py()))
                continue
            if len(chosen) == query.k:
                break
            seen[group] = len(chosen)
        elif len(chosen) == query.k:
            break
        chosen.append((base, position))
        folded.append([])
    return [(*one, tuple(ids)) for one, ids in zip(chosen, folded, strict=True)]


def _reasons(legs: Legs, position: int, scale: Scale, query: Query) -> tuple[Reason, ...]:
    """Why the candidate at `position` was found, one reason a leg that was run."""
    build, row = legs.build, int(legs.candidates[position])
    one = slice(position, position + 1)
    weight = legs.plan.dense_weight if len(legs.dense_list) else 0.0
    shares = {"lexical": 1 - weight, "dense": weight} if query.mode == "hybrid" else {}
    made: list[Reason] = []
    value = str(build.entries.column("value")[row].as_py())
    ranges = tuple(matched_ranges(query.text, value))
    if not np.isnan(legs.lexical[position]):
        raw = float(legs.lexical[position])
        share = shares.get("lexical")
        gain = raw if share is None else share * float(scale.lexical(legs.lexical[one])[0])
        kind, text = _lexical_key(legs, row, query.text, value)
        terms = tuple(sorted(_matched_terms(query.text, value + "\n" + text)))
        span = Span(
            build.entries.column("document_id")[row].as_py(),
            build.entries.column("start")[row].as_py(),
            build.entries.column("end")[row].as_py(),
        )
        rank = int(legs.lexical_rank[position])
        made.append(Reason("lexical", rank, raw, gain, kind, text, span, terms, ranges))
    if not np.isnan(legs.dense[position]):
        raw = float(legs.dense[position])
        share = shares.get("dense")
        gain = raw if share is None else share * float(scale.dense(legs.dense[one])[0])
        key = build.keys.slice(int(legs.vector[position]), 1).to_pylist()[0]
        span_or_none = None
        if key["document_id"] is not None:
            span_or_none = Span(key["document_id"], key["start"], key["end"])
        rank_or_none = int(legs.dense_rank[position]) or None
        made.append(
            Reason(
                "dense", rank_or_none, raw, gain, key["kind"], key["text"], span_or_none, (), ranges
            )
        )
    return tuple(made)


def _lexical_key(legs: Legs, row: int, query: str, value: str) -> tuple[str, str]:
    """The field with the most matched query terms, and its text as far as a reader can see it."""
    title = str(legs.build.entries.column("title")[row].as_py())
    path = " > ".join([title, *legs.build.entries.column("path")[row].as_py()])
    shown = {"path": path, "text": value, EXACT_FIELD: value}
    best = max(
        (name for name in legs.plan.field_weights if name in shown),
        key=lambda name: (len(_matched_terms(query, shown[name])), name == "text"),
        default="text",
    )
    return ("text", value) if best == EXACT_FIELD else (best, shown[best])


def _matched_terms(query: str, text: str) -> set[str]:
    analyzer = standard_analyzer()
    wanted = {t.text for t in analyzer.words(query)} & {t.text for t in analyzer.words(text)}
    exact = {t.text for t in analyzer.identifiers(query)}
    return wanted | (exact & {t.text for t in analyzer.identifiers(text)})


def _notes(gathered: list[Legs], query: Query, encode: Encode | None) -> tuple[str, ...]:
    notes: list[str] = []
    untimed = sum(legs.untimed for legs in gathered)
    if untimed:
        notes.append(f"{untimed} entries have no time, so since/until left them out")
    if encode is None and query.mode == "hybrid":
        notes.append(
            "lexical leg only: no query encoder is installed (pip install 'stillroom[build]')"
        )
    return tuple(notes)


@contextmanager
def _timed(timings: dict[str, float], part: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timings[part] = timings.get(part, 0.0) + (time.perf_counter() - start) * 1e3
