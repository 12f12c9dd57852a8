"""Slack workspace exports."""

import datetime as dt
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_slack
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

USERS = [
    {"id": "U1", "name": "ann", "profile": {"display_name": "Ann", "real_name": "Ann A"}},
    {"id": "U2", "name": "bob", "profile": {"display_name": "", "real_name": "Bob B"}},
]
CHANNELS = [{"id": "C1", "name": "general"}]


def message(ts: str, text: Any = "hi", user: Any = "U1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "ts": ts, "text": text, "user": user, **more}


def files(days: dict[str, Any], root: str = "") -> dict[str, bytes]:
    every = {"users.json": USERS, "channels.json": CHANNELS, **days}
    return {root + name: json.dumps(value).encode() for name, value in every.items()}


def read(made: dict[str, bytes]) -> dict[str, tuple[Conversation, list[Turn | Refused]]]:
    export = MemoryExport(made)
    names = chat_slack.claims(export, export.names)
    assert set(names) == set(export.names)
    found = {}
    for item in chat_slack.read(export, names, dt.UTC):
        assert not isinstance(item, Refused), item.detail
        found[item.key] = (item, list(item.turns))
    return found


def texts(made: dict[str, bytes]) -> dict[str, list[str]]:
    return {
        key: [turn.text if isinstance(turn, Turn) else turn.reason.value for turn in turns]
        for key, (_, turns) in read(made).items()
    }


def one(record: dict[str, Any]) -> Turn:
    ((_, (turn,)),) = read(files({"general/2023-11-14.json": [record]})).values()
    assert isinstance(turn, Turn)
    return turn


def test_channels_and_people_have_names_and_ts_is_kept() -> None:
    turn = one(message("1700000000.000200", user="U2"))
    assert (turn.id, turn.speaker) == ("1700000000.000200", "Bob B")
    assert turn.at == dt.datetime(2023, 11, 14, 22, 13, 20, 200, tzinfo=dt.UTC)


def test_a_thread_is_a_conversation_with_its_late_replies_once() -> None:
    made = files(
        {
            "general/2023-11-14.json": [
                message("1700000000.000100", "ask", thread_ts="1700000000.000100"),
                message("1700000001.000100", "other"),
            ],
            "general/2023-11-15.json": [
                message("1700090000.000300", "late", thread_ts="1700000000.000100"),
                message("1700090000.000200", "both", thread_ts="1700000000.000100"),
                message("1700090000.000200", "both", thread_ts="1700000000.000100",
                        subtype="thread_broadcast"),
                message("1700090001.000100", "orphan", thread_ts="1600000000.000100"),
            ],
        }
    )  # fmt: skip
    assert texts(made) == {
        "general": ["other"],
        "general/1700000000.000100": ["ask", "both", "late"],
        "general/1600000000.000100": ["orphan"],
    }
    thread, turns = read(made)["general/1700000000.000100"]
    assert thread.thread == "general"
    assert [turn.reply_to for turn in turns if isinstance(turn, Turn)][1:] == [
        "1700000000.000100"
    ] * 2


def test_people_who_are_not_listed_keep_their_ids() -> None:
    assert one(message("1700000000.000100", user="U404")).speaker == "U404"
    assert one(message("1700000000.000100", user="USLACKBOT")).speaker == "Slackbot"
    guest = message("1700000000.000100", user="U9", user_profile={"real_name": "Guest"})
    assert one(guest).speaker == "Guest"
    bot = {"type": "message", "ts": "1700000000.000100", "text": "x", "subtype": "bot_message"}
    assert one({**bot, "username": "CI"}).speaker == "CI"
    assert one({**bot, "bot_id": "B1"}).speaker == "B1"
    assert one(bot).speaker == "unknown"


def test_markup_is_read_as_people_do() -> None:
    written = (
        "<@U1> <@U404> <#C1|general> <#C1> <!here> <!subteam^S1|@team> "
        "<http://x.org|label> <http://y.org> <mailto:a@b.c|a@b.c> 1 &lt; 2 &amp;amp;"
    )
    assert one(message("1700000000.000100", written)).text == (
        "@Ann @U404 #general #general @here @team "
        "label (http://x.org) http://y.org mailto:a@b.c 1 < 2 &amp;"
    )


def test_blocks_attachments_and_files_are_text() -> None:
    rich = {
        "type": "rich_text",
        "elements": [
            {
                "type": "rich_text_section",
                "elements": [
                    {"type": "text", "text": "see "},
                    {"type": "user", "user_id": "U1"},
                    {"type": "link", "url": "http://x.org", "text": "here"},
                ],
            }
        ],
    }
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "a &lt; b"}}
    turn = one(message("1700000000.000100", "", blocks=[section, rich]))
    assert turn.text == "a < b\nsee @Annhere (http://x.org)"
    attachment = {"title": "Build", "text": "failed", "fields": [{"title": "by", "value": "me"}]}
    assert one(message("1700000000.000100", None, attachments=[attachment])).text == (
        "Build\nfailed\nby: me"
    )
    shared = one(message("1700000000.000100", "look", files=[{"name": "a.pdf"}, {"id": "F1"}]))
    assert shared.text == "look\n[file: a.pdf]\n[file: F1]"


