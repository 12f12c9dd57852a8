"""Rejects and accounting: every input ends in exactly one bucket, and the buckets add up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class RejectReason(StrEnum):
    """Why an input was not published. Short words: they are column values and metric names."""

    UNREADABLE = "unreadable"  # the file system refused
    UNSUPPORTED = "unsupported"  # no reader for this kind of file, or its extra is not installed
    CORRUPT = "corrupt"  # truncated or damaged for its own format
    BINARY = "binary"  # called text, but is not
    ENCRYPTED = "encrypted"
    EMPTY = "empty"  # nothing but white space
    TOO_LARGE = "too_large"  # over a stated limit
    MALFORMED = "malformed"  # a row that is not a row
    MISSING_COLUMN = "missing_column"
    CONFLICTING_ID = "conflicting_id"  # two different documents of one id
    NO_ENTRY = "no_entry"  # a document that gave nothing to search
    ENCODER = "encoder"  # the encoder gave no usable vector


@dataclass(frozen=True, slots=True)
class Reject:
    """An input that is not in the build, and why. `uri` names the file, member and row."""

    uri: str
    stage: str
    reason: RejectReason
    detail: str = ""
    document_id: str = ""


@dataclass(frozen=True, slots=True)
class Accounting:
    """Where each input went. Counted as elements: Beam metrics overcount when a bundle is retried.

    `read` counts documents and the inputs that never became one; it equals the sum of the others.
    """

    published: int = 0
    unchanged: int = 0
    duplicate: int = 0
    rejected: int = 0
    stale: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        return self.published + self.unchanged + self.duplicate + self.rejected + self.stale

    @property
    def error_rate(self) -> float:
        """Rejected or stale inputs by inputs read; 0 for an empty run."""
        return (self.rejected + self.stale) / self.read if self.read else 0.0

    def __post_init__(self) -> None:
        if sum(self.reasons.values()) != self.rejected:
            raise ValueError(
                f"{self.rejected} inputs were rejected, but the reasons {dict(self.reasons)} "
                f"count {sum(self.reasons.values())}"
            )
