"""Telegram Desktop's `result.json`: one chat, or the whole account (`chats.list`, `left_chats.list`).

`date` is the local time of the computer that exported; `date_unixtime`, where there is one, is not.
https://core.telegram.org/import-export, Telegram/SourceFiles/export/output/export_output_json.cpp
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds, read_rest, sniffed_text
from stillroom.transforms.chat_values import (
    MAX_RECORD_CHARS,
    Record,
    UniqueKeys,
    dict_of,
    list_of,
    malformed,
    parse_record,
    peek,
    read_files,
    text_of,
    time_of,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.json_items import JsonReader
from stillroom.transforms.parsed import Refused

_CHATS = frozenset(
    (
        "personal_chat", "bot_chat", "private_group", "private_supergroup", "public_supergroup",
        "private_channel", "public_channel", "saved_messages", "replies", "verification_codes",
    )
)  # fmt: skip
_ACCOUNT = ("personal_information", "contacts", "frequent_contacts", "sessions", "chats")
_DETAILS = ("title", "new_title", "topic", "game_title", "emoticon", "reason", "duration")


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """JSON objects that are a chat of a known type, or an account with its chats."""
    return [
        name
        for name in names
        if name.lower().endswith(".json") and _is_telegram(peek(export.head(name)))
    ]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation a chat, in the order of the file."""
    unique = UniqueKeys()

    def read_one(name: str) -> Iterator[Conversation | Refused]:
        with export.open(name) as stream:
            text = sniffed_text(stream)
            yield from _Reader(JsonReader(text), name, zone, unique).account()
            read_rest(text)

    yield from read_files(names, read_one)


def _is_telegram(value: Any) -> bool:
    record = dict_of(value)
    if text_of(record.get("type")) in _CHATS and "id" in record:
        return True
    chats = {"chats", "left_chats"} & record.keys()
    if any("list" in dict_of(record[part]) for part in chats):
        return True
    # A long list of contacts may come before the chats, and fill the head.
    return "about" in record and sum(isinstance(record.get(p), dict) for p in _ACCOUNT) >= 1


class _Reader:
    """Chats out of one file, each read as far as it is asked for."""

    def __init__(self, reader: JsonReader, name: str, zone: tzinfo, unique: UniqueKeys) -> None:
        self._reader, self._name, self._zone, self._unique = reader, name, zone, unique

    def account(self) -> Iterator[Conversation | Refused]:
        """The chats of an account, or the one chat that the file is."""
        header: Record = {}
        for name in self._reader.members():
            if name in ("chats", "left_chats"):
                for part in self._reader.members():
                    if part == "list":
                        yield from self._chats()
            else:
                yield from self._member(name, header)

    def _chats(self) -> Iterator[Conversation | Refused]:
        for line in self._reader.items():
            header: Record = {}
            found = False
            for name in self._reader.members():
                found = True
                yield from self._member(name, header)
            if not found:
                yield Refused(
                    RejectReason.MALFORMED, f"line {line}: not a chat", f"{self._name}:{line}"
                )

    def _member(self, name: str, header: Record) -> Iterator[Conversation]:
        if name == "messages" and self._reader.peek() == "[":
            turns = self._turns()
            key = text_of(header.get("id")) or text_of(header.get("name")) or self._name
            kind = text_of(header.get("type"))
            title = text_of(header.get("name")) or kind.replace("_", " ").capitalize()
            yield Conversation(self._unique(key), turns, title)
            for _ in turns:  # the next chat begins where this one ends
                pass
        elif name in ("id", "name", "type"):
            text = self._reader.text(MAX_RECORD_CHARS)
            made = parse_record(f'{{"value": {text}}}', "")
            header[name] = None if isinstance(made, Refused) else made.get("value")

    def _turns(self) -> Iterator[Turn | Refused]:
        ids = ContentIds()
        empty = True
        for line in self._reader.items():
            empty = False
            key = f"{self._name}:{line}"
            item = self._reader.text(MAX_RECORD_CHARS)
            if item is None:
                yield Refused(RejectReason.TOO_LARGE, f"line {line}: a message too long", key)
                continue
            message = parse_record(item, key)
            if isinstance(message, Refused):
                yield message
            else:
                yield from _turn(message, key, self._zone, ids)
        if empty:
            yield Refused(RejectReason.EMPTY, "a chat without messages", self._name)