def test_subtypes() -> None:
    join = one(message("1700000000.000100", "<@U1> has joined", subtype="channel_join"))
    assert (join.role, join.text) == ("system", "@Ann has joined")
    gone = one(message("1700000000.000100", "This message was deleted.", subtype="tombstone"))
    assert (gone.role, gone.deleted) == ("system", True)
    assert one(message("1700000000.000100", edited={"user": "U1", "ts": "1.0"})).edited


def test_direct_messages_are_titled_by_their_people() -> None:
    made = files(
        {
            "dms.json": [{"id": "D1", "members": ["U1", "U2"]}],
            "D1/2023-11-14.json": [message("1700000000.000100")],
        }
    )
    assert read(made)["D1"][0].title == "Ann, Bob B"


def test_an_enclosing_folder_and_a_part_of_an_export() -> None:
    day = {"general/2023-11-14.json": [message("1700000000.000100")], "general/2023-11-15.json": []}
    assert texts(files(day, "export/"))["general"] == ["hi"]
    part = {"general/2023-11-14.json": json.dumps([message("1700000000.000100")]).encode()}
    assert read(part)["general"][1][0].speaker == "U1"  # type: ignore[union-attr]


def test_one_bad_message_or_day_does_not_lose_the_others() -> None:
    made = files({"general/2023-11-14.json": [message("1700000000.000100"), 7, {}, message("x")]})
    made["general/2023-11-15.json"] = (
        json.dumps([message("1700090000.000100", "a"), message("1700090001.000100", "b")])[:-30]
    ).encode()
    assert texts(made)["general"] == ["hi", "malformed", "malformed", "hi", "a", "malformed"]


def test_messages_without_anything_are_left_out_and_equal_times_are_two() -> None:
    made = files(
        {"general/2023-11-14.json": [
            message("1700000000.000100", ""), message("1700000000.000200", "a"),
            message("1700000000.000300", "a")]}
    )  # fmt: skip
    assert texts(made)["general"] == ["a", "a"]


def test_an_export_without_messages_is_empty() -> None:
    export = MemoryExport(files({}))
    (refused,) = chat_slack.read(export, chat_slack.claims(export, export.names), dt.UTC)
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    export = MemoryExport(
        {
            "users.json": b'[{"uuid": "1", "full_name": "Ann"}]',
            "conversations.json": b'[{"uuid": "1", "chat_messages": []}]',
            "x/2023-11-14.json": b'[{"ts": 1700000000.1, "text": "x"}]',
            "y.json": b"[]",
        }
    )
    assert not chat_slack.claims(export, export.names)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
NAMES = [
    "ts",
    "text",
    "user",
    "thread_ts",
    "blocks",
    "attachments",
    "files",
    "subtype",
    "user_profile",
    "bot_profile",
]


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.integers(0, 400))
def test_values_of_any_type_never_raise(odd: dict[str, Any], cut: int) -> None:
    record = {**message("1700000000.000100"), **odd}
    raw = json.dumps([record, message("1700000001.000100")]).encode()
    companions = json.dumps([odd, {"id": "U1", "profile": odd}]).encode()
    made = {"users.json": companions, "c/2023-11-14.json": raw[: len(raw) - cut]}
    export = MemoryExport({**made, "dms.json": companions})
    for item in chat_slack.read(export, export.names, dt.UTC):
        if isinstance(item, Conversation):
            for turn in item.turns:
                assert isinstance(turn, Turn | Refused)
