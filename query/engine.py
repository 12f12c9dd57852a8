"""The one search engine, for one base or several at once: filter, legs, fuse, time, collapse, rerank,
latest, pack.

A base's plan says with which weights; reasons are made only when a hit is asked for them. Several
bases are scored on one common scale: fusing their finished lists by rank would let the worst base's
first hit equal the best one's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from stillroom.filters import UnknownFacet, make_filter
from stillroom.fusion import Scale, make_scale
from stillroom.hits import Hit, Hits, Reason
from stillroom.latest import LOOK, latest_first
from stillroom.legs import Encode, Legs, Query, gather, score, timed
from stillroom.packing import MAX_PACKED, Chosen, collapse, in_time, pack, token_counter
from stillroom.reasons import reasons_of
from stillroom.rerank import DEPTH, blend, rerank
from stillroom.store import Build
from stillroom.time_search import boost, time_reason

LEXICAL_ONLY = (
    "lexical leg only: this base has no light query encoder, and the full one is not installed "
    "(pip install 'stillroom[build,models]')"
)


def search(builds: Sequence[Build], query: Query, encode: Encode | None) -> Hits:
    """The hits of `query` over `builds`. `encode` makes a query vector (None: lexical leg only)."""
    timings: dict[str, float] = {}
    if not query.text.strip():
        return Hits((), ("the query is empty",), timings)
    gathered = _gather(builds, query, encode, timings)
    with timed(timings, "fuse"):
        scale = make_scale([g.lexical_list for g in gathered], [g.dense_list for g in gathered])
        for legs in gathered:
            legs.score = score(legs, scale, query.mode)
    with timed(timings, "time"):
        named = boost(gathered, query, lambda text: _found_first(builds, query, text, encode))
    with timed(timings, "fuse"):
        chosen = collapse(gathered, _rank(gathered), query, _looked_at(gathered, query))
    if query.rerank is not None and chosen:
        with timed(timings, "rerank"):
            chosen = _reranked(query.rerank, gathered, chosen, query)
    if not named:  # a question about a time wants what was said then
        with timed(timings, "time"):
            chosen = latest_first(gathered, chosen)
    if query.budget is None:
        chosen = chosen[: query.k]
    else:
        with timed(timings, "pack"):
            chosen = pack(gathered, chosen, query.budget, token_counter(gathered[0].build))
    if query.order == "time":
        chosen = in_time(gathered, chosen)
    with timed(timings, "fetch"):
        hits = tuple(
            Hit(
                gathered[one.base].build, one.row, one.score,
                partial(_reasons, one, gathered[one.base], scale, query), one.duplicates,
            )
            for one in chosen
        )  # fmt: skip
        for hit in hits:
            hit.value  # noqa: B018 - read now, so that the caller's first look costs nothing
    return Hits(hits, (*_notes(gathered, query, encode), *named), timings)


def _gather(
    builds: Sequence[Build], query: Query, encode: Encode | None, timings: dict[str, float]
) -> list[Legs]:
    gathered: list[Legs] = []
    refused: list[UnknownFacet] = []
    for build in builds:
        try:
            with timed(timings, "filter"):
                allowed = make_filter(build, query.where, query.since, query.until, query.as_of)
        except UnknownFacet as error:
            refused.append(error)  # of several bases, some may have the facet
            continue
        plan = build.manifest.plan
        deep = replace(plan, depth=max(plan.depth, query.k))
        gathered.append(gather(build, deep, query, allowed, encode, timings))
    if not gathered:
        raise refused[0]
    return gathered


def _looked_at(gathered: Sequence[Legs], query: Query) -> int:
    """How many of the ranking the steps after it need."""
    if query.budget is not None:
        return MAX_PACKED
    versions = any(legs.plan.same_statement for legs in gathered)
    return max(query.k, LOOK * versions, DEPTH * (query.rerank is not None))


def _found_first(
    builds: Sequence[Build], query: Query, text: str, encode: Encode | None
) -> Hit | None:
    """The best hit for an event that a query names, whatever time it names beside."""
    hits = search(builds, replace(query, text=text, k=1, budget=None, rerank=None), encode)
    return hits[0] if hits else None


def _rank(gathered: list[Legs]) -> Iterator[tuple[int, int]]:
    """(base, candidate position), best first; equal scores by base, then by entry id."""
    base = np.concatenate([np.full(len(g.candidates), i) for i, g in enumerate(gathered)])
    position = np.concatenate([np.arange(len(g.candidates)) for g in gathered])
    scores = np.concatenate([g.score for g in gathered])
    order = np.lexsort((position, base, -scores))
    known = ~np.isnan(scores)
    return ((int(base[i]), int(position[i])) for i in order if known[i])


def _reranked(name: str, gathered: list[Legs], chosen: list[Chosen], query: Query) -> list[Chosen]:
    """In a new order once the leading DEPTH were looked at again; equal scores in their old order."""
    leading = [(one.base, one.position) for one in chosen[:DEPTH]]
    again = rerank(name, query.text, gathered, leading)
    scores, shares = blend(np.array([one.score for one in chosen]), again)
    ranks = np.empty(len(again), np.int64)
    ranks[np.argsort(-again, kind="stable")] = np.arange(1, len(again) + 1)
    made = [
        replace(one, score=float(scores[i]))
        if i >= len(again)
        else replace(
            one,
            score=float(scores[i]),
            reasons=(Reason("rerank", int(ranks[i]), float(again[i]), float(shares[i])),),
        )
        for i, one in enumerate(chosen)
    ]
    return [made[i] for i in np.argsort(-scores, kind="stable")]


def _reasons(one: Chosen, legs: Legs, scale: Scale, query: Query) -> tuple[Reason, ...]:
    if one.position < 0:
        return one.reasons
    timed_reason = time_reason(legs, one.position)
    return (*reasons_of(legs, one.position, scale, query), *timed_reason, *one.reasons)


def _notes(gathered: list[Legs], query: Query, encode: Encode | None) -> tuple[str, ...]:
    notes: list[str] = []
    untimed = sum(legs.untimed for legs in gathered)
    if untimed:
        notes.append(f"{untimed} entries have no time, so since/until left them out")
    for legs in gathered:
        if legs.note and legs.note not in notes:
            notes.append(legs.note)
        wanted = query.mode != "lexical" and legs.plan.dense_weight > 0 and len(legs.build.dense)
        if wanted and not legs.encoder and LEXICAL_ONLY not in notes:
            notes.append(LEXICAL_ONLY)
    return tuple(notes)
