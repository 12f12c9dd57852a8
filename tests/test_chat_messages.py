"""Data sets of chats with models: ShareGPT, OpenAI, Anthropic."""

import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms import chat_messages
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport
from tests.chat_fuzz import mangled, read_all, to_json

HI = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}
SHARE = {
    "id": "x1",
    "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}],
}


def told(*messages: Any, **more: Any) -> list[tuple[str, str, str]]:
    ((_, turns),) = read_all(chat_messages, {"x": to_json({"messages": messages, **more})}, True)
    return [(turn.role, turn.speaker, turn.text) for turn in turns]


def outline(data: bytes, name: str = "x.jsonl") -> list[Any]:
    return [
        item.key if isinstance(item, Refused) else [getattr(turn, "text", "?") for turn in item[1]]
        for item in read_all(chat_messages, {name: data}, True)
    ]


def test_openai_with_tools_and_content_of_any_kind() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
    assert told(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "what"}, {"type": "image_url", "image_url": {"url": "data:"}}, {"type": "input_audio", "input_audio": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [call, {"function": {"name": "b"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
        {"role": "assistant", "content": "", "function_call": {"name": "old", "arguments": "{}"}},
        {"role": "assistant", "content": None, "refusal": "No."},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": "done", "reasoning_content": "hm"},
    ) == [
        ("system", "System", "Be brief."),
        ("user", "Ann", "what\n\n[image]\n\n[audio]"),
        ("assistant", "Assistant", '[tool: look]\n{"q": 1}\n\n[tool: b]'),
        ("tool", "Tool", "found"),
        ("assistant", "Assistant", "[tool: old]\n{}"),
        ("assistant", "Assistant", "No."),
        ("assistant", "Assistant", "[thinking] hm\n\ndone"),
    ]  # fmt: skip


def test_anthropic_with_a_system_prompt_beside_the_messages() -> None:
    assert told(
        {"role": "user", "content": [{"type": "document", "title": "D", "source": {"type": "text", "data": "body"}}, {"type": "text", "text": "sum up"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "t", "input": {"a": [1]}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "out"}]},
        system=[{"type": "text", "text": "Be kind."}],
    ) == [
        ("system", "System", "Be kind."),
        ("user", "User", "[file: D]\nbody\n\nsum up"),
        ("assistant", "Assistant", "[tool: t]\na: [1]"),
        ("user", "User", "out"),
    ]  # fmt: skip
    assert told({"role": "user", "content": "x"}, system="S")[0] == ("system", "System", "S")


def test_sharegpt_with_its_many_names_for_the_speakers() -> None:
    said = [("gpt", "first"), ("human", "b"), ("bing", "c"), ("chatgpt", "d"), ("tool", "e"),
            ("function_call", "f"), ("Caroline", "g"), ("system", "h"), ("gpt", None)]  # fmt: skip
    record = {"conversations": [{"from": name, "value": text} for name, text in said]}
    ((_, turns),) = read_all(chat_messages, {"s.json": to_json([record])}, True)
    assert [(turn.role, turn.speaker) for turn in turns] == [
        ("assistant", "Assistant"),
        ("user", "User"),
        ("assistant", "Bing"),
        ("assistant", "ChatGPT"),
        ("tool", "Tool"),
        ("assistant", "Assistant"),
        ("person", "Caroline"),  # zjunlp/LightMem#9: peers keep their names
        ("system", "System"),
    ]


def test_sharegpt_html_is_read_as_people_see_it() -> None:
    html = '<div class="markdown"><p>Use <code>a &lt; b</code></p><pre><code>x = 1\n</code></pre></div>'
    record = {"conversations": [{"from": "gpt", "value": html}, {"from": "human", "value": "<b> or <p>?"}]}  # fmt: skip
    ((_, turns),) = read_all(chat_messages, {"s.json": to_json([record])}, True)
    assert turns[0].text == "Use a < b\n\n```\nx = 1\n```"
    assert turns[1].text == "<b> or <p>?"


def test_parts_of_one_sharegpt_conversation_have_a_thread() -> None:
    ids = ["QWJhYvA_0", "QWJhYvA_17", "conv_1", "session_2", "x"]
    data = to_json([{**SHARE, "id": name} for name in ids])
    made = read_all(chat_messages, {"s.json": data}, True)
    assert [(talk.key, talk.thread) for talk, _ in made] == [
        ("QWJhYvA_0", "QWJhYvA"), ("QWJhYvA_17", "QWJhYvA"), ("conv_1", ""), ("session_2", ""), ("x", ""),
    ]  # fmt: skip


LINE = to_json(HI)
TALK = ["hi", "hello"]


@pytest.mark.parametrize(
    "data",
    [
        LINE + b"\n" + LINE,
        b"\xef\xbb\xbf" + LINE + b"\r\n\r\n" + LINE + b"\r\n",
        LINE + b",\n" + LINE + b"\n",
        LINE + b",\n" + LINE + b",\n",
        b"[" + LINE + b",\n" + LINE + b"]",
        b"[\n" + LINE + b",\n" + LINE + b",\n]\n",
        json.dumps([HI, HI], indent=2).encode(),
        json.dumps(HI, indent=2).encode() + json.dumps(HI, indent=1).encode(),
        (LINE + b"\n" + LINE).decode().encode("utf-16"),
        b"\n\n" + LINE + b"\n   \n" + LINE,
    ],
)  # fmt: skip
def test_lines_and_lists_however_they_are_written(data: bytes) -> None:
    assert outline(data) == [TALK, TALK]


def test_a_bad_line_costs_itself() -> None:
    data = b'{"messages": [{"role": "us\n' + LINE + b'\n[1]\n{"other": 1}\n' + LINE
    assert outline(data) == ["x.jsonl:1", TALK, "x.jsonl:3", "x.jsonl:4", TALK]


def test_nan_duplicate_names_and_lone_surrogates_are_survived() -> None:
    data = b'{"id": NaN, "score": Infinity, "messages": [], "messages": [{"role": "user", "content": "a\\ud800b\\u0000"}]}'
    assert outline(data) == [["a\ud800b\0"]]


def test_bytes_that_are_not_utf8_cost_nothing() -> None:
    latin = '{"messages": [{"role": "user", "content": "Grüße, café"}]}'.encode("cp1252")
    assert outline(LINE + b"\n" + '{"messages": [{"role": "user", "content": "日本"}]}'.encode() + b"\n" + latin)[2] == ["Grüße, café"]  # fmt: skip


def test_a_bad_message_is_refused_in_its_place() -> None:
    messages = [{"role": "user", "content": "a"}, "b", {"role": "user", "content": 3}, {"role": [], "content": "x"}, None, {"role": "user", "content": [4]}, {"role": "user", "content": "z"}]  # fmt: skip
    ((_, turns),) = read_all(chat_messages, {"x": to_json({"messages": messages})}, True)
    assert [getattr(turn, "text", None) or turn.key for turn in turns] == [
        "a", "message 2", "message 3", "message 4", "message 5", "message 6", "z",
    ]  # fmt: skip


def test_a_bare_list_of_messages_is_one_conversation_read_as_it_comes() -> None:
    rows = [{"role": "user", "content": "hi", "timestamp": "2024-01-02T03:04:05Z"}, {"role": "assistant", "content": "hello"}]  # fmt: skip
    for data in (to_json(rows), b"\n".join(map(to_json, rows))):
        ((talk, turns),) = read_all(chat_messages, {"a/chat.json": data}, True)
        assert talk.key == "a/chat.json"
        assert [turn.text for turn in turns] == TALK
        assert turns[0].at == datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
        assert turns[1].at is None
    many = b"\n".join([to_json({"role": "user", "content": "x" * 1000})] * 20_000)
    export = MemoryExport({"m": many})
    tracemalloc.start()
    (talk,) = chat_messages.read(export, ["m"], UTC)
    assert sum(1 for _ in talk.turns) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(many) // 2


def test_keys_are_the_ids_else_how_it_begins() -> None:
    def keys(*records: Any) -> list[str]:
        made = read_all(chat_messages, {"x": b"\n".join(map(to_json, records))}, True)
        return [talk.key for talk, _ in made]

    grown = {"messages": [{"role": "system", "content": "s"}, *HI["messages"], {"role": "user", "content": "more"}]}  # fmt: skip
    first, second = keys(HI, HI)
    assert second == f"{first}#2"
    assert keys(grown) == [first]
    assert keys({"id": 7, **HI}, {"id": "7", **HI}) == ["7", "7#2"]


def test_ids_are_the_same_in_a_longer_export_and_repeats_are_kept() -> None:
    def ids(count: int) -> list[str]:
        record = {"messages": [{"role": "user", "content": "ok"}] * count}
        ((_, turns),) = read_all(chat_messages, {"x": to_json(record)}, True)
        return [turn.id for turn in turns]

    assert len(set(ids(3))) == 3
    assert ids(3) == ids(5)[:3]


@pytest.mark.parametrize(
    "other",
    [
        [{"messages": [{"id": 1, "author": {"name": "a"}, "content": "x"}]}],
        {"name": "x", "messages": [{"id": 1, "type": "message", "from": "Ann", "text": "hi"}]},
        [{"type": "message", "user": "U1", "text": "x", "ts": "1.2"}],
        [{"id": "m", "conversations": [{"from": "human", "value": "x", "turn-info": "a-0"}]}],
        [{"mapping": {"a": {"message": None}}}],
        [{"uuid": "1", "chat_messages": [{"text": "x"}]}],
        [{"role": "painter", "content": "x"}],
        [{"text": "x", "messages": "none"}],
        {"participants": [], "messages": [{"sender_name": "A", "content": "x"}]},
        [],
        7,
    ],
)
def test_other_formats_are_not_claimed(other: Any) -> None:
    assert list(chat_messages.claims(MemoryExport({"x.json": to_json(other)}), ["x.json"])) == []


def test_long_first_records_are_claimed() -> None:
    long = to_json([{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "x" * 99_999}]}])  # fmt: skip
    assert outline(long)[0][0] == "hi"
    assert outline(b"not json\n" + LINE) == ["x.jsonl:1", TALK]


VALID = [
    HI,
    SHARE,
    {"system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "tool_result", "content": [{"type": "image"}]}], "timestamp": 5}, {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}]},
]  # fmt: skip


@given(mangled(VALID), st.integers(0, 900), st.booleans())
def test_damage_never_raises(value: Any, cut: int, lines: bool) -> None:
    many = value if lines and isinstance(value, list) else [value]
    raw = b"\n".join(json.dumps(item).encode() for item in many)
    for data in (raw, raw[:cut]):
        read_all(chat_messages, {"x": data}, claim=True)
        read_all(chat_messages, {"x": data})
