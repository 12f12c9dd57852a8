"""Times in a query, as ranges: "in May 2023", "last spring", "two weeks ago", "after 3 June".

English only. What is relative is relative to a given moment (the newest entry of a base, or `as_of`),
never to the clock, so that the same question has the same answer next year. After LongMemEval's
time-aware query expansion, with rules in the model's place.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_DAY = timedelta(days=1)
_FAR_PAST, _FAR_FUTURE = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9}
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "a couple of": 2, "a few": 3,
}  # fmt: skip
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_WHEN = [
    ("day", re.compile(rf"\b{_YEAR}[-/](?P<number>\d\d?)[-/](?P<day>\d\d?)\b")),
    ("day", re.compile(rf"\b(?P<day>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH},?(?: {_YEAR})?")),
    ("day", re.compile(rf"\b{_MONTH} (?P<day>\d\d?)(?:st|nd|rd|th)?\b(?:,? {_YEAR})?")),
    ("month", re.compile(rf"\b{_MONTH},?(?: of)? {_YEAR}")),
    ("month", re.compile(rf"\b(?:in|during|of|since|until|before|after|by|last|this|between|from) {_MONTH}")),
    ("season", re.compile(
        rf"\b(?:(?P<which>last|this) |(?:in|during|of|over|since) (?:the )?)"
        rf"(?P<season>{'|'.join(_SEASONS)})\b(?:(?: of)? {_YEAR})?")),
    ("season", re.compile(rf"\b(?P<season>{'|'.join(_SEASONS)})(?: of)? {_YEAR}")),
    ("year", re.compile(rf"\b(?:in|during|of|since|until|before|after|by) {_YEAR}")),
    ("ago", re.compile(
        rf"\b(?P<count>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
        rf"(?P<unit>{'|'.join(_UNITS)})s? (?:ago|earlier|before)\b")),
    ("near", re.compile(r"\b(?P<near>yesterday|today|tonight|this morning|last night)\b")),
    ("last", re.compile(
        rf"\b(?P<which>last|this|past|previous) (?P<unit>week(?:end)?|month|year|{'|'.join(_WEEKDAYS)})\b")),
    ("weekday", re.compile(rf"\bon (?P<weekday>{'|'.join(_WEEKDAYS)})\b")),
]  # fmt: skip
_BEFORE = re.compile(r"\b(before|until|till|prior to|by)(?: the)?\s*$")
_AFTER = re.compile(r"\b(after|since|from)(?: the)?\s*$")
_INSIDE = re.compile(r"^(before|until|by|after|since)\b")
_EVENT = re.compile(
    r"\b(?P<side>before|after|since|until) (?P<event>(?:the|my|our|his|her|their|\w+'s) [\w' -]{3,60})"
)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time, both ends included, and the words that said it."""

    start: datetime
    end: datetime
    words: str


@dataclass(frozen=True, slots=True)
class EventRange:
    """A range that an event bounds ("before the move"): when that was is for a search to find."""

    before: bool
    event: str


def time_ranges(text: str, now: datetime, exact: bool = False) -> list[TimeRange]:
    """The ranges that a query names, in the order of its text; later patterns take no word twice. A day
    is widened by its neighbours unless `exact`: what was said of it is often said on the next."""
    plain = text.lower()
    found: list[tuple[int, TimeRange]] = []
    taken: list[tuple[int, int]] = []
    for kind, pattern in _WHEN:
        for match in pattern.finditer(plain):
            if any(a < match.end() and match.start() < b for a, b in taken):
                continue
            made = _resolve(kind, match, now)
            if made is None:
                continue
            if kind == "day" and exact:
                made = (made[0] + _DAY, made[1] - _DAY)
            taken.append(match.span())
            side = _INSIDE.match(match[0])
            ahead = f"{plain[: match.start()]}{side[0] if side else ''}"
            if _BEFORE.search(ahead):
                made = (_FAR_PAST, made[0] if "until" not in ahead[-8:] else made[1])
            elif _AFTER.search(ahead):
                made = (made[0], _FAR_FUTURE)
            found.append((match.start(), TimeRange(*made, text[slice(*match.span())])))
    ranges = [one for _, one in sorted(found, key=lambda item: item[0])]
    if len(ranges) == 2 and re.search(r"\b(?:between|from)\b", plain):
        first, last = ranges
        words = f"{first.words} to {last.words}"
        start, end = first.start, last.end if last.end < _FAR_FUTURE else last.start
        return [TimeRange(min(start, end), max(start, end), words)]
    return ranges


