"""The one search engine: filter, legs, fuse, collapse, rerank, pack; for one base or several at once.

A base's plan says with which weights; reasons are made only when a hit is asked for them. Several
bases are scored on one common scale: fusing their finished lists by rank would let the worst base's
first hit equal the best one's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from stillroom.filters import UnknownFacet, make_filter
from stillroom.fusion import Scale, make_scale
from stillroom.hits import Hit, Hits, Reason
from stillroom.legs import Encode, Legs, Query, gather, score, timed
from stillroom.reasons import reasons_of
from stillroom.rerank import DEPTH, blend, rerank
from stillroom.store import Build

LEXICAL_ONLY = (
    "lexical leg only: this base has no light query encoder, and the full one is not installed "
    "(pip install 'stillroom[build,models]')"
)


def search(builds: Sequence[Build], query: Query, encode: Encode | None) -> Hits:
    """The hits of `query` over `builds`. `encode` makes a query vector (None: lexical leg only)."""
    timings: dict[str, float] = {}
    if not query.text.strip():
        return Hits((), ("the query is empty",), timings)
    gathered: list[Legs] = []
    refused: list[UnknownFacet] = []
    for build in builds:
        try:
            with timed(timings, "filter"):
                allowed = make_filter(build, query.where, query.since, query.until)
        except UnknownFacet as error:
            refused.append(error)  # of several bases, some may have the facet
            continue
        plan = build.manifest.plan
        deep = replace(plan, depth=max(plan.depth, query.k))
        gathered.append(gather(build, deep, query, allowed, encode, timings))
    if not gathered:
        raise refused[0]
    with timed(timings, "fuse"):
        scale = make_scale([g.lexical_list for g in gathered], [g.dense_list for g in gathered])
        for legs in gathered:
            legs.score = score(legs, scale, query.mode)
        ranked = _rank(gathered)
        count = query.k if query.rerank is None else max(query.k, DEPTH)
        chosen = _collapse(gathered, ranked, query, count)
    if query.rerank is not None and chosen:
        with timed(timings, "rerank"):
            chosen = _reranked(query.rerank, gathered, chosen, query)
    with timed(timings, "fetch"):
        hits = tuple(
            Hit(
                gathered[one.base].build,
                int(gathered[one.base].candidates[one.position]),
                one.score,
                partial(_reasons, one, gathered[one.base], scale, query),
                one.duplicates,
            )
            for one in chosen
        )
        for hit in hits:
            hit.value  # noqa: B018 - read now, so that the caller's first look costs nothing
    notes = _notes(gathered, query, encode)
    return Hits(hits, notes, timings)


def _rank(gathered: list[Legs]) -> Iterator[tuple[int, int]]:
    """(base, candidate position), best first; equal scores by base, then by entry id."""
    base = np.concatenate([np.full(len(g.candidates), i) for i, g in enumerate(gathered)])
    position = np.concatenate([np.arange(len(g.candidates)) for g in gathered])
    scores = np.concatenate([g.score for g in gathered])
    order = np.lexsort((position, base, -scores))
    known = ~np.isnan(scores)
    return ((int(base[i]), int(position[i])) for i in order if known[i])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A candidate that will be a hit, with the near-duplicates folded into it."""

    base: int
    position: int
    score: float
    duplicates: tuple[str, ...]
    reranked: Reason | None = None


def _collapse(
    gathered: list[Legs], ranked: Iterator[tuple[int, int]], query: Query, count: int
) -> list[_Chosen]:
    """The first `count`, near-duplicates folded into the best of their group."""
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
            if len(chosen) == count:
                break
            seen[group] = len(chosen)
        elif len(chosen) == count:
            break
        chosen.append((base, position))
        folded.append([])
    return [
        _Chosen(base, position, float(gathered[base].score[position]), tuple(ids))
        for (base, position), ids in zip(chosen, folded, strict=True)
    ]


def _reranked(
    name: str, gathered: list[Legs], chosen: list[_Chosen], query: Query
) -> list[_Chosen]:
    """The first k once the leading DEPTH were looked at again; equal scores in their old order."""
    leading = [(one.base, one.position) for one in chosen[:DEPTH]]
    again = rerank(name, query.text, gathered, leading)
    scores, shares = blend(np.array([one.score for one in chosen]), again)
    ranks = np.empty(len(again), np.int64)
    ranks[np.argsort(-again, kind="stable")] = np.arange(1, len(again) + 1)
    made = [
        replace(
            one,
            score=float(scores[i]),
            reranked=Reason("rerank", int(ranks[i]), float(again[i]), float(shares[i]))
            if i < len(again)
            else None,
        )
        for i, one in enumerate(chosen)
    ]
    return [made[i] for i in np.argsort(-scores, kind="stable")[: query.k]]


def _reasons(one: _Chosen, legs: Legs, scale: Scale, query: Query) -> tuple[Reason, ...]:
    found = reasons_of(legs, one.position, scale, query)
    return found if one.reranked is None else (*found, one.reranked)


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
