"""The latest statement first: where two hits say the same of the same speaker, the newer one leads.

"I live in Berlin" and, half a year later, "I live in Lisbon now" both answer where Bob lives, and the
older one often matches the question better. Statements of one speaker whose vectors are alike count as
two versions of one; the newer takes the place of the older and names it in its reasons.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stillroom.hits import Reason
from stillroom.legs import Legs
from stillroom.packing import Chosen
from stillroom.schemas.documents import Span
from stillroom.schemas.entries import KeyKind

LOOK = 8  # leading hits among which versions are looked for
CLOSE = (
    0.6  # share of the older one's score that the newer must have: else it answers something else
)


def latest_first(gathered: Sequence[Legs], chosen: Sequence[Chosen]) -> list[Chosen]:
    """The hits with newer versions moved up to the place of the older; only in bases whose plan has a
    `same_statement` threshold, and only among statements of a turn of their own."""
    leading, rest = list(chosen[:LOOK]), list(chosen[LOOK:])
    for base, legs in enumerate(gathered):
        if legs.plan.same_statement:
            leading = _within(base, legs, leading)
    return [*leading, *rest]


def _within(base: int, legs: Legs, leading: list[Chosen]) -> list[Chosen]:
    found = [(one, _statement(legs, one)) for one in leading if one.base == base]
    stated = [(one, row) for one, row in found if row >= 0]
    rows = np.array([row for _, row in stated], np.int64)
    alike = legs.build.dense.alike(rows) if len(rows) > 1 else np.eye(len(rows))
    speakers = [_speaker(legs, int(row)) for row in rows]
    starts = legs.build.times[0][[one.row for one, _ in stated]]
    order = list(leading)
    for newer in range(1, len(stated)):
        for older in range(newer):
            same = speakers[newer] and speakers[newer] == speakers[older]
            if same and starts[newer] > starts[older] and alike[newer, older] >= legs.plan.same_statement:  # fmt: skip
                order = _moved(
                    order, stated[newer][0], *stated[older], legs, float(alike[newer, older])
                )
                break
    return order


def _moved(
    order: list[Chosen], newer: Chosen, older: Chosen, row: int, legs: Legs, cosine: float
) -> list[Chosen]:
    """The newer at the place of the older, whose statement is vector `row`, if it stands below it."""
    places = {(one.base, one.row): i for i, one in enumerate(order)}
    at, place = places[newer.base, newer.row], places[older.base, older.row]
    if at < place or order[at].score < CLOSE * order[place].score:
        return order
    current, replaced = order[at], order[place]
    gain = max(0.0, replaced.score - current.score)
    key = legs.build.keys.slice(row, 1).to_pylist()[0]
    span = Span(key["document_id"], key["start"], key["end"])
    reason = Reason("latest", None, cosine, gain, key["kind"], key["text"], span)
    moved = replace(current, score=current.score + gain, reasons=(*current.reasons, reason))
    return [*order[:place], moved, *order[place:at], *order[at + 1 :]]


def _statement(legs: Legs, one: Chosen) -> int:
    """The vector of the turn by which a hit was found, or of its turn most like the fact that was; -1
    where there is none."""
    row = int(legs.vector[one.position]) if one.position >= 0 else -1
    if row < 0 or _kind(legs, row) == KeyKind.TURN.value:
        return row
    first, last = np.searchsorted(legs.build.key_entry, (one.row, one.row + 1))
    turns = [r for r in range(first, last) if _kind(legs, r) == KeyKind.TURN.value]
    if not turns:
        return -1
    return turns[int(np.argmax(legs.build.dense.alike(np.array([row, *turns]))[0, 1:]))]


def _kind(legs: Legs, row: int) -> str:
    return str(legs.build.keys.column("kind")[row].as_py())


def _speaker(legs: Legs, row: int) -> str:
    text = str(legs.build.keys.column("text")[row].as_py())
    return text.partition(": ")[0]
