"""Zulip exports."""

import datetime as dt
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_zulip
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

REALM = {
    "zerver_userprofile": [
        {"id": 1, "full_name": "Ann", "email": "a@x.org"},
        {"id": 2, "full_name": "Bob", "email": "b@x.org"},
    ],
    "zerver_userprofile_crossrealm": [
        {"id": 9, "email": "notification-bot@zulip.com", "full_name": "Notification Bot"}
    ],
    "zerver_stream": [{"id": 5, "name": "tea"}],
    "zerver_recipient": [
        {"id": 50, "type": 2, "type_id": 5},
        {"id": 51, "type": 1, "type_id": 1},
        {"id": 52, "type": 1, "type_id": 2},
        {"id": 53, "type": 3, "type_id": 1},
    ],
    "zerver_subscription": [
        {"user_profile": 1, "recipient": 53},
        {"user_profile": 2, "recipient": 53},
        {"user_profile": 3, "recipient": 53},
    ],
    "zerver_realm": [{"id": 1}],
}


def message(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "sender": 1,
        "recipient": 50,
        "subject": "Pots",
        "content": "hi",
        "date_sent": 1700000000.25,
        "last_edit_time": None,
        **more,
    }


def files(*parts: list[Any]) -> dict[str, bytes]:
    made = {"export/realm.json": json.dumps(REALM).encode()}
    for number, part in enumerate(parts, 1):
        value = {"zerver_message": part, "zerver_usermessage": [{"id": 1}]}
        made[f"export/messages-{number:06}.json"] = json.dumps(value).encode()
    return made


def read(made: dict[str, bytes]) -> dict[str, tuple[Conversation, list[Turn | Refused]]]:
    export = MemoryExport(made)
    names = chat_zulip.claims(export, export.names)
    assert list(names) == list(export.names)
    found: dict[str, tuple[Conversation, list[Turn | Refused]]] = {}
    for item in chat_zulip.read(export, names, dt.UTC):
        if isinstance(item, Refused):
            found[f"refused {len(found)}"] = (Conversation("", ()), [item])
        else:
            found[item.key] = (item, list(item.turns))
    return found


def one(**more: Any) -> Turn:
    ((_, (turn,)),) = read(files([message(1, **more)])).values()
    assert isinstance(turn, Turn)
    return turn


def test_topics_are_conversations_through_all_files() -> None:
    made = read(
        files(
            [message(1), message(2, subject="Cups")],
            [message(3, subject="✔ Pots", content="done"), message(4, subject="")],
        )
    )
    assert list(made) == ["tea/Pots", "tea/Cups", "tea/(no topic)"]
    conversation, turns = made["tea/Pots"]
    assert (conversation.thread, conversation.title) == ("tea", "Pots")
    assert [turn.text for turn in turns if isinstance(turn, Turn)] == ["hi", "done"]
    assert list(read(files([message(1, subject="✔ Pots")]))) == ["tea/Pots"]


def test_private_messages_by_participants() -> None:
    made = read(
        files(
            [
                message(1, recipient=52),
                message(2, sender=2, recipient=51, content="back"),
                message(3, recipient=53),
            ]
        )
    )
    assert list(made) == ["private/1,2", "private/1,2,3"]
    assert made["private/1,2"][0].title == "Ann, Bob"
    assert [t.speaker for t in made["private/1,2"][1] if isinstance(t, Turn)] == ["Ann", "Bob"]


def test_a_message() -> None:
    turn = one(content="@**Bob|2** @_**Ann** @*all* #**tea>Cups** **bold**")
    assert turn.text == "@Bob @Ann @all #tea > Cups **bold**"
    assert turn.at == dt.datetime(2023, 11, 14, 22, 13, 20, 250000, tzinfo=dt.UTC)
    assert (turn.id, turn.speaker, turn.role) == ("1", "Ann", "person")
    assert one(sender=9).role == "system"
    assert one(sender=77).speaker == "77"
    assert one(content="(deleted)").deleted


def test_a_move_is_no_edit() -> None:
    moved = json.dumps([{"prev_topic": "Old"}])
    assert not one(last_edit_time=1.7e9, edit_history=moved).edited
    assert one(edit_history=json.dumps([{"prev_content": "ho"}])).edited
    assert one(last_edit_time=1.7e9).edited


def test_without_realm_json_ids_stand_for_names() -> None:
    made = files([message(1)])
    del made["export/realm.json"]
    assert list(read(made)) == ["50/Pots"]


def test_one_bad_message_or_file_does_not_lose_the_others() -> None:
    made = files([message(1), 5, {}, message(2)], [message(3)])
    made["export/messages-000002.json"] = made["export/messages-000002.json"][:-70]
    reasons = [turns[0] for key, (_, turns) in read(made).items() if key.startswith("refused")]
    assert all(isinstance(item, Refused) for item in reasons)
    assert len(reasons) == 3
    assert len(read(made)["tea/Pots"][1]) == 2


def test_an_export_without_messages_is_empty() -> None:
    ((_, (refused,)),) = read(files([])).values()
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    export = MemoryExport(
        {"a.json": b'{"messages": ["zerver_message"]}', "b.json": b'[{"zerver_message": 1}]'}
    )
    assert not chat_zulip.claims(export, export.names)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from([*message(1), "edit_history"]), VALUES), st.integers(0, 500))
def test_values_of_any_type_never_raise(odd: dict[str, Any], cut: int) -> None:
    made = files([{**message(1), **odd}, message(2), odd])
    realm = {table: [odd, *rows] for table, rows in REALM.items()}
    raw = json.dumps(realm).encode()
    made["export/realm.json"] = raw[: len(raw) - cut]
    export = MemoryExport(made)
    for item in chat_zulip.read(export, export.names, dt.UTC):
        if isinstance(item, Conversation):
            for turn in item.turns:
                assert isinstance(turn, Turn | Refused)
