"""Documents, marks and spans: what is refused, and what changes a digest."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from stillroom.schemas.documents import Derivation, Document, Mark, MarkKind, Span

AT = datetime(2024, 5, 31, 10, tzinfo=UTC)
DOCUMENT = Document(
    "d", "s", "key", "uri", "text", "Title", "Some text.",
    marks=(Mark(MarkKind.TURN, 0, 4, "label", 1, "t1", "ann", AT, (Span("x", 0, 2),)),),
    metadata={"year": 2024}, created_at=AT, derivation=Derivation("m", "f", ()),
)  # fmt: skip


@pytest.mark.parametrize(("start", "end"), [(-1, 0), (3, 2), (-2, -1)])
def test_a_span_and_a_mark_refuse_impossible_ranges(start, end):
    with pytest.raises(ValueError, match=f"{start}..{end}"):
        Span("d", start, end)
    with pytest.raises(ValueError, match=f"{start}..{end}"):
        Mark(MarkKind.CODE, start, end)


def test_an_empty_span_is_one():
    assert Span("d", 3, 3).start == 3


def test_spans_sort_by_document_and_place():
    spans = [Span("b", 0, 1), Span("a", 5, 6), Span("a", 1, 9), Span("a", 1, 2)]
    assert sorted(spans) == [Span("a", 1, 2), Span("a", 1, 9), Span("a", 5, 6), Span("b", 0, 1)]


def test_nouns_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        DOCUMENT.text = "other"
    with pytest.raises(FrozenInstanceError):
        DOCUMENT.marks[0].start = 1


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Some text!"},
        {"title": "T"},
        {"kind": "markdown"},
        {"marks": ()},
        {"derivation": None},
        {"derivation": Derivation("m", "g", ())},
        {"marks": (replace(DOCUMENT.marks[0], speaker="bob"),)},
        {"marks": (replace(DOCUMENT.marks[0], at=None),)},
        {"marks": (replace(DOCUMENT.marks[0], at=AT + timedelta(microseconds=1)),)},
        {"marks": (replace(DOCUMENT.marks[0], basis=(Span("x", 0, 3),)),)},
        {"marks": (replace(DOCUMENT.marks[0], level=2),)},
        {"marks": (replace(DOCUMENT.marks[0], kind=MarkKind.CLAIM),)},
    ],
)
def test_what_entries_are_made_from_changes_the_digest_alone(change):
    other = replace(DOCUMENT, **change)
    assert other.digest != DOCUMENT.digest
    assert other.metadata_digest == DOCUMENT.metadata_digest


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"year": 2025}},
        {"metadata": {"year": "2024"}},
        {"created_at": None},
        {"created_at": AT + timedelta(seconds=1)},
        {"uri": "elsewhere"},
        {"source_key": "other"},
    ],
)
def test_metadata_changes_the_metadata_digest_alone(change):
    other = replace(DOCUMENT, **change)
    assert other.digest == DOCUMENT.digest
    assert other.metadata_digest != DOCUMENT.metadata_digest


def test_where_a_document_lies_changes_neither_digest():
    other = replace(DOCUMENT, id="e", source="t", repairs=("nul",))
    assert (other.digest, other.metadata_digest) == (DOCUMENT.digest, DOCUMENT.metadata_digest)


def test_one_moment_in_two_zones_is_one_moment():
    east = AT.astimezone(timezone(timedelta(hours=2)))
    other = replace(DOCUMENT, created_at=east, marks=(replace(DOCUMENT.marks[0], at=east),))
    assert other == DOCUMENT
    assert (other.digest, other.metadata_digest) == (DOCUMENT.digest, DOCUMENT.metadata_digest)
