"""What readers hand over: a parsed text or a refusal, with facets and times made comparable."""

import json
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from stillroom.schemas.documents import Facets, FacetValue
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.decode import clean_text

MAX_FACET_CHARS = 10_000
_INT64 = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGER = re.compile(r"-?\d{1,18}")


@dataclass(frozen=True, slots=True)
class Parsed:
    """One text as its format gave it. `key` is a row's id, empty for a whole file."""

    kind: str
    title: str
    text: str
    metadata: Facets = field(default_factory=dict)
    created_at: datetime | None = None
    repairs: tuple[str, ...] = ()
    key: str = ""


class Refused(ValueError):
    """An input that gives no document. Raised for a whole file, yielded for one row (`key`)."""

    def __init__(self, reason: RejectReason, detail: str, key: str = "") -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.key = key


def typed_facets(
    columns: Mapping[Any, Any], infer: bool = False
) -> tuple[dict[str, FacetValue], tuple[str, ...]]:
    """The facets of columns or front matter, and the repairs `facet_cut` and `facet_binary`.

    Strings, whole numbers, floats and booleans keep their type; lists of scalars become tuples of
    strings; dates ISO 8601; anything nested becomes JSON text. Null, empty and not finite values are
    left out. A string over 10,000 characters is cut. Bytes that are not UTF-8 are left out.
    `infer` gives types to the strings of CSV, where that loses nothing: `007` and `1.10` stay text.
    """
    facets: dict[str, FacetValue] = {}
    repairs: dict[str, None] = {}
    for name, value in columns.items():
        key = clean_text(str(name))[0].strip()
        made = _facet(value, infer, repairs)
        if key and made is not None:
            facets[key] = made
    return facets, tuple(repairs)


def _facet(value: Any, infer: bool, repairs: dict[str, None]) -> FacetValue | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Arrow's integers have 64 bits.
        return value if -_INT64 <= value < _INT64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        try:
            value = value.decode("utf-8")
        except UnicodeDecodeError:
            repairs["facet_binary"] = None
            return None
    if isinstance(value, list | tuple) and all(
        isinstance(item, str | int | float | bool) or item is None for item in value
    ):
        items: list[str] = []
        room = MAX_FACET_CHARS
        for item in value:
            text = _facet(item, False, repairs)
            if text is None:
                continue
            shown = text if isinstance(text, str) else _plain(text)
            if len(shown) > room:
                repairs["facet_cut"] = None
                break
            room -= len(shown)
            items.append(shown)
        return tuple(items) or None
    if isinstance(value, datetime | date | time):
        value = value.isoformat()
    elif isinstance(value, Mapping | list | tuple):
        value = _json(value)
    text = clean_text(value if isinstance(value, str) else str(value))[0].strip()
    if not text:
        return None
    if infer:
        return _inferred(text, repairs)
    return _cut(text, repairs)


def _cut(text: str, repairs: dict[str, None]) -> str:
    if len(text) > MAX_FACET_CHARS:
        repairs["facet_cut"] = None
        return text[:MAX_FACET_CHARS]
    return text


def _inferred(text: str, repairs: dict[str, None]) -> FacetValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if len(text) <= 24:
        for number in (int, float):
            try:
                made = number(text)
            except ValueError:
                continue
            if math.isfinite(made) and str(made) == text and -_INT64 <= made < _INT64:
                return made
    return _cut(text, repairs)


def _plain(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool | float | int) else str(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys of mixed types, cycles, depth
        return ""


def parse_time(value: Any) -> datetime | None:
    """When something was written, in UTC, or None where that cannot be told.

    Takes ISO 8601 (also `2024`, `2024-05`), epoch seconds, milli-, micro- or nanoseconds by size, RFC
    2822, and dates with the month in words. `03/04/2024` is refused: it means two days. A time
    without a zone is UTC. Never depends on today's date.
    """
    try:
        return _parse_time(value)
    except (ValueError, OverflowError, TypeError, ArithmeticError):
        return None


def _parse_time(value: Any) -> datetime | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        # astimezone reads the local zone for naive times, which differ from worker to worker
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, int | float):
        return _from_number(value)
    if not isinstance(value, str) or len(value) > 100:
        return None
    text = value.strip()
    if re.fullmatch(r"\d{4}-\d{2}", text):
        text += "-01"
    if re.fullmatch(r"(19|20|21)\d{6}", text):
        return _parse_time(datetime.strptime(text, "%Y%m%d"))
    if _INTEGER.fullmatch(text) or re.fullmatch(r"-?\d+\.\d+", text):
        return _from_number(float(text) if "." in text else int(text))
    try:
        return _parse_time(datetime.fromisoformat(text))
    except ValueError:
        return _from_words(text)


def _from_number(value: float) -> datetime | None:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and 1000 <= value <= 2999:
        return datetime(value, 1, 1, tzinfo=UTC)  # a year: no one logs the first hour of 1970
    # Seconds until the year 5138; larger numbers count something smaller.
    size = abs(value)
    per_second = (
        1 if size < 10**11 else 10**3 if size < 10**14 else 10**6 if size < 10**17 else 10**9
    )
    if isinstance(value, int):
        return _EPOCH + timedelta(microseconds=value * 1_000_000 // per_second)
    return _EPOCH + timedelta(seconds=value / per_second)


def _from_words(text: str) -> datetime | None:
    if not re.search(r"[A-Za-z]{3}", text) or not re.search(r"\b\d{4}\b", text):
        return None
    from dateutil import parser

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an unknown zone such as EST: the time cannot be told
        try:
            # dateutil fills gaps from its default: two of them show whether there were any.
            first = parser.parse(text, default=datetime(2000, 1, 1))
            second = parser.parse(text, default=datetime(2001, 2, 2))
        except (parser.ParserError, parser.UnknownTimezoneWarning):
            return None
    return _parse_time(first) if first == second else None
