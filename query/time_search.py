"""Soft time: what lies in a time that the query names comes first, and nothing is dropped."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow.compute as pc

from stillroom.filters import parse_time
from stillroom.hits import Hit, Reason
from stillroom.legs import Legs, Query
from stillroom.schemas.arrow import microseconds
from stillroom.store import NO_TIME, Build
from stillroom.time_ranges import TimeRange, event_range, time_ranges

EVENT_FACET = "event"  # dates (ISO 8601) of which an entry speaks, whenever it was said
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_PAST, _FAR_FUTURE = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


def boost(
    gathered: Sequence[Legs], query: Query, find: Callable[[str], Hit | None]
) -> tuple[str, ...]:
    """Add `plan.time_weight` to the score of candidates in the ranges that the query names, and say
    which they are. Relative times are relative to `as_of`, else to the newest entry. `find` looks for
    the event where an event bounds the range ("before the move")."""
    timed = [legs for legs in gathered if legs.plan.time_weight]
    now = _now([legs.build for legs in timed], query)
    if now is None:
        return ()
    ranges = time_ranges(query.text, now) or _around_event(query.text, find)
    if not ranges:
        return ()
    for legs in timed:
        legs.in_time = _inside(legs.build, legs.candidates, ranges)
        legs.time_words = ", ".join(one.words for one in ranges)
        legs.score = legs.score + legs.plan.time_weight * legs.in_time
    return tuple(f"entries of {_shown(one)} come first" for one in ranges)


def time_reason(legs: Legs, position: int) -> tuple[Reason, ...]:
    """That a candidate lies in the named time, where it does."""
    if not len(legs.in_time) or not legs.in_time[position]:
        return ()
    return (Reason("time", None, 1.0, legs.plan.time_weight, key_text=legs.time_words),)


def _now(builds: Sequence[Build], query: Query) -> datetime | None:
    if not builds:
        return None
    if query.as_of is not None:
        return _EPOCH + timedelta(microseconds=parse_time(query.as_of, end=True))
    newest = max((int(build.times[1].max(initial=NO_TIME)) for build in builds), default=NO_TIME)
    return None if newest == NO_TIME else _EPOCH + timedelta(microseconds=newest)


def _around_event(text: str, find: Callable[[str], Hit | None]) -> list[TimeRange]:
    asked = event_range(text)
    hit = find(asked.event) if asked is not None else None
    if asked is None or hit is None or hit.starts_at is None or hit.ends_at is None:
        return []
    if asked.before:
        return [TimeRange(_FAR_PAST, hit.starts_at, f"before {asked.event}")]
    return [TimeRange(hit.ends_at, _FAR_FUTURE, f"after {asked.event}")]


def _inside(build: Build, rows: np.ndarray, ranges: Sequence[TimeRange]) -> np.ndarray:
    """bool [rows]: entries whose own time, or that of an event of which they speak, is in a range."""
    starts, ends = build.times[:, rows]
    inside = np.zeros(len(rows), bool)
    for one in ranges:
        low, high = microseconds(one.start), microseconds(one.end)
        inside |= (starts != NO_TIME) & (starts <= high) & (ends >= low)
        inside |= np.isin(rows, _event_rows(build, one))
    return inside


def _event_rows(build: Build, one: TimeRange) -> np.ndarray:
    names = build.facets.column("name")
    events = build.facets.filter(pc.equal(names, EVENT_FACET))
    first, last = one.start.date().isoformat(), one.end.date().isoformat()
    found = [
        rows
        for value, rows in zip(
            events.column("value").to_pylist(), events.column("rows").to_pylist(), strict=True
        )
        if first <= value.strip('"') <= last
    ]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def _shown(one: TimeRange) -> str:
    if one.start <= _FAR_PAST:
        return f"{one.words} (up to {one.end:%Y-%m-%d})"
    if one.end >= _FAR_FUTURE:
        return f"{one.words} (from {one.start:%Y-%m-%d})"
    return f"{one.words} ({one.start:%Y-%m-%d} to {one.end:%Y-%m-%d})"
