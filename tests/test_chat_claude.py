"""Claude's export: text wherever it stands, branches, and nothing lost in silence."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_claude
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport
from tests.chat_fuzz import mangled, read_all, to_json


def message(uuid: str, sender: str = "human", text: Any = "", **more: Any) -> dict[str, Any]:
    minute = sum(map(ord, uuid)) % 60
    created = f"2024-05-01T10:{minute:02}:00.123456Z"
    return {"uuid": uuid, "sender": sender, "text": text, "created_at": created, **more}


def talk(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": "c1", "name": "Talk", "created_at": "2024-05-01T09:00:00Z", "chat_messages": list(messages), **more}  # fmt: skip


def turns(*messages: Any, **more: Any) -> list[Any]:
    files = {"conversations.json": to_json([talk(*messages, **more)])}
    ((_, said),) = read_all(chat_claude, files, True)
    return said


def texts(*messages: Any, **more: Any) -> list[str]:
    return [turn.text for turn in turns(*messages, **more)]


def test_a_conversation_is_read() -> None:
    files = {"c.json": to_json([talk(message("a", text="hi"), message("b", "assistant", "hello"))])}
    (((made, said)),) = read_all(chat_claude, files, True)
    assert (made.key, made.title) == ("c1", "Talk")
    assert said == [
        Turn("a", "User", "hi", "user", datetime(2024, 5, 1, 10, 37, 0, 123456, UTC)),
        Turn("b", "Claude", "hello", "assistant", datetime(2024, 5, 1, 10, 38, 0, 123456, UTC), reply_to="a"),
    ]  # fmt: skip


def test_text_is_in_the_blocks_or_beside_them_or_both() -> None:
    # CherryHQ/cherry-studio PR#18135
    block = {"type": "text", "text": "hi"}
    assert texts(message("a", content=[block])) == ["hi"]
    assert texts(message("a", text="hi", content=[])) == ["hi"]
    assert texts(message("a", text="hi")) == ["hi"]
    assert texts(message("a", text="hi", content=[block])) == ["hi"]
    assert texts(message("a", text=None, content=[block, {"type": "text", "text": "there"}])) == ["hi\n\nthere"]  # fmt: skip
    assert texts(message("a", text="hi", content=[{"type": "tool_use", "name": "t"}])) == ["hi\n\n[tool: t]"]  # fmt: skip


def test_attachments_are_kept_with_what_they_held() -> None:
    # Superkikim/nexus-ai-chat-importer#63
    pasted = {"file_name": "paste.txt", "file_type": "txt", "extracted_content": "abc"}
    assert texts(message("a", attachments=[pasted], files=[{"file_name": "p.png"}])) == [
        "[file: paste.txt]\nabc\n\n[file: p.png]"
    ]
    assert texts(message("a", attachments=[{"file_name": "", "extracted_content": "abc"}])) == ["[file]\nabc"]  # fmt: skip


def test_a_turn_of_tools_only_is_kept() -> None:
    # yetanotherchris/openwebui-importer PR#41
    content = [
        {"type": "thinking", "thinking": "let me see"},
        {"type": "tool_use", "name": "search", "input": {"query": "ink\nink", "n": 3}},
        {"type": "tool_result", "content": [{"type": "text", "text": "found"}, {"type": "knowledge", "title": "Ink", "url": "http://i", "text": "is blue"}]},
        {"type": "tool_result", "content": []},
    ]  # fmt: skip
    unsupported = "```\nThis block is not supported on your current device yet.\n```"
    assert texts(message("a", "assistant", unsupported, content=content)) == [
        "[thinking] let me see\n\n[tool: search]\nquery: ink\nink\nn: 3\n\nfound\n\nInk (http://i)\nis blue\n\n[tool result]"
    ]  # fmt: skip
    assert texts(message("a", "assistant", unsupported)) == [unsupported]


def test_branches_by_parent_whatever_the_order_of_the_list() -> None:
    # CherryHQ/cherry-studio PR#16164
    made = turns(
        message("a", text="q", parent_message_uuid=chat_claude.ROOT),
        message("e", "assistant", "newest", parent_message_uuid="a"),
        message("c", "assistant", "older", parent_message_uuid="a"),
        message("d", text="to older", parent_message_uuid="c"),
        message("b", text="edited q", parent_message_uuid=chat_claude.ROOT),
    )
    assert [(turn.id, turn.alternative, turn.reply_to) for turn in made] == [
        ("a", False, ""),
        ("e", False, "a"),
        ("c", True, "a"),
        ("d", True, "c"),
        ("b", True, ""),
    ]
    said = turns(
        message("a", text="q", parent_message_uuid=chat_claude.ROOT),
        message("b", "assistant", "x", parent_message_uuid="a"),
        message("c", "assistant", "y", parent_message_uuid="a"),
        current_leaf_message_uuid="b",
    )
    assert [(turn.id, turn.alternative) for turn in said] == [("a", False), ("b", False), ("c", True)]  # fmt: skip


def test_without_parents_or_with_some_that_are_gone_it_is_one_chain() -> None:
    made = turns(message("z", text="1"), message("y", "assistant", "2"), message("x", text="3"))
    assert [(turn.text, turn.alternative) for turn in made] == [("1", False), ("2", False), ("3", False)]  # fmt: skip
    made = turns(message("a", text="1"), message("b", "assistant", "2", parent_message_uuid="gone"))
    assert [turn.reply_to for turn in made] == ["", "a"]


def test_one_object_instead_of_a_list_and_companions_that_are_not_chats() -> None:
    files = {
        "chat.json": to_json(talk(message("a", text="hi"))),
        "projects.json": to_json([{"uuid": "p", "name": "P", "docs": [{"content": "x"}]}]),
        "users.json": to_json([{"uuid": "u", "full_name": "U"}]),
        "long.json": to_json([talk(message("a", text="x" * 99_999))]),
        "mapping.json": to_json([{"mapping": {"a": {"message": None}}}]),
    }
    export = MemoryExport(files)
    assert list(chat_claude.claims(export, export.names)) == ["chat.json", "long.json"]
    assert read_all(chat_claude, {"chat.json": files["chat.json"]})[0][1][0].text == "hi"


def test_bad_messages_and_conversations_cost_themselves_and_are_counted() -> None:
    data = [
        talk(message("a", text="one"), "odd", None, message("b", text=["x"]), message("c", content=7)),
        talk(uuid="c2"),
        {"uuid": "c3", "chat_messages": "x"},
        5,
        talk(message("a"), uuid="c4"),
        talk(message("a", text="last"), uuid="c5"),
    ]  # fmt: skip
    made = read_all(chat_claude, {"c.json": to_json(data)})
    first = made[0][1]
    assert [getattr(turn, "text", "") for turn in first] == ["one", "", "", "", ""]
    assert [turn.key for turn in first[1:]] == ["message 2", "message 3", "b", "c"]
    assert [(item.key, item.reason.value) for item in made[1:5]] == [
        ("c2", "empty"), ("c3", "malformed"), ("c.json:1", "malformed"), ("c4", "empty"),
    ]  # fmt: skip
    assert made[5][1][0].text == "last"


def test_times_are_the_sources_own_or_the_neighbours() -> None:
    made = turns(
        {"uuid": "a", "sender": "human", "text": "1", "created_at": None},
        {"uuid": "b", "sender": "assistant", "text": "2", "created_at": "2024-05-01T12:00:00+02:00"},
        {"uuid": "c", "sender": "human", "text": "3", "created_at": "2024-13-45"},
    )  # fmt: skip
    assert [turn.at.hour for turn in made] == [9, 12, 12]
    assert [turn.inferred for turn in made] == [True, False, True]
    (naive,) = chat_claude.read(
        MemoryExport({"c.json": to_json([talk({"uuid": "a", "sender": "human", "text": "x", "created_at": "2024-05-01T12:00:00"})])}),
        ["c.json"],
        timezone(timedelta(hours=9)),
    )  # fmt: skip
    (turn,) = naive.turns
    assert turn.at == datetime(2024, 5, 1, 3, tzinfo=UTC)


def test_messages_without_uuid_keep_their_ids_when_the_chat_grows() -> None:
    messages = [{"sender": "human", "text": "hi"}] * 2
    ids = [turn.id for turn in turns(*messages)]
    assert len(set(ids)) == 2
    assert [turn.id for turn in turns(*messages, {"sender": "human", "text": "more"})][:2] == ids


def test_a_file_without_conversations_is_refused() -> None:
    (made,) = read_all(chat_claude, {"c.json": b"[]"})
    assert isinstance(made, Refused)
    assert made.reason == RejectReason.EMPTY


VALID = [
    talk(
        message(
            "a",
            text="q",
            parent_message_uuid=chat_claude.ROOT,
            attachments=[{"file_name": "f", "extracted_content": "e"}],
        ),
        message(
            "b",
            "assistant",
            "",
            parent_message_uuid="a",
            content=[
                {"type": "text", "text": "x"},
                {"type": "tool_result", "content": [{"type": "text", "text": "y"}]},
            ],
        ),
        message("c", "assistant", "other", parent_message_uuid="a"),
        current_leaf_message_uuid="b",
    )
] * 2  # fmt: skip


@given(mangled(VALID), st.integers(0, 2500))
def test_damage_never_raises(value: Any, cut: int) -> None:
    raw = json.dumps(value).encode()
    for data in (raw, raw[:cut]):
        read_all(chat_claude, {"conversations.json": data}, claim=True)
        read_all(chat_claude, {"conversations.json": data})
