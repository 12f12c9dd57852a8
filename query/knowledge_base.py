"""The knowledge base as a reader sees it: one live build of each path, searched until refreshed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stillroom import engine
from stillroom.errors import BadInput, MissingExtra
from stillroom.filters import When, Where, facet_names, make_filter
from stillroom.folders import PathLike
from stillroom.fusion import make_scale
from stillroom.hits import Hit, Hits
from stillroom.legs import Query, gather, score
from stillroom.lexical import query_terms
from stillroom.query_vectors import Encode, is_installed
from stillroom.schemas.arrow import document_from_row
from stillroom.schemas.documents import Document
from stillroom.store import Build, current_build, open_table


@dataclass(frozen=True, slots=True)
class Neighbour:
    """An entry linked to another: the link's kind, its weight, and the entry as a hit."""

    kind: str
    weight: float
    hit: Hit


@dataclass(frozen=True, slots=True)
class Why:
    """Why an entry is, or is not, among the hits. Ranks are 1-based over the whole base."""

    entry_id: str
    rank: int | None
    score: float | None
    lexical_rank: int | None
    lexical_score: float | None
    dense_rank: int | None
    dense_score: float | None
    filtered_out: bool
    folded_into: str
    missing_terms: tuple[str, ...]


class KnowledgeBase:
    """One or several knowledge bases, opened for reading. Safe for many threads.

    Each search sees one build of each base; `refresh` moves to the builds that are live now.
    """

    def __init__(self, paths: Sequence[PathLike]) -> None:
        self._builds = tuple(Build.open_current(path) for path in paths)

    @property
    def build_id(self) -> str:
        """The build being read; of several bases, joined by `+`."""
        return "+".join(build.manifest.build for build in self._builds)

    @property
    def manifests(self) -> tuple[Any, ...]:
        """The manifests of the builds being read."""
        return tuple(build.manifest for build in self._builds)

    def search(
        self,
        text: str,
        k: int = 10,
        where: Where | None = None,
        since: When = None,
        until: When = None,
        mode: str = "hybrid",
        encoder: str | None = None,
        collapse: bool = True,
        rerank: str | None = None,
        budget: int | None = None,
        as_of: When = None,
        order: str = "score",
    ) -> Hits:
        """The k best entries for `text`.

        `where` maps facet names to a value, a list of alternatives, or {"gte": ..., "lt": ...};
        `since`/`until` keep entries whose time overlaps that range. `mode` is hybrid, dense or
        lexical. `encoder` None takes what the base offers: its "light" encoder where that is good
        enough, else "full", the model that made its vectors. `rerank` "maxsim" looks at the first hits
        again, token by token; any other is the name or folder of a CrossEncoder (`stillroom.rerank`).
        `budget` fills so many tokens instead of taking k hits; `as_of` answers with what had been said
        by then; `order` "time" gives the hits as they were said, for a reader.
        Raises BadInput, MissingExtra, VersionSkew.
        """
        builds = self._builds
        query = Query(text, k, where, since, until, mode, collapse, rerank, as_of, budget, order)
        return engine.search(builds, query, _encoder(mode, encoder, builds))

    def search_batch(self, texts: Sequence[str], **options: Any) -> list[Hits]:
        """`search` for each text, all against the same builds."""
        builds = self._builds
        mode = options.get("mode", "hybrid")
        encode = _encoder(mode, options.pop("encoder", None), builds)
        return [engine.search(builds, Query(text, **options), encode) for text in texts]

    async def asearch(self, text: str, **options: Any) -> Hits:
        """`search` in a thread, for asynchronous callers."""
        return await asyncio.to_thread(self.search, text, **options)

    def get(self, entry_id: str) -> Hit | None:
        """The entry of this id, or None."""
        for build in self._builds:
            row = build.row_of(entry_id)
            if row >= 0:
                return Hit(build, row, 0.0, tuple)
        return None

    def document(self, document_id: str) -> Document | None:
        """The whole document of this id, as it was read, or None."""
        if not document_id.isalnum():
            raise BadInput(f"{document_id!r} is not a document id")
        for build in self._builds:
            table = open_table(build.kb, build.manifest, "documents")
            rows = table.search().where(f"id = '{document_id}'").limit(1).to_list()
            if rows:
                return document_from_row(rows[0])
        return None

    def neighbours(self, entry_id: str) -> list[Neighbour]:
        """Entries linked from this one (next, parent, uses, ...), in the order of the links."""
        for build in self._builds:
            row = build.row_of(entry_id)
            if row < 0:
                continue
            links = build.links
            sources = links.column("source").to_numpy()
            first, last = np.searchsorted(sources, [row, row + 1])
            return [
                Neighbour(link["kind"], link["weight"], Hit(build, link["target"], 0.0, tuple))
                for link in links.slice(first, last - first).to_pylist()
            ]
        return []

    def why(self, text: str, entry_id: str, **options: Any) -> Why:
        """Why this entry is or is not found for `text`. Looks past the usual depth of the legs."""
        encode = _encoder(options.get("mode", "hybrid"), options.pop("encoder", None), self._builds)
        for build in self._builds:
            row = build.row_of(entry_id)
            if row >= 0:
                return _why(build, row, Query(text, **options), encode)
        raise BadInput(f"no entry has the id {entry_id!r}")

    def refresh(self) -> bool:
        """Move to the builds that are live now. Whether any had changed."""
        moved = tuple(
            build
            if current_build(build.kb) == build.manifest.build
            else Build.open_current(build.kb)
            for build in self._builds
        )
        changed = any(new is not old for new, old in zip(moved, self._builds, strict=True))
        self._builds = moved
        return changed

    @property
    def facets(self) -> list[str]:
        """Facet names that `where` may use."""
        return sorted({name for build in self._builds for name in facet_names(build)})

    def __len__(self) -> int:
        """Entries, over all bases."""
        return sum(build.entries.num_rows for build in self._builds)


