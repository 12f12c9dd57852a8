"""Filters: `where`, `since` and `until` as one mask for the dense leg and one query for the lexical.

A condition is evaluated on a facet's distinct values, so both legs see exactly the same entries, and no user text
is ever put into a query string.
"""

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow.compute as pc
import tantivy

from stillroom.errors import BadInput
from stillroom.schemas.arrow import microseconds
from stillroom.schemas.lexical import ENDS_AT, FACET, STARTS_AT
from stillroom.store import NO_TIME, Build

# A condition on a facet: a value, a list of alternatives, or {"gte": 2020, "lt": 2024}.
Where = Mapping[str, Any]
When = str | date | datetime | None
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
    "ne": operator.ne, "eq": operator.eq,
}  # fmt: skip


class UnknownFacet(BadInput):
    """No entry of the base has a facet of this name."""


@dataclass(frozen=True, slots=True)
class Filter:
    """What may be found. `rows` is a bool [entries] mask; `clauses` must all hold in the lexical leg;
    `untimed` counts the entries that `since`/`until` left out for having no time."""

    rows: np.ndarray
    clauses: tuple[tantivy.Query, ...]
    untimed: int = 0


def make_filter(build: Build, where: Where | None, since: When, until: When) -> Filter | None:
    """The filter of these conditions, or None where there are none. Raises BadInput.

    An entry is inside `since`..`until` where its own time overlaps that range, both ends included; a
    date alone means its whole day, UTC.
    """
    if not where and since is None and until is None:
        return None
    schema, _ = build.searcher
    rows = np.ones(build.entries.num_rows, bool)
    clauses: list[tantivy.Query] = []
    for name, condition in (where or {}).items():
        values, mask = _matching(build, name, condition)
        rows &= mask
        terms = [f"{name}={value}" for value in values]
        clauses.append(tantivy.Query.term_set_query(schema, FACET, terms))
    untimed = 0
    if since is not None or until is not None:
        low = parse_time(since, end=False) if since is not None else NO_TIME + 1
        high = parse_time(until, end=True) if until is not None else np.iinfo(np.int64).max
        starts, ends = build.times
        timed = starts != NO_TIME
        untimed = int(np.count_nonzero(~timed & rows))
        rows &= timed & (starts <= high) & (ends >= low)
        integer = tantivy.FieldType.Integer
        clauses.append(
            tantivy.Query.range_query(
                schema, STARTS_AT, integer, NO_TIME + 1, int(high), True, True
            )
        )
        clauses.append(
            tantivy.Query.range_query(
                schema, ENDS_AT, integer, int(low), int(np.iinfo(np.int64).max), True, True
            )
        )
    return Filter(rows, tuple(clauses), untimed)


def facet_names(build: Build) -> list[str]:
    """Names that `where` may use."""
    return sorted(set(build.facets.column("name").to_pylist()))


def parse_time(moment: str | date | datetime, *, end: bool) -> int:
    """Microseconds since the epoch, UTC. A date alone is its first or (`end`) last microsecond."""
    if isinstance(moment, str):
        text = moment.strip()
        try:
            moment = date.fromisoformat(text) if len(text) <= 10 else datetime.fromisoformat(text)
        except ValueError as error:
            raise BadInput(
                f"{text!r} is not a time: write 2024-05-31 or 2024-05-31T10:00:00+02:00"
            ) from error
    if isinstance(moment, datetime):
        return microseconds(moment)
    start = microseconds(datetime(moment.year, moment.month, moment.day, tzinfo=UTC))
    return start + 86_400_000_000 - 1 if end else start


def parse_where(items: list[str]) -> dict[str, Any]:
    """`["year>=2020", "lang=de"]` of a command line as conditions. Repeated `=` are alternatives."""
    made: dict[str, Any] = {}
    for item in items:
        for sign, name in ((">=", "gte"), ("<=", "lte"), ("!=", "ne"), (">", "gt"), ("<", "lt")):
            facet, found, value = item.partition(sign)
            if found and "=" not in facet:
                made.setdefault(facet, {})[name] = _literal(value)
                break
        else:
            facet, found, value = item.partition("=")
            if not found or not facet:
                raise BadInput(f"--where takes NAME=VALUE (or >=, <=, >, <, !=), not {item!r}")
            made.setdefault(facet, []).append(value)
    return made


def _matching(build: Build, name: str, condition: Any) -> tuple[list[str], np.ndarray]:
    """The values (canonical JSON) of facet `name` for which `condition` holds, and their rows."""
    table = build.facets
    inside = pc.equal(table.column("name"), name)
    table = table.filter(inside)
    if table.num_rows == 0:
        known = facet_names(build)
        shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise UnknownFacet(f"no entry has a facet {name!r}; this base has {shown or 'none'}")
    test = _test(name, condition)
    values: list[str] = []
    mask = np.zeros(build.entries.num_rows, bool)
    for position, text in enumerate(table.column("value").to_pylist()):
        if test(json.loads(text)):
            values.append(text)
            mask[table.column("rows")[position].values.to_numpy()] = True
    return values, mask


def _test(name: str, condition: Any) -> Callable[[Any], bool]:
    if isinstance(condition, Mapping):
        unknown = set(condition) - set(_COMPARE)
        if unknown:
            raise BadInput(f"{name}: {', '.join(sorted(unknown))} is none of {', '.join(_COMPARE)}")
        parts = [(_COMPARE[sign], wanted) for sign, wanted in condition.items()]
        return lambda value: all(_compared(compare, value, wanted) for compare, wanted in parts)
    wanted = condition if isinstance(condition, list | tuple | set | frozenset) else [condition]
    return lambda value: any(_equal(value, one) for one in wanted)


def _equal(value: Any, wanted: Any) -> bool:
    """Equal, or written alike: `--where year=2020` means the number."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted or str(value).lower() == str(wanted).lower()
    return bool(value == wanted or str(value) == str(wanted) or value == _literal(wanted))


def _compared(compare: Callable[[Any, Any], bool], value: Any, wanted: Any) -> bool:
    try:
        return compare(value, wanted)
    except TypeError:
        return compare(str(value), str(wanted))


def _literal(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    for make in (int, float):
        try:
            return make(text)
        except ValueError:
            continue
    return text
