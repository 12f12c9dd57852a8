"""Runs of turns: every turn in one, none over the budget, rounds as people take them."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.models import tokens_for
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.transcripts import documents_of
from stillroom.transforms.turns import FixedSegmenter, Said, round_starts, segment_turns

AT = datetime(2023, 5, 8, 12, tzinfo=UTC)


def document(texts, speakers=("Ann", "Bob")):
    turns = [
        Turn(f"m{i}", speakers[i % len(speakers)], text, at=AT) for i, text in enumerate(texts)
    ]
    (made,) = documents_of(Conversation("c", turns, title="Talk"), "s", "p", "/in", "f", 10**6)
    return made


def said(*roles):
    return [Said(f"{role}: x", role, role) for role in roles]


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("turn", [(i, i + 1) for i in range(7)]),
        ("session", [(0, 7)]),
        ("window", [(0, 4), (2, 6), (4, 7)]),
    ],
)
def test_segmenters_that_look_at_no_words(name, runs):
    assert FixedSegmenter(name).runs(said(*["person"] * 7)) == runs


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_windows_hold_every_turn(n):
    runs = FixedSegmenter("window").runs(said(*["person"] * n))
    assert {i for a, b in runs for i in range(a, b)} == set(range(n))
    assert len(runs) == max(1, -(-(n - 2) // 2))


def test_rounds_begin_with_the_user_or_with_who_spoke_first():
    assert round_starts(said("system", "user", "assistant", "user", "tool", "assistant")) == [0, 1, 3]  # fmt: skip
    people = [Said("x", name, "person") for name in ("Ann", "Ann", "Bob", "Cy", "Ann", "Bob")]
    assert round_starts(people) == [0, 4]


def test_segments_are_exact_spans_with_their_people_and_times():
    made = document(["Hi.", "Hello, how are you?", "Fine, thanks for asking."])
    segments = segment_turns(made, FixedSegmenter("turn"), 64, tokens_for("minilm"))
    for segment in segments:
        entry = segment.entry
        assert made.text[entry.span.start : entry.span.end] == entry.value
        assert entry.path == ("8 May 2023",)
        assert entry.starts_at == entry.ends_at == AT
    assert [s.entry.facets["speaker"] for s in segments] == [("Ann",), ("Bob",), ("Ann",)]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12))
def test_no_segment_is_over_the_budget_and_none_of_the_text_is_lost(lengths):
    tokens = tokens_for("minilm")
    made = document([" ".join(["word"] * n) + "." for n in lengths])
    segments = segment_turns(made, FixedSegmenter("session"), 24, tokens)
    for segment in segments:
        assert tokens.count(segment.entry.value) <= 24
    held = set()
    for segment in segments:
        held.update(range(segment.entry.span.start, segment.entry.span.end))
    assert all(i in held or made.text[i].isspace() for i in range(len(made.text)))
    assert len({s.entry.id for s in segments}) == len(segments)
