"""Transcripts: sessions, exact turns, and an export that grows changes its last session only."""

from datetime import UTC, datetime, timedelta

import pytest

from stillroom.schemas.documents import MarkKind
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from stillroom.transforms.transcripts import documents_of, roles_of

START = datetime(2023, 5, 8, 12, tzinfo=UTC)


def documents(turns, key="c1", max_chars=10_000, **fields):
    return list(
        documents_of(Conversation(key, iter(turns), **fields), "s", "p", "/in", "f", max_chars)
    )


def turn(number, text="hello there", speaker="Ann", hours=0.0, **fields):
    return Turn(f"m{number}", speaker, text, at=START + timedelta(hours=hours), **fields)


def test_a_transcript_is_its_turns_and_each_is_a_mark():
    (made,) = documents(
        [turn(1, "Hi Bob"), turn(2, "Two\nlines", "Bob", 0.1, role="assistant", edited=True)],
        title=" A  talk ", thread="t",
    )  # fmt: skip
    assert made.text == "Ann: Hi Bob\nBob: Two\nlines"
    assert made.title == "A talk"
    assert made.created_at == START
    assert made.metadata["people"] == ("Ann", "Bob")
    assert made.metadata["conversation"] == "t"
    said = [made.text[m.start : m.end] for m in made.marks]
    assert said == ["Ann: Hi Bob", "Bob: Two\nlines"]
    assert [(m.kind, m.source_id, m.speaker) for m in made.marks] == [
        (MarkKind.TURN, "m1", "Ann"),
        (MarkKind.TURN, "m2", "Bob"),
    ]
    assert roles_of(made.marks[1]) == ("assistant", frozenset({"edited"}))


def test_a_pause_begins_a_session_and_growth_changes_only_the_last():
    morning = [turn(1), turn(2, hours=1)]
    evening = [turn(3, hours=10)]
    first, second = documents([*morning, *evening])
    assert (first.source_key, second.source_key) == ("c1", "c1#m3")
    again = documents([*morning, *evening, turn(4, hours=11), turn(5, hours=40)])
    assert again[0] == first
    assert again[1].id == second.id
    assert again[1].text != second.text
    assert len({d.id for d in again}) == 3


def test_turns_without_a_time_stay_together_and_a_long_session_is_cut(monkeypatch):
    monkeypatch.setattr("stillroom.transforms.transcripts.MAX_SESSION_CHARS", 60)
    made = documents([Turn(f"m{i}", "Ann", "x" * 20) for i in range(9)])
    assert len(made) > 1
    assert sum(len(d.marks) for d in made) == 9


def test_what_is_no_turn_is_told():
    made = documents(
        [turn(1), Refused(RejectReason.MALFORMED, "bad", "m2"), turn(3, "x" * 50),
         turn(4, "", hours=1), turn(5, "", deleted=True), turn(6, "left", alternative=True)],
        max_chars=40,
    )  # fmt: skip
    refused = [one for one in made if isinstance(one, Refused)]
    assert [(r.reason, r.key) for r in refused] == [
        (RejectReason.MALFORMED, "c1/m2"),
        (RejectReason.TOO_LARGE, "c1/m3"),
    ]
    document = made[-1]
    assert document.text == "Ann: hello there\nAnn: [deleted]"
    assert document.metadata["alternatives"] == 1


@pytest.mark.parametrize("turns", [[], [Turn("m", "Ann", "  ")]])
def test_nothing_said_is_a_reject(turns):
    (made,) = documents(turns)
    assert (made.reason, made.key) == (RejectReason.EMPTY, "c1")


def test_hostile_text_is_cleaned_and_said_so():
    (made,) = documents([Turn("m\0", "An\nn\ud800", "a\0b \ud83d", at=START)])
    made.text.encode("utf-8")
    assert "\0" not in made.text
    assert made.marks[0].speaker.startswith("An n")
    assert made.repairs