def _encoder(mode: str, asked: str | None, builds: Sequence[Build]) -> Encode | None:
    """None where no vector is wanted. Raises MissingExtra where one is, and nothing can make it."""
    encode = Encode(asked)
    if mode == "lexical":
        return None
    if mode == "dense":
        for build in builds:
            if build.light is None and not is_installed(build.manifest.encoder):
                raise MissingExtra("encoding a query with the full model", "build,models")
    return encode


def _why(build: Build, row: int, query: Query, encode: Encode | None) -> Why:
    allowed = make_filter(build, query.where, query.since, query.until, query.as_of)
    filtered = allowed is not None and not bool(allowed.rows[row])
    deep = replace(build.manifest.plan, depth=max(1, build.entries.num_rows))
    legs = gather(build, deep, query, None if filtered else allowed, encode, {})
    scale = make_scale([legs.lexical_list], [legs.dense_list])
    legs.score = score(legs, scale, query.mode)
    position = int(np.searchsorted(legs.candidates, row))
    present = position < len(legs.candidates) and legs.candidates[position] == row
    field_terms = query_terms(query.text, build.manifest.plan.field_weights)
    wanted = {term for terms in field_terms.values() for term in terms}
    title, path, value = (build.entries.column(c)[row].as_py() for c in ("title", "path", "value"))
    has = query_terms("\n".join([title, *path, value]), build.manifest.plan.field_weights)
    missing = tuple(sorted(wanted - {term for terms in has.values() for term in terms}))
    group = int(build.group[row])
    folded = ""
    rank = None
    if present and not filtered:
        order = np.lexsort((legs.candidates, -np.nan_to_num(legs.score, nan=-np.inf)))
        rank = int(np.flatnonzero(order == position)[0]) + 1
        members = order[build.group[legs.candidates[order]] == group]
        if build.manifest.plan.collapse and query.collapse and members[0] != position:
            folded = build.entries.column("id")[int(legs.candidates[members[0]])].as_py()

    def known(values: np.ndarray) -> float | None:
        return float(values[position]) if present and not np.isnan(values[position]) else None

    def ranked(values: np.ndarray) -> int | None:
        return int(values[position]) or None if present else None

    return Why(
        entry_id=build.entries.column("id")[row].as_py(),
        rank=rank,
        score=known(legs.score),
        lexical_rank=ranked(legs.lexical_rank),
        lexical_score=known(legs.lexical),
        dense_rank=ranked(legs.dense_rank),
        dense_score=known(legs.dense),
        filtered_out=filtered,
        folded_into=folded,
        missing_terms=missing,
    )
