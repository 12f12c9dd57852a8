"""Zulip's export: `realm.json` (people, streams, recipients) and `messages-000001.json` and on.

A topic is a conversation, `<stream>/<topic>`; private messages are one by their participants. The mark
of a resolved topic is no part of its key, so that resolving does not move it.
https://zulip.com/help/export-your-organization, zerver/lib/export.py
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds, read_rest, sniffed_text
from stillroom.transforms.chat_spool import Spool
from stillroom.transforms.chat_values import (
    MAX_RECORD_CHARS,
    Record,
    UniqueKeys,
    dict_of,
    malformed,
    parse_record,
    peek,
    text_of,
    time_of,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.json_items import JsonReader
from stillroom.transforms.parsed import Refused

_PERSONAL, _STREAM = "1", "2"
_RESOLVED = re.compile(r"^(?:✔\s*)+")
_MENTION = re.compile(r"@_?\*\*([^*|\n]+)(?:\|\d+)?\*\*|@_?\*([^*\n]+)\*")
_STREAM_LINK = re.compile(r"#\*\*([^*>\n]+)(?:>([^*\n]+?))?(?:@\d+)?\*\*")


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """JSON objects of Zulip's database tables, whose names begin with `zerver_`."""
    return [
        name
        for name in names
        if name.lower().endswith(".json")
        and b'"zerver_' in export.head(name)
        and any(str(key).startswith("zerver_") for key in dict_of(peek(export.head(name))))
    ]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """Topics and private conversations in the order of their first messages."""
    realm = _Realm()
    with Spool() as spool:
        for name in sorted(names):  # messages-... before realm.json: they wait in the spool
            try:
                for table, row in _rows(export, name):
                    if isinstance(row, Refused):
                        yield row
                    elif table == "zerver_message":
                        spool.add(text_of(row.get("recipient")), row)
                    else:
                        realm.add(table, row)
            except Refused as refused:  # the other files are sound
                yield Refused(refused.reason, refused.detail, name)
        with Spool() as topics:
            for recipient in spool.groups():
                for message in spool.records(recipient):
                    topics.add(realm.group(recipient, message), message)
            yield from _conversations(topics, realm, zone)


def _conversations(
    topics: Spool, realm: "_Realm", zone: tzinfo
) -> Iterator[Conversation | Refused]:
    unique = UniqueKeys()  # a topic may be called `(no topic)`
    for group in topics.groups():
        first = next(topics.records(group))
        key, thread, title = realm.names(first)
        yield Conversation(unique(key), _turns(topics, group, realm, zone), title, thread)
    if not topics.groups():
        yield Refused(RejectReason.EMPTY, "a Zulip export without messages")


def _rows(export: Export, name: str) -> Iterator[tuple[str, Record | Refused]]:
    with export.open(name) as stream:
        text = sniffed_text(stream)
        reader = JsonReader(text)
        for table in reader.members():
            if table not in (*_Realm.TABLES, "zerver_message"):
                continue
            for line in reader.items():
                key = f"{name}:{line}"
                item = reader.text(MAX_RECORD_CHARS)
                if item is None:
                    yield table, Refused(RejectReason.TOO_LARGE, f"line {line}", key)
                    continue
                row = parse_record(item, key)
                yield table, _checked(row, key) if table == "zerver_message" else row
        read_rest(text)


def _checked(row: Record | Refused, key: str) -> Record | Refused:
    if isinstance(row, Refused) or row.keys() & {"content", "rendered_content"}:
        return row
    return malformed("the message", sorted(row)[:9], "one of Zulip's", key)


@dataclass(slots=True)
class _Realm:
    """Names by ids. Ids are text: private groups have them as keys."""

    TABLES = (
        "zerver_userprofile",
        "zerver_userprofile_mirrordummy",
        "zerver_userprofile_crossrealm",
        "zerver_stream",
        "zerver_recipient",
        "zerver_subscription",
    )
    users: dict[str, str] = field(default_factory=dict)
    system: set[str] = field(default_factory=set)
    streams: dict[str, str] = field(default_factory=dict)
    recipients: dict[str, tuple[str, str]] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, table: str, row: Record) -> None:
        identifier = text_of(row.get("id"))
        if table.startswith("zerver_userprofile"):
            email = text_of(row.get("email")) or text_of(row.get("delivery_email"))
            self.users[identifier] = text_of(row.get("full_name")) or email
            if email.startswith("notification-bot@"):
                self.system.add(identifier)
        elif table == "zerver_stream":
            self.streams[identifier] = text_of(row.get("name"))
        elif table == "zerver_recipient":
            self.recipients[identifier] = (text_of(row.get("type")), text_of(row.get("type_id")))
        else:
            person = text_of(row.get("user_profile"))
            self.members[text_of(row.get("recipient"))].add(person)

    def user(self, identifier: str) -> str:
        return self.users.get(identifier) or identifier or "unknown"

    def group(self, recipient: str, message: Record) -> str:
        """What holds a conversation together, whatever is renamed: Zulip's topics have no case."""
        kind, _ = self.recipients.get(recipient, (_STREAM, ""))
        if kind == _STREAM:
            return json.dumps([recipient, _topic(message).casefold()])
        return json.dumps(self._people(recipient, message))

    def names(self, message: Record) -> tuple[str, str, str]:
        """Key, thread and title of the conversation that a message begins."""
        recipient = text_of(message.get("recipient"))
        kind, target = self.recipients.get(recipient, (_STREAM, ""))
        if kind == _STREAM:
            stream = self.streams.get(target) or target or recipient
            topic = _topic(message) or "(no topic)"
            return f"{stream}/{topic}", stream, topic
        people = self._people(recipient, message)
        return f"private/{','.join(people)}", "", ", ".join(map(self.user, people))

    def _people(self, recipient: str, message: Record) -> list[str]:
        kind, target = self.recipients.get(recipient, ("", ""))
        people = {text_of(message.get("sender"))}
        # A personal message goes from one to one; of groups the subscriptions say who is in them.
        people |= {target} if kind == _PERSONAL else self.members.get(recipient, set())
        return sorted(people, key=lambda person: (len(person), person))


def _topic(message: Record) -> str:
    return _RESOLVED.sub("", text_of(message.get("subject")).strip())


def _turns(topics: Spool, group: str, realm: _Realm, zone: tzinfo) -> Iterator[Turn]:
    ids = ContentIds()
    for message in topics.records(group):
        text = _readable(text_of(message.get("content"))).strip()
        if not text:
            continue
        sender = text_of(message.get("sender"))
        written = text_of(message.get("date_sent"))
        yield Turn(
            text_of(message.get("id")) or ids(written, sender, text),
            realm.user(sender),
            text,
            "system" if sender in realm.system else "person",
            time_of(message.get("date_sent"), zone),
            edited=_edited(message),
            deleted=text == "(deleted)",
        )


def _edited(message: Record) -> bool:
    """Moving to another topic is in the history too: only another content is an edit."""
    history: Any = message.get("edit_history")
    if isinstance(history, str):
        return '"prev_content"' in history
    return bool(message.get("last_edit_time"))


def _readable(text: str) -> str:
    text = _MENTION.sub(lambda found: "@" + (found[1] or found[2]), text)
    return _STREAM_LINK.sub(
        lambda found: f"#{found[1]}" + (f" > {found[2]}" if found[2] else ""), text
    )
