"""Both legs of a search over one base, and every candidate's score in both."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from stillroom.dense import best_by_entry
from stillroom.errors import BadInput
from stillroom.filters import Filter, When, Where
from stillroom.fusion import Scale, fuse
from stillroom.lexical import lexical_leg
from stillroom.query_vectors import QueryVector
from stillroom.schemas.plan import SearchPlan
from stillroom.store import Build
from stillroom.tokens import without_surrogates

MODES = ("hybrid", "dense", "lexical")
ORDERS = ("score", "time")
Encode = Callable[[Build, str], QueryVector | None]


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
    rerank: str | None = None
    as_of: When = None
    budget: int | None = None
    order: str = "score"

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BadInput(f"mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.order not in ORDERS:
            raise BadInput(f"order is one of {', '.join(ORDERS)}, not {self.order!r}")
        if self.budget is not None and self.budget < 1:
            raise BadInput(f"a budget is at least 1 token, not {self.budget}")
        if self.k < 1:
            raise BadInput(f"k is at least 1, not {self.k}")
        if not isinstance(self.text, str):
            raise BadInput(f"a query is a text, not {type(self.text).__name__}")
        object.__setattr__(self, "text", without_surrogates(self.text))


@dataclass
class Legs:
    """Both legs' lists over one base.

    `candidates` are entry rows, ascending; `lexical` and `dense` their raw scores (NaN where there
    is none); ranks are 1-based (0: not in that leg's list).
    """

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
    encoder: str = ""  # which made the query's vector; "" where none did
    note: str = ""  # what to say of that
    score: np.ndarray = field(default_factory=lambda: np.empty(0))
    context: np.ndarray = field(default_factory=lambda: np.empty(0))  # lexical, of what is beside
    in_time: np.ndarray = field(
        default_factory=lambda: np.empty(0, bool)
    )  # of what the query names
    time_words: str = ""


def gather(
    build: Build, plan: SearchPlan, query: Query, allowed: Filter | None, encode: Encode | None,
    timings: dict[str, float],
) -> Legs:  # fmt: skip
    """Run the legs that mode and plan ask for, and give every candidate its score in both."""
    none = np.empty(0, np.int64), np.empty(0, np.float32)
    lexical_rows, lexical_scores = none
    if query.mode != "dense":
        with timed(timings, "lexical"):
            lexical_rows, lexical_scores = lexical_leg(build, plan, query.text, allowed)
    dense_rows, dense_scores = none
    vector_rows = np.empty(0, np.int64)
    made = None
    wanted = query.mode == "dense" or (query.mode == "hybrid" and plan.dense_weight > 0)
    if wanted and encode is not None and len(build.dense):
        with timed(timings, "encode"):
            made = encode(build, query.text)
    if made is not None:
        with timed(timings, "dense"):
            mask = None if allowed is None else allowed.rows[build.key_entry]
            count = max(plan.depth, plan.rescore)
            rows, scores = build.dense.nearest(made.vector, count, mask)
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
        encoder=made.encoder if made is not None else "",
        note=made.note if made is not None else "",
    )  # fmt: skip
    if made is not None:
        with timed(timings, "dense"):
            _fill_dense(legs, made.vector)
    if plan.context_weight:
        legs.context = plan.context_weight * _beside(legs)
        legs.lexical_list = np.nan_to_num(legs.lexical) + legs.context
    return legs


def score(legs: Legs, scale: Scale, mode: str) -> np.ndarray:
    """float64 [candidates]: the fused score, or the raw one of a single leg."""
    if mode == "lexical":
        base = _in_context(legs)
    elif mode == "dense":
        base = legs.dense.astype(np.float64)
    else:
        weight = legs.plan.dense_weight if len(legs.dense_list) else 0.0
        base = fuse(scale.lexical(_in_context(legs)), scale.dense(legs.dense), weight)
    if legs.plan.prior_weight:
        base = base + legs.plan.prior_weight * legs.build.prior[legs.candidates]
    return base


def _in_context(legs: Legs) -> np.ndarray:
    """Lexical scores with those of the entries beside: what an answer says is often asked just before."""
    if not len(legs.context):
        return legs.lexical.astype(np.float64)
    return np.asarray(np.nan_to_num(legs.lexical) + legs.context, np.float64)


def _beside(legs: Legs) -> np.ndarray:
    """float64 [candidates]: lexical scores of the candidates that follow and precede each."""
    made = np.zeros(len(legs.candidates))
    known = np.nan_to_num(legs.lexical)
    following, rows = legs.build.next_rows
    for here, there in ((rows, following), (following, rows)):
        at, one = _positions(legs.candidates, here), _positions(legs.candidates, there)
        both = (at >= 0) & (one >= 0)
        np.add.at(made, at[both], known[one[both]])
    return made


def _positions(candidates: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Where rows stand among sorted candidates, -1 where they do not."""
    at = np.searchsorted(candidates, rows)
    found = at < len(candidates)
    found[found] = candidates[at[found]] == rows[found]
    return np.where(found, at, -1)


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
    cosines = legs.build.dense.scores(keys, vector)
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


@contextmanager
def timed(timings: dict[str, float], part: str) -> Iterator[None]:
    """Add the milliseconds of a block to a part of the search."""
    start = time.perf_counter()
    yield
    timings[part] = timings.get(part, 0.0) + (time.perf_counter() - start) * 1e3