def event_range(text: str) -> EventRange | None:
    """ "before the move": the event that bounds what is asked for, where no date does."""
    match = _EVENT.search(text.lower())
    if match is None:
        return None
    event = text[slice(*match.span("event"))].strip()
    return EventRange(match["side"] in ("before", "until"), event)


def _resolve(kind: str, match: re.Match[str], now: datetime) -> tuple[datetime, datetime] | None:
    try:
        return _RESOLVERS[kind](match, now)
    except (ValueError, OverflowError):  # 31 June
        return None


def _day(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    parts = match.groupdict()
    month = int(parts["number"]) if parts.get("number") else _month_number(parts["month"])
    day = int(parts["day"])
    if parts["year"]:
        start = datetime(int(parts["year"]), month, day, tzinfo=UTC)
    else:
        start = _latest(lambda year: datetime(year, month, day, tzinfo=UTC), now)
    return start - _DAY, start + 2 * _DAY


def _month(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    month, year = _month_number(match["month"]), match.groupdict().get("year")
    if year:
        return _months(int(year), month, 1)
    start = _latest(lambda y: datetime(y, month, 1, tzinfo=UTC), now)
    return _months(start.year, month, 1)


def _season(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    month, year = _SEASONS[match["season"]], match["year"]
    if year:
        return _months(int(year) - (month == 12), month, 3)
    start = _latest(lambda y: datetime(y, month, 1, tzinfo=UTC), now)
    made = _months(start.year, month, 3)
    if match.groupdict().get("which") == "last" and made[1] > now:
        made = _months(start.year - 1, month, 3)
    return made


def _year(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    return _months(int(match["year"]), 1, 12)


def _ago(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    count = int(match["count"]) if match["count"].isdigit() else _NUMBERS[match["count"]]
    unit = _UNITS[match["unit"]]
    middle = _midnight(now) - timedelta(days=count * unit)
    slack = timedelta(days=max(1, unit * count // 4))  # "two months ago" is no exact day
    return middle - slack, middle + slack + _DAY


def _near(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    today = _midnight(now)
    back = match["near"] in ("yesterday", "last night")
    return today - _DAY * back, today + _DAY * (not back)


def _last(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    this, unit, today = match["which"] == "this", match["unit"], _midnight(now)
    monday = today - _DAY * today.weekday()
    if unit == "week":
        return (monday, monday + 7 * _DAY) if this else (monday - 7 * _DAY, monday)
    if unit == "weekend":
        saturday = monday + 5 * _DAY if this else monday - 2 * _DAY
        return saturday, saturday + 2 * _DAY
    if unit == "month":
        last = today.replace(day=1) - _DAY
        return _months(today.year, today.month, 1) if this else _months(last.year, last.month, 1)
    if unit == "year":
        return _months(today.year - (not this), 1, 12)
    return _weekday(unit, now)


def _on_weekday(match: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    return _weekday(match["weekday"], now)


def _weekday(name: str, now: datetime) -> tuple[datetime, datetime]:
    today = _midnight(now)
    back = (today.weekday() - _WEEKDAYS.index(name)) % 7 or 7
    return today - _DAY * back, today - _DAY * (back - 1)


_RESOLVERS = {
    "day": _day, "month": _month, "season": _season, "year": _year, "ago": _ago, "near": _near,
    "last": _last, "weekday": _on_weekday,
}  # fmt: skip


def _latest(make: Callable[[int], datetime], now: datetime) -> datetime:
    """The last one that has begun by `now`."""
    made = make(now.year)
    return made if made <= now else make(now.year - 1)


def _months(year: int, month: int, count: int) -> tuple[datetime, datetime]:
    last = (month - 1 + count - 1) % 12 + 1
    last_year = year + (month - 1 + count - 1) // 12
    end = datetime(last_year, last, monthrange(last_year, last)[1], tzinfo=UTC) + _DAY
    return datetime(year, month, 1, tzinfo=UTC), end


def _month_number(word: str) -> int:
    return next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(word.rstrip(".")[:3]))


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
