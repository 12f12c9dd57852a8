"""The one search engine: filter, legs, fuse, collapse, pack; for one base or several at once.

A base's plan says with which weights; reasons are made only when a hit is asked for them. Several
bases are scored on one common scale: fusing their finished lists by rank would let the worst base's
first hit equal the best one's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from stillroom.filters import UnknownFacet, make_filter
from stillroom.fusion import make_scale
from stillroom.hits import Hit, Hits
from stillroom.legs import Encode, Legs, Query, gather, score, timed
from stillroom.reasons import reasons_of
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
        chosen = _collapse(gathered, ranked, query)
    with timed(timings, "fetch"):
        hits = tuple(
            Hit(
                gathered[base].build,
                int(gathered[base].candidates[position]),
                float(gathered[base].score[position]),
                partial(reasons_of, gathered[base], position, scale, query),
                duplicates,
            )
            for base, position, duplicates in chosen
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
