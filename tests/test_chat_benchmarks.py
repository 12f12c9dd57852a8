"""Benchmarks of memory: the chats, and never the questions."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms import chat_benchmarks, chat_messages
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport
from tests.chat_fuzz import mangled, read_all, to_json

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "chat"

LOCOMO = {
    "qa": [{"question": "SECRET", "answer": "SECRET", "evidence": ["D1:2"], "category": 2}],
    "conversation": {
        "speaker_a": "Ann",
        "speaker_b": "Bob",
        "session_2_date_time": "12:09 am on 13 September, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Hm"}],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I went yesterday."},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Look!", "img_url": ["http://x"],
             "blip_caption": "a photo of a dog", "query": "SECRET"},
        ],
        "session_10_date_time": "soon",
        "session_10": [{"speaker": "Bob", "dia_id": "D10:1", "text": "", "blip_caption": "a cat"}],
        "session_11_date_time": "1:00 pm on 1 May, 2024",
    },
    "observation": {"session_1_observation": {"Ann": [["SECRET", "D1:1"]]}},
    "session_summary": {"session_1_summary": "SECRET"},
    "event_summary": {"events_session_1": {"Ann": ["SECRET"]}},
    "sample_id": "conv-1",
}  # fmt: skip
LONGMEMEVAL = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "SECRET",
    "answer": "SECRET",
    "question_date": "2023/06/01 (Thu) 10:00",
    "haystack_dates": ["2023/05/30 (Tue) 23:40", "2023/05/31 (Wed) 00:01", "bad"],
    "haystack_session_ids": ["s1", "s2", "s1"],
    "haystack_sessions": [
        [{"role": "user", "content": "hi", "has_answer": True}, {"role": "assistant", "content": "yo"}],
        [{"role": "user", "content": "again"}],
        [{"role": "user", "content": "hi"}],
    ],
    "answer_session_ids": ["SECRET"],
}  # fmt: skip
MTBENCH = {
    "id": "mt-1",
    "conversations": [
        {"from": "human", "value": "Explain ink.", "turn-info": "SECRET-1-0"},
        {"from": "chatbot", "value": ""},
        {"from": "human", "value": "And paper?", "turn-info": "SECRET-1-1"},
        {"from": "chatbot", "value": ""},
        {"from": "human", "value": "SECRET question", "turn-info": "SECRET-1-Q"},
        {"from": "chatbot", "value": ""},
    ],
    "type": "continuation",
}


def read(*samples: Any) -> list[Any]:
    return read_all(chat_benchmarks, {"b.json": to_json(list(samples))}, True)


@pytest.mark.parametrize("sample", [LOCOMO, LONGMEMEVAL, MTBENCH])
def test_what_asks_and_answers_is_never_read(sample: Any) -> None:
    assert "SECRET" not in repr(read(sample))


def test_locomo_is_a_conversation_a_session_at_its_date() -> None:
    # mem0ai/mem0#3944: the session's date, never today's; zjunlp/LightMem#9: peers keep their names
    made = read(LOCOMO)
    assert [(talk.key, talk.thread, talk.title) for talk, _ in made] == [
        ("conv-1/session_1", "conv-1", "session 1"),
        ("conv-1/session_2", "conv-1", "session 2"),
        ("conv-1/session_10", "conv-1", "session 10"),
    ]
    at = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert made[0][1] == [
        Turn("D1:1", "Ann", "I went yesterday.", "person", at),
        Turn("D1:2", "Bob", "Look! [shares image: a photo of a dog]", "person", at),
    ]
    assert made[1][1][0].at == datetime(2023, 9, 13, 0, 9, tzinfo=UTC)
    assert (made[2][1][0].text, made[2][1][0].at) == ("[shares image: a cat]", None)


def test_sessions_of_longmemeval_are_kept_even_twice() -> None:
    # xiaowu0162/LongMemEval#54, #37; MemPalace/mempalace#242: what the assistant says is there
    made = read(LONGMEMEVAL)
    assert [(talk.key, talk.thread, talk.title) for talk, _ in made] == [
        ("q1/s1#0", "q1", "session 1"),
        ("q1/s2", "q1", "session 2"),
        ("q1/s1#2", "q1", "session 3"),
    ]
    first = made[0][1]
    assert [(turn.role, turn.speaker, turn.text) for turn in first] == [
        ("user", "User", "hi"), ("assistant", "Assistant", "yo"),
    ]  # fmt: skip
    assert first[0].at == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert made[2][1][0].at is None


def test_the_last_question_of_mtbenchplus_is_left_out() -> None:
    ((talk, turns),) = read(MTBENCH)
    assert (talk.key, [turn.text for turn in turns]) == ("mt-1", ["Explain ink.", "And paper?"])


def test_times_are_in_the_zone_given_and_ids_do_not_depend_on_it() -> None:
    export = MemoryExport({"b.json": to_json([LOCOMO, LONGMEMEVAL])})
    there = timezone(timedelta(hours=9))
    shifted = [turn for talk in chat_benchmarks.read(export, ["b.json"], there) for turn in talk.turns]  # fmt: skip
    assert shifted[0].at == datetime(2023, 5, 8, 4, 56, tzinfo=UTC)
    here = [turn.id for _, turns in read(LOCOMO, LONGMEMEVAL) for turn in turns]
    assert [turn.id for turn in shifted] == here


def test_claims_the_three_and_nothing_else() -> None:
    questions = [{"question": "q", "answer": "a", "evidence": ["D1:3"], "category": 2}] * 2000
    files = {
        "locomo.json": to_json([{**LOCOMO, "qa": questions}]),
        "longmemeval.json": to_json([LONGMEMEVAL]),
        "mt.json": to_json([MTBENCH]),
        "rounds.json": to_json([{"question_id": 81, "mandatory_turns": ["x"]}]),
        "share.json": to_json([{"conversations": [{"from": "human", "value": "x"}]}]),
        "squad.json": to_json([{"qa": [{"question": "q", "evidence": ["p. 4"]}]}]),
        "lines.jsonl": to_json(LONGMEMEVAL) + b"\n" + to_json(LONGMEMEVAL),
    }
    export = MemoryExport(files)
    ours = ["lines.jsonl", "locomo.json", "longmemeval.json", "mt.json"]
    assert list(chat_benchmarks.claims(export, export.names)) == ours
    assert list(chat_messages.claims(export, export.names)) == ["share.json"]


def test_what_is_damaged_costs_itself() -> None:
    broken = {**LOCOMO, "sample_id": "conv-2", "conversation": {"session_1": "x", "session_2": ["y", {"text": "nobody"}, {"speaker": "Ann", "text": "no id"}]}}  # fmt: skip
    made = read(broken, {"other": 1}, {**LONGMEMEVAL, "haystack_dates": None, "haystack_session_ids": 3}, LOCOMO)  # fmt: skip
    assert isinstance(made[0], Refused)
    assert [getattr(turn, "text", None) or turn.key for turn in made[1][1]] == ["turn 1", "turn 2", "no id"]  # fmt: skip
    assert made[2].key == "b.json:1"
    assert [talk.key for talk, _ in made[3:]] == [
        "q1/session_1", "q1/session_2", "q1/session_3",
        "conv-1/session_1", "conv-1/session_2", "conv-1/session_10",
    ]  # fmt: skip


@pytest.mark.skipif(not SHARED.exists(), reason="the development data is not here")
def test_the_real_files() -> None:
    raw = (SHARED / "locomo_dev.json").read_bytes()
    wanted = [
        turn
        for sample in json.loads(raw)
        for value in sample["conversation"].values()
        if isinstance(value, list)
        for turn in value
    ]
    made = read_all(chat_benchmarks, {"locomo": raw}, True)
    turns = [turn for _, said in made for turn in said]
    assert len(turns) == len(wanted)
    assert all(turn.at for turn in turns)
    assert all(turn.text.startswith(raw["text"]) for turn, raw in zip(turns, wanted, strict=True))
    raw = (SHARED / "mtbenchplus" / "mtbenchplus.json").read_bytes()
    made = read_all(chat_benchmarks, {"mt": raw}, True)
    said = {turn.text for _, turns in made for turn in turns}
    asked = [[turn["value"] for turn in item["conversations"] if turn["from"] == "human"][-1] for item in json.loads(raw)]  # fmt: skip
    assert len(made) == 54
    assert not said & set(asked)
    rounds = MemoryExport({"4": (SHARED / "mtbenchplus" / "4rounds_questions.json").read_bytes()})
    assert list(chat_benchmarks.claims(rounds, ["4"])) == []


@given(mangled([LOCOMO, LONGMEMEVAL, MTBENCH]), st.integers(0, 3000))
def test_damage_never_raises(value: Any, cut: int) -> None:
    raw = json.dumps(value).encode()
    for data in (raw, raw[:cut]):
        read_all(chat_benchmarks, {"b.json": data}, claim=True)
        read_all(chat_benchmarks, {"b.json": data})
