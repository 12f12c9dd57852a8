"""DiscordChatExporter's JSON."""

import datetime as dt
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_discord
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

FIRST = 1_100_000_000_000_000_001  # beyond what a float holds


def message(number: int = 0, content: Any = "hi", **more: Any) -> dict[str, Any]:
    return {
        "id": str(FIRST + number),
        "type": "Default",
        "timestamp": "2023-04-24T15:48:11.123+02:00",
        "timestampEdited": None,
        "content": content,
        "author": {"id": "1", "name": "ann", "nickname": "Ann"},
        **more,
    }


def channel(*messages: Any, **more: Any) -> bytes:
    return json.dumps(
        {
            "guild": {"id": "5", "name": "Club"},
            "channel": {"id": "9", "type": "GuildTextChat", "category": "Talk", "name": "tea"},
            "exportedAt": "2023-05-01T00:00:00+00:00",
            **more,
            "messages": messages,
            "messageCount": len(messages),
        },
        indent=1,
    ).encode()


def read(files: dict[str, bytes]) -> list[tuple[Conversation, list[Turn | Refused]]]:
    export = MemoryExport(files)
    names = chat_discord.claims(export, export.names)
    assert list(names) == list(export.names)
    made = []
    for item in chat_discord.read(export, names, dt.UTC):
        assert not isinstance(item, Refused)
        made.append((item, list(item.turns)))
    return made


def one(*args: Any, **more: Any) -> Turn:
    ((_, (turn,)),) = read({"a.json": channel(message(*args, **more))})
    assert isinstance(turn, Turn)
    return turn


def texts(files: dict[str, bytes]) -> list[str]:
    ((_, turns),) = read(files)
    return [turn.text if isinstance(turn, Turn) else turn.reason.value for turn in turns]


def test_a_channel() -> None:
    ((conversation, (turn,)),) = read({"a.json": channel(message())})
    assert (conversation.key, conversation.title) == ("9", "tea")
    assert conversation.metadata == {"guild": "Club", "category": "Talk"}
    assert isinstance(turn, Turn)
    assert (turn.id, turn.speaker, turn.role) == (str(FIRST), "Ann", "person")


def test_parts_and_double_exports_give_each_message_once_in_order() -> None:
    files = {
        "tea [part 10].json": channel(message(3, "four")),
        "tea [part 2].json": channel(message(2, "three")),
        "tea.json": channel(message(0, "one"), message(1, "two")),
        "tea (2).json": channel(
            message(1, "two, edited"), message(4, "five"), exportedAt="2023-06-01T00:00:00+00:00"
        ),
    }
    assert texts(files) == ["one", "two, edited", "three", "four", "five"]


def test_times_of_any_precision_and_from_the_id() -> None:
    for fraction in ("", ".1", ".12345", ".1234567"):
        at = one(timestamp=f"2023-04-24T15:48:11{fraction}+02:00").at
        assert at is not None
        assert at.replace(microsecond=0) == dt.datetime(2023, 4, 24, 13, 48, 11, tzinfo=dt.UTC)
    for odd in (None, "never", 7):
        at = one(timestamp=odd).at
        assert at is not None
        assert f"{at:%Y-%m-%d}" == "2023-04-24"


def test_embeds_attachments_and_stickers_are_text() -> None:
    embed = {
        "title": "News",
        "url": "http://x.org",
        "timestamp": "+45000-01-01",
        "description": "long",
        "fields": [{"name": "by", "value": "me"}],
    }
    assert one(0, "", embeds=[embed]).text == "News (http://x.org)\nlong\nby: me"
    files = [{"id": "1", "url": "http://x/b.png", "fileName": "a.png"}, {"url": "http://x/b.png"}]
    assert one(0, "see", attachments=files).text == "see\n[file: a.png]\n[file: b.png]"
    assert one(0, "", stickers=[{"name": "wave"}]).text == "[sticker: wave]"
    assert one(0, "", forwardedMessage={"content": "old"}).text == "[forwarded]\nold"


def test_mentions_replies_edits_and_kinds() -> None:
    turn = one(
        0,
        "<@7> <@!8> <:tea:123>",
        mentions=[{"id": "7", "name": "bob", "nickname": "Bob"}],
        type="Reply",
        reference={"messageId": "77"},
        timestampEdited="2023-04-25T00:00:00+00:00",
    )
    assert (turn.text, turn.reply_to, turn.edited) == ("@Bob @8 :tea:", "77", True)
    assert one(0, "joined", type="GuildMemberJoin").role == "system"


def test_deleted_authors() -> None:
    assert one(author={"id": "4"}).speaker == "deleted:4"
    assert one(author=None).speaker == "deleted"


def test_one_bad_message_does_not_lose_the_others() -> None:
    sound = {"a.json": channel(message(0), 5, {}, message(1, ""), message(2, "end"))}
    assert texts(sound) == ["hi", "malformed", "malformed", "end"]
    cut = channel(message(0), message(1, "lost"))
    assert texts({"a.json": cut[:-150], "b.json": channel(message(2, "end"))}) == [
        "hi",
        "malformed",
        "end",
    ]


def test_messages_without_ids_are_all_there() -> None:
    files = {"a.json": channel(message(id=None), message(id=None), message(id="x"))}
    assert texts(files) == ["hi"] * 3


def test_a_channel_without_messages_is_empty() -> None:
    ((_, (refused,)),) = read({"a.json": channel()})
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    export = MemoryExport(
        {
            "a.json": b'{"messages": [{"id": "1", "content": "x"}]}',
            "b.json": b'{"name": "x", "type": "personal_chat", "id": 1, "messages": []}',
            "c.json": b'[{"channel": {"id": 1, "type": 2}, "guild": {}}]',
            "d.txt": channel(message()),
        }
    )
    assert not chat_discord.claims(export, export.names)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
NAMES = [*message(), "embeds", "attachments", "mentions", "reference", "forwardedMessage"]


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.integers(0, 500))
def test_values_of_any_type_never_raise(odd: dict[str, Any], cut: int) -> None:
    raw = channel({**message(), **odd}, message(1), odd, exportedAt=odd.get("id"))
    export = MemoryExport({"a.json": raw[: len(raw) - cut], "b.json": raw})
    for item in chat_discord.read(export, export.names, dt.UTC):
        if isinstance(item, Conversation):
            for turn in item.turns:
                assert isinstance(turn, Turn | Refused)
