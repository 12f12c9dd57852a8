"""Telegram Desktop exports."""

import datetime as dt
import json
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_telegram
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

BERLIN = ZoneInfo("Europe/Berlin")


def message(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "type": "message",
        "date": "2020-01-29T11:41:46",
        "date_unixtime": "1580294506",
        "from": "Ann",
        "from_id": "user1",
        "text": "hi",
        **more,
    }


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"name": "Tea", "type": "private_group", "id": 42, **more, "messages": list(messages)}


def read(value: Any, zone: dt.tzinfo = dt.UTC) -> list[tuple[Conversation, list[Turn | Refused]]]:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    export = MemoryExport({"result.json": raw})
    names = chat_telegram.claims(export, export.names)
    assert list(names) == ["result.json"]
    made = []
    for item in chat_telegram.read(export, names, zone):
        assert not isinstance(item, Refused), item.detail
        made.append((item, list(item.turns)))
    return made


def one(**more: Any) -> Turn:
    ((_, (turn,)),) = read(chat(message(**more)), BERLIN)
    assert isinstance(turn, Turn)
    return turn


def test_a_single_chat_is_accepted() -> None:
    ((conversation, (turn,)),) = read(chat(message(7)))
    assert (conversation.key, conversation.title) == ("42", "Tea")
    assert isinstance(turn, Turn)
    assert (turn.id, turn.speaker, turn.text) == ("7", "Ann", "hi")
    assert turn.at == dt.datetime(2020, 1, 29, 10, 41, 46, tzinfo=dt.UTC)


def test_a_whole_account_even_if_not_all_of_a_chat_is_read() -> None:
    account = {
        "about": "Here is the data you requested.",
        "contacts": {"about": "", "list": [{"first_name": "x"}]},
        "chats": {"about": "", "list": [chat(message(1), message(2)), chat(message(), id=-7), 5]},
        "left_chats": {"list": [chat(message(), name=None, type="personal_chat")]},
    }
    export = MemoryExport({"result.json": json.dumps(account).encode()})
    made = []
    for item in chat_telegram.read(export, export.names, dt.UTC):
        if isinstance(item, Refused):
            made.append((item.reason.value, ""))
        else:
            made.append((item.key, item.title))
            next(iter(item.turns))
    assert made == [("42", "Tea"), ("-7", "Tea"), ("malformed", ""), ("42#2", "Personal chat")]


def test_an_account_whose_contacts_fill_the_head_is_claimed() -> None:
    contacts = [{"first_name": "x" * 100, "user_id": n} for n in range(1000)]
    account = {
        "about": "Here",
        "contacts": {"list": contacts},
        "chats": {"list": [chat(message())]},
    }
    assert len(read(account)) == 1


def test_text_in_parts_and_deleted_accounts() -> None:
    turn = one(text=["a ", {"type": "bold", "text": "b"}], **{"from": None})
    assert (turn.text, turn.speaker) == ("a b", "deleted:user1")
    link = {"type": "text_link", "text": "here", "href": "http://x.org"}
    assert one(text=["see ", link, {"type": "link", "text": "http://y.org"}]).text == (
        "see here (http://x.org)http://y.org"
    )
    assert one(**{"from": None, "from_id": 99}).speaker == "deleted:99"


def test_times() -> None:
    at = dt.datetime(2020, 1, 29, 10, 41, 46, tzinfo=dt.UTC)
    assert one(date_unixtime=None).at == at
    assert one(date_unixtime=None, date="2020-99-29").at is None
    assert not one(edited="1970-01-01T01:00:00").edited
    assert one(edited="2020-01-30T01:00:00").edited
    assert not one().edited


def test_media_replies_and_forwards() -> None:
    missing = "(File not included. Change data exporting settings to download.)"
    assert one(text="", photo=missing).text == "[photo]"
    assert one(text="", file=missing).text == "[file]"
    assert one(text="", file="files/a.pdf").text == "[file: a.pdf]"
    assert one(text="", file=missing, media_type="voice_message").text == "[voice message]"
    assert one(text="", media_type="sticker", sticker_emoji="🙂").text == "[sticker: 🙂]"
    poll = {"question": "Tea?", "answers": [{"text": "yes"}, {"text": "no"}]}
    assert one(text="", poll=poll).text == "[poll] Tea?\n- yes\n- no"
    assert one(forwarded_from="Bob").text == "[forwarded from Bob]\nhi"
    assert one(reply_to_message_id=3).reply_to == "3"


def test_service_messages_are_system_turns() -> None:
    turn = one(type="service", actor="Ann", action="invite_members", members=["Bob", None], text="")
    assert (turn.role, turn.speaker, turn.text) == ("system", "Ann", "Ann invite members: Bob")


def test_one_bad_message_does_not_lose_the_others() -> None:
    ((_, turns),) = read(chat(message(1), 5, {}, message(2)))
    assert [isinstance(turn, Turn) for turn in turns] == [True, False, False, True]
    raw = json.dumps(chat(message(1), message(2))).encode()
    ((_, cut),) = read(raw[:-40])
    assert [isinstance(turn, Turn) for turn in cut] == [True, False]


def test_messages_without_ids_are_told_apart() -> None:
    ((_, turns),) = read(chat(message(id=None), message(id=None)))
    assert len({turn.id for turn in turns if isinstance(turn, Turn)}) == 2


def test_a_chat_without_messages_is_empty() -> None:
    ((_, (refused,)),) = read(chat())
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    others = [
        [message()],
        {"messages": [{"role": "user", "content": "x"}]},
        {"guild": {"id": "1"}, "channel": {"id": "2", "type": "GuildTextChat"}, "messages": []},
        {"zerver_message": []},
        7,
    ]
    export = MemoryExport({f"{n}.json": json.dumps(o).encode() for n, o in enumerate(others)})
    assert not chat_telegram.claims(export, export.names)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
NAMES = [*message(), "edited", "file", "photo", "poll", "members", "contact_information", "type"]


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), st.integers(0, 400))
def test_values_of_any_type_never_raise(odd: dict[str, Any], cut: int) -> None:
    raw = json.dumps({"chats": {"list": [chat({**message(), **odd}, message()), odd]}}).encode()
    export = MemoryExport({"result.json": raw[: len(raw) - cut]})
    for item in chat_telegram.read(export, export.names, dt.UTC):
        if isinstance(item, Conversation):
            for turn in item.turns:
                assert isinstance(turn, Turn | Refused)
