"""ChatGPT's export: what was on the screen, in its order, and what was left marked as such."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_chatgpt
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport
from tests.chat_fuzz import mangled, read_all, to_json


def node(
    name: str, parent: str | None, role: str = "user", text: Any = "", time: Any = None, **more: Any
) -> dict[str, Any]:
    content = more.pop("content", {"content_type": "text", "parts": [text]})
    author = {"role": role, **more.pop("author", {})}
    message = {"id": name, "author": author, "create_time": time, "content": content, **more}
    return {"id": name, "parent": parent, "children": [], "message": message}


def conversation(*nodes: dict[str, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    root = {"id": "root", "parent": None, "children": [], "message": None}
    return {
        "title": "Talk",
        "create_time": 1700000000.0,
        "mapping": {item["id"]: item for item in (root, *nodes)},
        "current_node": current or (nodes[-1]["id"] if nodes else "root"),
        "conversation_id": "c1",
        **more,
    }


def turns(*conversations: Any) -> list[Any]:
    (made,) = read_all(chat_chatgpt, {"conversations.json": to_json(list(conversations))}, True)
    return made[1]


def told(*nodes: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.text) for turn in turns(conversation(*nodes, **more))]


def test_a_conversation_is_read() -> None:
    raw = conversation(
        node("u", "root", text="hi", time=1700000001.5),
        node("a", "u", "assistant", "hello", 1700000002),
        default_model_slug="gpt-4",
    )
    ((talk, said),) = read_all(chat_chatgpt, {"x.json": to_json([raw])}, True)
    assert (talk.key, talk.title, talk.thread, talk.metadata) == (
        "c1",
        "Talk",
        "",
        {"model": "gpt-4"},
    )
    assert said == [
        Turn("u", "User", "hi", "user", datetime(2023, 11, 14, 22, 13, 21, 500000, UTC)),
        Turn("a", "ChatGPT", "hello", "assistant", datetime(2023, 11, 14, 22, 13, 22, tzinfo=UTC), reply_to="u"),
    ]  # fmt: skip


def test_the_chain_to_the_current_node_is_active_and_what_was_left_follows_marked() -> None:
    # MemPalace/mempalace#330: read through children[0]
    made = turns(
        conversation(
            node("u", "root", text="why?"),
            node("old", "u", "assistant", "old answer"),
            node("new", "u", "assistant", "new answer"),
            node("u2", "new", text="thanks"),
            node("olduser", "old", text="hm"),
            current="u2",
        )
    )
    assert [(turn.id, turn.alternative, turn.reply_to) for turn in made] == [
        ("u", False, ""),
        ("new", False, "u"),
        ("u2", False, "new"),
        ("old", True, "u"),
        ("olduser", True, "old"),
    ]


def test_a_hidden_node_within_the_chain_does_not_break_it() -> None:
    # danny-avila/LibreChat#9491
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    made = turns(
        conversation(
            node("u1", "root", text="a"),
            node("a1", "u1", "assistant", "b"),
            node("s", "a1", "system", "secret", **hidden),
            node("s2", "s", "system", "secret", weight=0.0),
            node("u2", "s2", text="c"),
            node("a2", "u2", "assistant", "d"),
        )
    )
    assert [(turn.id, turn.reply_to) for turn in made] == [
        ("u1", ""), ("a1", "u1"), ("u2", "a1"), ("a2", "u2"),
    ]  # fmt: skip


def test_times_that_are_missing_or_inverted_do_not_shuffle() -> None:
    # danny-avila/LibreChat PR#11123
    made = turns(
        conversation(
            node("u1", "root", text="1", time=None),
            node("a1", "u1", "assistant", "2", 1700000500),
            node("u2", "a1", text="3", time=1700000400),
            node("a2", "u2", "assistant", "4", None),
            node("u3", "a2", text="5", time="soon"),
            node("a3", "u3", "assistant", "6", 1e300),
        )
    )
    assert [turn.text for turn in made] == list("123456")
    assert [turn.at.timestamp() - 1700000000 for turn in made] == [0, 500, 400, 400, 400, 400]
    assert [turn.inferred for turn in made] == [True, False, False, True, True, True]


def test_re_exports_without_children_current_node_or_with_odd_times() -> None:
    # Nwflower/dsh-chat-import#62
    raw = conversation(
        node("u", "root", text="q", time=1700000001000000.0),
        node("a", "u", "assistant", "r", 1700000002000000.0),
        node("b", "u", "assistant", "s", 1700000003000000.0),
    )
    whole = turns(raw)
    for value in raw["mapping"].values():
        del value["children"]
    del raw["mapping"]["root"], raw["current_node"]
    assert turns(raw) == whole
    assert [turn.id for turn in whole] == ["u", "b", "a"]
    assert whole[0].at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)


def test_parents_are_told_from_children_where_only_these_are_there() -> None:
    raw = conversation(node("a", None, "assistant", "r"), node("u", None, text="q"), current="a")
    raw["mapping"]["u"]["children"] = ["a"]
    raw["mapping"]["root"]["children"] = ["u"]
    assert [turn.id for turn in turns(raw)] == ["u", "a"]


def test_a_dangling_parent_goes_on_from_the_node_before_and_a_cycle_is_cut() -> None:
    assert told(node("u", "root", text="1"), node("a", "gone", "assistant", "2")) == [
        ("User", "1"),
        ("ChatGPT", "2"),
    ]
    made = turns(conversation(node("u", "a", text="1"), node("a", "u", "assistant", "2")))
    assert [turn.id for turn in made] == ["u", "a"]


def test_bad_conversations_and_messages_cost_themselves() -> None:
    # moorcheh-ai/memanto PR#1634; conversations without mapping
    good = conversation(node("u", "root", text="fine"))
    bad = conversation(node("u", "root", content="x"), node("v", "u", content=["y"]))
    bad["mapping"]["w"] = 7
    data = [good, bad, {"id": "c3", "current_node": ""}, {**good, "mapping": {}}, "odd", None, good]
    made = read_all(chat_chatgpt, {"conversations.json": to_json(data)}, True)
    shown = [
        (item.reason.value, item.key)
        if isinstance(item, Refused)
        else (item[0].key, [getattr(turn, "text", None) or turn.reason for turn in item[1]])
        for item in made
    ]
    broken = [RejectReason.MALFORMED] * 3
    assert shown == [
        ("c1", ["fine"]),
        ("c1#2", broken),
        ("malformed", "c3"),
        ("empty", "c1#3"),
        ("malformed", "conversations.json:1"),
        ("malformed", "conversations.json:1"),
        ("c1#4", ["fine"]),
    ]


def test_a_message_nested_without_end_costs_itself() -> None:
    for depth in (300, 900, 5000):
        deep = '{"a":' * depth + "1" + "}" * depth
        good = json.dumps(conversation(node("u", "root", text="fine"), node("v", "u", text="PART")))
        data = good.replace('"PART"', deep).encode()
        made = read_all(chat_chatgpt, {"c.json": b"[" + data + b"," + good.encode() + b"]"})
        assert made[-1][1][0].text == "fine"


def test_shards_are_one_export_and_a_damaged_one_does_not_lose_the_next() -> None:
    first = to_json([conversation(node("u", "root", text="one"), conversation_id="a")])
    second = to_json([conversation(node("u", "root", text="two"), conversation_id="b")])
    files = {
        "conversations-000.json": first,
        "conversations-001.json": second,
        "user.json": b'{"id": 1}',
    }
    made = read_all(chat_chatgpt, files, True)
    assert [item[0].key for item in made] == ["a", "b"]
    files["conversations-000.json"] = first[:-1]
    assert [item[0].key for item in read_all(chat_chatgpt, files, True)] == ["a", "b"]
    files["conversations-000.json"] = b"\x00\x01\x02\x03" * 99
    names = ["conversations-000.json", "conversations-001.json"]
    made = list(chat_chatgpt.read(MemoryExport(files), names, UTC))
    assert (made[0].reason, made[1].key) == (RejectReason.BINARY, "b")


def test_the_kinds_of_content() -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    sound = {"content_type": "audio_transcription", "text": "spoken words"}
    made = told(
        node("0", "root", content={"content_type": "user_editable_context", "user_profile": "me"}),
        node("1", "0", content={"content_type": "multimodal_text", "parts": [image, "look", sound, None]},
             metadata={"attachments": [{"name": "a.png", "mime_type": "image/png"}, {"name": "b.pdf"}]}),
        node("2", "1", "assistant", content={"content_type": "thoughts", "thoughts": [{"summary": "Plan", "content": "think"}]}),
        node("3", "2", "assistant", content={"content_type": "code", "language": "python", "text": "1+1"}, recipient="python"),
        node("4", "3", "tool", content={"content_type": "execution_output", "text": "2"}, author={"name": "python"}),
        node("5", "4", "tool", content={"content_type": "tether_quote", "url": "http://x", "title": "T", "text": "quoted"}),
        node("6", "5", "tool", content={"content_type": "tether_browsing_display", "result": "page", "summary": None}),
        node("7", "6", "assistant", content={"content_type": "novelty", "blob": {"a": 1}}),
        node("8", "7", "assistant", content={"content_type": "text", "parts": [""]}),
        node("9", "8", "assistant", content=None),
    )  # fmt: skip
    assert made == [
        ("User", "[image]\n\nlook\n\nspoken words\n\n[file: b.pdf]"),
        ("ChatGPT", "[thinking]\n\nPlan\nthink"),
        ("ChatGPT", "1+1"),
        ("python", "2"),
        ("Tool", "T\n\nhttp://x\n\nquoted"),
        ("Tool", "page"),
        ("ChatGPT", "[novelty]"),
    ]


def test_roles_follow_who_is_spoken_to() -> None:
    made = turns(
        conversation(
            node("1", "root", "system", "Be brief."),
            node("2", "1", "assistant", "search(x)", recipient="browser"),
            node("3", "2", "tool", "found"),
            node("4", "3", "assistant", "it is x", recipient="all"),
        )
    )
    assert [turn.role for turn in made] == ["system", "tool", "tool", "assistant"]


def test_citation_marks_are_taken_out_and_names_and_links_stay() -> None:
    text = (
        "Paris\ue200cite\ue202turn0search1\ue202turn0search2\ue201 is "
        '\ue200entity\ue202["city","Lyon","France"]\ue201 not \ue200url\ue202Site\ue202https://x.y\ue201.'
        " \ue203shown\ue204\ue206 【4:0†source】 【note】"
    )
    assert told(node("a", "root", "assistant", text)) == [
        ("ChatGPT", "Paris is Lyon not Site (https://x.y). shown 【note】")
    ]
    assert told(node("u", "root", text="keep 【1†x】")) == [("User", "keep 【1†x】")]


def test_claims_by_contents_alone() -> None:
    ours = to_json([conversation(node("u", "root", text="é" * 90_000))])
    files = {
        "renamed.txt": ours,
        "claude.json": to_json([{"uuid": "1", "chat_messages": []}]),
        "messages.json": to_json([{"messages": [{"role": "user", "content": "x"}]}]),
        "mapping.json": to_json([{"mapping": {"a": "b"}}]),
        "empty.json": b"[]",
        "nothing.json": b"",
        "noise.bin": bytes(range(256)) * 9,
        "bom.json": b"\xef\xbb\xbf" + to_json([conversation(node("u", "root", text="x"))]),
    }
    export = MemoryExport(files)
    assert list(chat_chatgpt.claims(export, export.names)) == ["bom.json", "renamed.txt"]


def test_a_conversation_without_id_keeps_its_key_as_it_grows() -> None:
    raw = conversation(node("u", "root", text="x"))
    del raw["conversation_id"]
    longer = conversation(node("u", "root", text="x"), node("a", "u", "assistant", "y"))
    del longer["conversation_id"]
    keys = [read_all(chat_chatgpt, {"c.json": to_json([item])})[0][0].key for item in (raw, longer)]
    assert keys[0] == keys[1]


VALID = [
    conversation(
        node("u", "root", text="why?", time=1700000000.5),
        node("old", "u", "assistant", "old"),
        node(
            "new",
            "u",
            "assistant",
            content={
                "content_type": "multimodal_text",
                "parts": ["x", {"content_type": "image_asset_pointer"}],
            },
        ),
        node(
            "t",
            "new",
            "tool",
            content={"content_type": "thoughts", "thoughts": [{"content": "z"}]},
            metadata={"attachments": [{"name": "f"}]},
        ),
    )
] * 2  # fmt: skip


@given(mangled(VALID), st.integers(0, 3000))
def test_damage_never_raises(value: Any, cut: int) -> None:
    raw = json.dumps(value).encode()
    for data in (raw, raw[:cut]):
        read_all(chat_chatgpt, {"conversations.json": data}, claim=True)
        read_all(chat_chatgpt, {"conversations.json": data})
