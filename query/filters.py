"""Filters: `where`, `since` and `until` as one mask for the dense leg and one query for the lexical.

A condition is evaluated on a facet's distinct values, so both legs see exactly the same entries,
and no user text is ever put into a query string.
"""

import json
import operator
import re
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
_LAST = np.iinfo(np.int64).max
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le,
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


def make_filter(
    build: Build, where: Where | None, since: When, until: When, as_of: When = None
) -> Filter | None:
    """The filter of these conditions, or None where there are none. Raises BadInput.

    An entry is inside `since`..`until` where its own time overlaps that range, both ends included; a
    date alone means its whole day, UTC. `as_of` keeps what had ended by then.
    """
    if not where and since is None and until is None and as_of is None:
        return None
    schema, _ = build.searcher
    rows = np.ones(build.entries.num_rows, bool)
    clauses: list[tantivy.Query] = []
    for name, condition in (where or {}).items():
        clause, mask = _matching(build, schema, name, condition)
        rows &= mask
        clauses.append(clause)
    untimed = 0
    if (since, until, as_of) != (None, None, None):
        low = parse_time(since, end=False) if since is not None else NO_TIME + 1
        high = parse_time(until, end=True) if until is not None else _LAST
        known = parse_time(as_of, end=True) if as_of is not None else _LAST
        starts, ends = build.times
        timed = starts != NO_TIME
        untimed = int(np.count_nonzero(~timed & rows))
        rows &= timed & (starts <= high) & (ends >= low) & (ends <= known)
        integer = tantivy.FieldType.Integer
        for name, first, last in ((STARTS_AT, NO_TIME + 1, high), (ENDS_AT, low, known)):
            clauses.append(
                tantivy.Query.range_query(schema, name, integer, int(first), int(last), True, True)
            )
    return Filter(rows, tuple(clauses), untimed)


def facet_names(build: Build) -> list[str]:
    """Names that `where` may use."""
    return sorted(set(build.facets.column("name").to_pylist()))


def parse_time(moment: str | date | datetime, *, end: bool) -> int:
    """Microseconds since the epoch, UTC. A date alone is its first or (`end`) last microsecond."""
    if not isinstance(moment, str | date):
        raise BadInput(f"a time is a date, a datetime or a text such as 2024-05-31, not {moment!r}")
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
    made: dict[str, dict[str, Any]] = {}
    for item in items:
        match = re.match(r"([^=<>!]+)(>=|<=|!=|>|<|=)(.*)", item, re.DOTALL)
        if not match:
            raise BadInput(f"--where takes NAME=VALUE (or >=, <=, >, <, !=), not {item!r}")
        name, sign, value = match.groups()
        condition = made.setdefault(name.strip(), {})
        if sign in ("=", "!="):
            condition.setdefault("eq" if sign == "=" else "ne", []).append(value)
        else:
            condition[_SIGNS[sign]] = _literal(value)
    return made


_SIGNS = {">=": "gte", "<=": "lte", ">": "gt", "<": "lt"}


def _matching(
    build: Build, schema: tantivy.Schema, name: str, condition: Any
) -> tuple[tantivy.Query, np.ndarray]:
    """The entries for which `condition` on facet `name` holds, as a lexical query and as a mask.

    An entry with several values is inside where one of them fits, and outside where one is excluded
    by `ne`; an entry without the facet is always outside.
    """
    table = build.facets
    table = table.filter(pc.equal(table.column("name"), name))
    if table.num_rows == 0:
        known = facet_names(build)
        shown = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise UnknownFacet(f"no entry has a facet {name!r}; this base has {shown or 'none'}")
    wanted, unwanted = _tests(name, condition)
    inside: list[str] = []
    outside: list[str] = []
    mask = np.zeros(build.entries.num_rows, bool)
    excluded = np.zeros(build.entries.num_rows, bool)
    for position, text in enumerate(table.column("value").to_pylist()):
        value, rows = json.loads(text), table.column("rows")[position].values.to_numpy()
        if wanted(value):
            inside.append(f"{name}={text}")
            mask[rows] = True
        if unwanted(value):
            outside.append(f"{name}={text}")
            excluded[rows] = True
    clause = tantivy.Query.term_set_query(schema, FACET, inside)
    if outside:
        barred = tantivy.Query.term_set_query(schema, FACET, outside)
        clause = tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, clause), (tantivy.Occur.MustNot, barred)]
        )
    return clause, mask & ~excluded


def _tests(name: str, condition: Any) -> tuple[Callable[[Any], bool], Callable[[Any], bool]]:
    """Whether a value is wanted, and whether it bars its entry."""
    if not isinstance(condition, Mapping):
        condition = {"eq": condition}
    unknown = set(condition) - set(_COMPARE) - {"eq", "ne"}
    if unknown:
        allowed = ", ".join(("eq", "ne", *_COMPARE))
        raise BadInput(f"{name}: {', '.join(sorted(map(str, unknown)))} is none of {allowed}")
    parts = [(_COMPARE[sign], limit) for sign, limit in condition.items() if sign in _COMPARE]
    equal = _several(condition["eq"]) if "eq" in condition else None
    unequal = _several(condition["ne"]) if "ne" in condition else []

    def wanted(value: Any) -> bool:
        return (equal is None or any(_equal(value, one) for one in equal)) and all(
            _compared(compare, value, limit) for compare, limit in parts
        )

    return wanted, lambda value: any(_equal(value, one) for one in unequal)


def _several(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]


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
