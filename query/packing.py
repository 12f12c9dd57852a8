"""What is handed out of a ranking: near-duplicates folded, a token budget filled, neighbours let in."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stillroom.hits import Reason
from stillroom.legs import Legs, Query
from stillroom.models import tokens_for
from stillroom.query_vectors import is_installed
from stillroom.store import Build

MAX_PACKED = 1_000  # hits that a budget may draw on
_WORD = re.compile(r"\w+|[^\w\s]")
MAX_MISSES = 50  # hits in a row that do not fit, after which a budget counts as full
COVERED = 0.5  # share of a value that hits before it hold already, from which it adds too little


@dataclass(frozen=True, slots=True)
class Chosen:
    """An entry that will be a hit: its base and row, its place among the base's candidates (-1 for a
    neighbour that no leg proposed), the near-duplicates folded into it, and reasons beyond the legs'."""

    base: int
    row: int
    position: int
    score: float
    duplicates: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


def collapse(
    gathered: list[Legs], ranked: Iterator[tuple[int, int]], query: Query, count: int
) -> list[Chosen]:
    """The first `count` of (base, candidate position), near-duplicates folded into the best of their
    group."""
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
        Chosen(
            base, int(gathered[base].candidates[position]), position,
            float(gathered[base].score[position]), tuple(ids),
        )
        for (base, position), ids in zip(chosen, folded, strict=True)
    ]  # fmt: skip


def pack(
    gathered: list[Legs], chosen: Sequence[Chosen], budget: int, count: Callable[[str], int]
) -> list[Chosen]:
    """The hits that fit `budget` tokens, in the order of `chosen`; one that does not fit is passed over,
    and so is one that says little beyond what is packed. Of a base whose plan has `contiguity`, that
    share of the budget is kept for the entries beside its hits (EM-LLM's contiguity buffer), in the
    order of the hits, the following one first; what they leave goes to further hits."""
    shared = max((legs.plan.contiguity for legs in gathered), default=0.0)
    packer = _Packer(gathered, count)
    kept = packer.take(chosen, int(budget * (1 - shared)))
    if shared:
        beside = [n for one in kept for n in _neighbours(one, gathered[one.base])]
        kept += packer.take(beside, budget)
        kept += packer.take(chosen, budget)
    return kept


def token_counter(build: Build) -> Callable[[str], int]:
    """Counts tokens of a value with the tokenizer of the base's encoder; words and signs where neither
    the light encoder nor the model is here."""
    if build.light is not None:
        return build.light.count
    if is_installed(build.manifest.encoder):
        return tokens_for(build.manifest.encoder.name).count
    return lambda text: len(_WORD.findall(text))


class _Packer:
    """What is packed so far: tokens spent, and which spans of which document."""

    def __init__(self, gathered: list[Legs], count: Callable[[str], int]) -> None:
        self._gathered, self._count = gathered, count
        self._spent = 0
        self._rows: set[tuple[int, int]] = set()
        self._spans: dict[str, list[tuple[int, int]]] = {}

    def take(self, some: Sequence[Chosen], limit: int) -> list[Chosen]:
        made: list[Chosen] = []
        missed = 0
        for one in some:
            if self._spent >= limit or missed == MAX_MISSES:
                break
            if (one.base, one.row) in self._rows:
                continue
            if not self._fits(one, limit):
                missed += 1
                continue
            missed = 0
            self._rows.add((one.base, one.row))
            made.append(one)
        return made

    def _fits(self, one: Chosen, limit: int) -> bool:
        entries = self._gathered[one.base].build.entries
        document, start, end, value = (
            entries.column(name)[one.row].as_py()
            for name in ("document_id", "start", "end", "value")
        )
        spans = self._spans.setdefault(document, [])
        covered = sum(max(0, min(end, b) - max(start, a)) for a, b in spans)
        if covered >= COVERED * (end - start):
            return False
        tokens = self._count(value)
        if self._spent + tokens > limit:
            return False
        self._spent += tokens
        spans.append((start, end))
        return True


def in_time(gathered: list[Legs], chosen: Sequence[Chosen]) -> list[Chosen]:
    """Hits in the order in which they were said, those without a time last."""

    def moment(one: Chosen) -> tuple[bool, int, str, int]:
        build = gathered[one.base].build
        entries = build.entries
        start = entries.column("starts_at")[one.row].value
        return (
            start is None, start or 0, str(entries.column("document_id")[one.row].as_py()),
            int(entries.column("start")[one.row].as_py()),
        )  # fmt: skip

    return sorted(chosen, key=moment)


def _neighbours(one: Chosen, legs: Legs) -> Iterator[Chosen]:
    """The entries that follow and precede a hit in its document."""
    entry_id = str(legs.build.entries.column("id")[one.row].as_py())
    for row in beside(legs.build, one.row):
        reason = Reason("neighbour", None, one.score, 0.0, key_text=entry_id)
        yield replace(one, row=row, position=-1, duplicates=(), reasons=(reason,))


def beside(build: Build, row: int) -> list[int]:
    """Rows of the next entry and of the one before, where there are such."""
    targets, sources = build.next_rows
    after = np.searchsorted(sources, row)
    following = targets[after : after + 1] if after < len(sources) and sources[after] == row else ()
    before = np.flatnonzero(targets == row)[:1]
    return [int(r) for r in following] + [int(sources[r]) for r in before]
