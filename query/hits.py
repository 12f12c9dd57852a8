"""What a search returns: hits that read their value, marks and reasons only when looked at."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from stillroom.schemas.arrow import facets_from_json, mark_from_row
from stillroom.schemas.documents import Facets, Mark, Span
from stillroom.store import Build


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one leg proposed a hit, or where a reranker put it (`leg` is then "rerank", and the legs'
    contributions are to the score that it started from).

    `rank` is 1-based in that leg's own list (None: the leg did not reach the hit, its true score is
    shown all the same); `score` is raw (BM25 or cosine); `contribution` is its share of `Hit.score`.
    `key_kind`, `key_text` and `key_span` are the key that matched; `terms` the analyzed query terms
    that did; `ranges` where they stand in `Hit.value`, in code points; `encoder` which one made the
    query's vector.
    """

    leg: str
    rank: int | None
    score: float
    contribution: float
    key_kind: str = ""
    key_text: str = ""
    key_span: Span | None = None
    terms: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    encoder: str = ""


class Hit:
    """One found entry. Its value is an exact span of a document."""

    def __init__(
        self, build: Build, row: int, score: float, reasons: Callable[[], tuple[Reason, ...]],
        duplicates: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._build, self._row, self._make_reasons = build, row, reasons
        self.score = score
        self.duplicates = duplicates  # ids of near-duplicates folded into this hit

    def _get(self, column: str) -> Any:
        return self._build.entries.column(column)[self._row].as_py()

    def _time(self, column: str) -> datetime | None:
        # `as_py` of a timestamp imports pandas where it is installed.
        value = self._build.entries.column(column)[self._row].value
        return None if value is None else _EPOCH + timedelta(microseconds=value)

    @cached_property
    def id(self) -> str:
        return str(self._get("id"))

    @cached_property
    def value(self) -> str:
        return str(self._get("value"))

    @property
    def kind(self) -> str:
        return str(self._get("kind"))

    @property
    def title(self) -> str:
        return str(self._get("title"))

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self._get("path"))

    @cached_property
    def facets(self) -> Facets:
        return facets_from_json(self._get("facets"))

    @cached_property
    def span(self) -> Span:
        return Span(self.document_id, self._get("start"), self._get("end"))

    @property
    def basis(self) -> tuple[Span, ...]:
        """What a derived value rests on; empty for a document that was read."""
        return tuple(Span(**row) for row in self._get("basis"))

    @property
    def marks(self) -> tuple[Mark, ...]:
        """Marks of the document that lie inside the value (for chats, the turns)."""
        return tuple(mark_from_row(row) for row in self._get("marks"))

    @property
    def document_id(self) -> str:
        return str(self._get("document_id"))

    @property
    def source(self) -> str:
        return str(self._get("source"))

    @property
    def source_key(self) -> str:
        return str(self._get("source_key"))

    @property
    def uri(self) -> str:
        return str(self._get("uri"))

    @property
    def starts_at(self) -> datetime | None:
        return self._time("starts_at")

    @property
    def ends_at(self) -> datetime | None:
        return self._time("ends_at")

    @property
    def build_id(self) -> str:
        return self._build.manifest.build

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """One for each leg, computed when first asked for."""
        return self._make_reasons()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without reasons; times as `datetime`."""
        return {
            "id": self.id, "score": self.score, "kind": self.kind, "title": self.title,
            "path": list(self.path), "value": self.value, "document_id": self.document_id,
            "source_key": self.source_key, "uri": self.uri, "start": self.span.start,
            "end": self.span.end, "starts_at": self.starts_at, "ends_at": self.ends_at,
            "facets": dict(self.facets), "build_id": self.build_id,
        }  # fmt: skip

    def explained(self) -> dict[str, Any]:
        """Plain data with reasons."""
        return {**self.to_dict(), "reasons": [asdict(reason) for reason in self.reasons]}

    def __repr__(self) -> str:
        return f"Hit({self.score:.3f} {self.source_key!r} {self.value[:60]!r})"


@dataclass(frozen=True)
class Hits(Sequence[Hit]):
    """Hits, best first. `notes` say what a reader should know (a leg that was missing, entries that a
    time filter left out); `timings` are milliseconds by part of the search."""

    hits: tuple[Hit, ...]
    notes: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> "Hits": ...
    def __getitem__(self, index: int | slice) -> "Hit | Hits":
        if isinstance(index, slice):
            return Hits(self.hits[index], self.notes, self.timings)
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def to_list(self) -> list[dict[str, Any]]:
        """One plain dict a hit."""
        return [hit.to_dict() for hit in self.hits]

    def to_arrow(self) -> pa.Table:
        """One row a hit; facets as JSON, since their names differ from hit to hit."""
        rows = self.to_list()
        for row, hit in zip(rows, self.hits, strict=True):
            row["facets"] = hit._get("facets")
        return pa.Table.from_pylist(rows, schema=_HITS)

    def to_pandas(self) -> Any:
        """A pandas DataFrame of `to_arrow` (pandas must be installed)."""
        return self.to_arrow().to_pandas()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = pa.timestamp("us", tz="UTC")
_HITS = pa.schema(
    [
        ("id", pa.string()), ("score", pa.float64()), ("kind", pa.string()), ("title", pa.string()),
        ("path", pa.list_(pa.string())), ("value", pa.string()), ("document_id", pa.string()),
        ("source_key", pa.string()), ("uri", pa.string()), ("start", pa.int64()),
        ("end", pa.int64()), ("starts_at", _TIME), ("ends_at", _TIME), ("facets", pa.string()),
        ("build_id", pa.string()),
    ]
)  # fmt: skip