def _turn(message: Record, key: str, zone: tzinfo, ids: ContentIds) -> Iterator[Turn | Refused]:
    if not message.keys() & {"id", "date", "text", "date_unixtime"}:
        yield malformed("the message", sorted(message)[:9], "one of Telegram's", key)
        return
    service = message.get("type") == "service"
    who = ("actor", "actor_id") if service else ("from", "from_id")
    speaker = _speaker(message, *who)
    text = _service(message, speaker) if service else _said(message)
    if not text:
        return
    written = text_of(message.get("date_unixtime")) or text_of(message.get("date"))
    yield Turn(
        text_of(message.get("id")) or ids(written, speaker, text),
        speaker,
        text,
        "system" if service else "person",
        time_of(message.get("date_unixtime"), zone) or time_of(message.get("date"), zone),
        edited=_edited(message, zone),
        reply_to=text_of(message.get("reply_to_message_id")),
    )


def _speaker(message: Record, name: str, identifier: str) -> str:
    """Accounts that were deleted have no name, but are still different people."""
    given = text_of(message.get(name))
    return given or f"deleted:{text_of(message.get(identifier))}".removesuffix(":")


def _edited(message: Record, zone: tzinfo) -> bool:
    """Old versions wrote the beginning of 1970 for `never`."""
    at: datetime | None = time_of(message.get("edited_unixtime"), zone)
    at = at or time_of(message.get("edited"), zone)
    return bool(at and at.year > 1970)


def _said(message: Record) -> str:
    parts = [_plain(message.get("text")) or _plain(message.get("text_entities")), *_media(message)]
    text = "\n".join(part for part in parts if part.strip()).strip()
    forwarded = text_of(message.get("forwarded_from"))
    return f"[forwarded from {forwarded}]\n{text}" if forwarded and text else text


def _plain(value: Any) -> str:
    """A text is a string, or a list of strings and formatted parts."""
    if not isinstance(value, list):
        return text_of(value)
    return "".join(_part(part) for part in value)


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return text_of(part)
    text, href = text_of(part.get("text")), text_of(part.get("href"))
    return f"{text} ({href})" if href and href not in text else text


def _media(message: Record) -> Iterator[str]:
    """What was sent besides text. Where files were not exported, their place holds a sentence in
    brackets."""
    kind = text_of(message.get("media_type")).replace("_", " ")
    if "photo" in message:
        yield "[photo]"
    elif "file" in message or kind:
        path = text_of(message.get("file"))
        name = text_of(message.get("file_name")) or (
            "" if path.startswith("(") else path.rpartition("/")[2]
        )
        emoji = text_of(message.get("sticker_emoji"))
        yield f"[{': '.join(filter(None, (kind or 'file', emoji or name)))}]"
    poll = dict_of(message.get("poll"))
    if poll:
        answers = [text_of(dict_of(answer).get("text")) for answer in list_of(poll.get("answers"))]
        yield "\n".join(
            [f"[poll] {_plain(poll.get('question'))}", *(f"- {a}" for a in answers if a)]
        )
    contact = dict_of(message.get("contact_information"))
    if contact:
        named = (contact.get("first_name"), contact.get("last_name"), contact.get("phone_number"))
        yield f"[contact: {' '.join(filter(None, map(text_of, named)))}]"
    place = dict_of(message.get("location_information"))
    if place:
        where = ", ".join(text_of(place.get(name)) for name in ("latitude", "longitude"))
        yield f"[location: {where}]"


def _service(message: Record, actor: str) -> str:
    """`Ann invite members: Bob`: an event in the format's own words."""
    action = text_of(message.get("action")).replace("_", " ")
    details = [text_of(message.get(name)) for name in _DETAILS]
    details += map(text_of, list_of(message.get("members")))
    details.append(_plain(message.get("text")))
    told = ", ".join(filter(None, details))
    if not action and not told:
        return ""
    return f"{actor} {action}: {told}" if told else f"{actor} {action}"
