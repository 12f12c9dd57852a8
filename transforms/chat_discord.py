"""DiscordChatExporter's JSON: a channel in one file or several (`[part 2]`), perhaps exported twice.

A message's id is a snowflake: it holds the time and orders messages, so that the files of one channel
are merged by it, and what is in several comes once, from the newest export.
https://github.com/Tyrrrz/DiscordChatExporter, https://discord.com/developers/docs/reference#snowflakes
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds, read_rest, sniffed_text
from stillroom.transforms.chat_values import (
    MAX_RECORD_CHARS,
    Record,
    dict_of,
    list_of,
    malformed,
    parse_record,
    peek,
    text_of,
    time_of,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.json_items import json_members
from stillroom.transforms.parsed import Refused

_SNOWFLAKE = re.compile(r"[0-9]{15,20}")
_SNOWFLAKE_EPOCH = datetime(2015, 1, 1, tzinfo=UTC)  # 1420070400000 ms
_SAID = frozenset(
    ("", "default", "reply", "0", "19", "20", "23", "chatinputcommand", "contextmenucommand")
)
_MENTION = re.compile(r"<@!?(\d+)>")
_EMOJI = re.compile(r"<a?(:\w+:)\d+>")
_Placed = tuple[int, int, Record | Refused]


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """JSON objects with a guild and a channel, as the exporter writes them before the messages."""
    return [
        name
        for name in names
        if name.lower().endswith(".json") and _is_discord(peek(export.head(name)))
    ]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation a channel, out of all its files."""
    channels: dict[str, list[str]] = defaultdict(list)
    heads: dict[str, Record] = {}
    for name in names:
        heads[name] = _header(dict_of(peek(export.head(name))))
        channels[text_of(heads[name]["channel"].get("id")) or name].append(name)
    for key in sorted(channels):
        # Sorting is stable: by name, and before that by the time of the export, newest first.
        files = sorted(channels[key])
        files.sort(key=lambda name: text_of(heads[name]["exportedAt"]), reverse=True)
        channel, guild = heads[files[0]]["channel"], heads[files[0]]["guild"]
        facets = {
            "guild": text_of(guild.get("name")),
            "category": text_of(channel.get("category")),
        }
        yield Conversation(
            key,
            _turns(export, files, zone),
            text_of(channel.get("name")),
            metadata={facet: value for facet, value in facets.items() if value},
        )


def _is_discord(value: Any) -> bool:
    record = dict_of(value)
    channel = dict_of(record.get("channel"))
    return "guild" in record and "id" in channel and "type" in channel


def _header(record: Record) -> Record:
    return {
        "channel": dict_of(record.get("channel")),
        "guild": dict_of(record.get("guild")),
        "exportedAt": record.get("exportedAt"),
    }


def _turns(export: Export, files: Sequence[str], zone: tzinfo) -> Iterator[Turn | Refused]:
    ids = ContentIds()
    merged = heapq.merge(
        *(_messages(export, name, rank) for rank, name in enumerate(files)),
        key=lambda placed: placed[0],
    )
    last, last_rank, empty = 0, 0, True
    for snowflake, rank, message in merged:
        empty = False
        if isinstance(message, Refused):
            yield message
        elif snowflake and snowflake == last and _id(message) and rank != last_rank:
            continue
        else:
            yield from _turn(message, zone, ids)
            if _id(message):
                last, last_rank = snowflake, rank
    if empty:
        yield Refused(RejectReason.EMPTY, "a channel without messages", files[0])


def _messages(export: Export, name: str, rank: int) -> Iterator[_Placed]:
    """Messages with their snowflakes; what has none stands where it is, after the one before it."""
    place = 0
    try:
        with export.open(name) as stream:
            text = sniffed_text(stream)
            for member in json_members(text, MAX_RECORD_CHARS, "messages"):
                if isinstance(member, dict):
                    continue
                line, item = member
                key = f"{name}:{line}"
                if item is None:
                    yield place, rank, Refused(RejectReason.TOO_LARGE, f"line {line}", key)
                elif item:
                    message = parse_record(item, key)
                    if not isinstance(message, Refused):
                        place = _snowflake(message) or place
                    yield place, rank, message
            read_rest(text)
    except Refused as refused:  # the other parts are sound
        yield place, rank, Refused(refused.reason, refused.detail, name)


def _id(message: Record) -> str:
    return text_of(message.get("id"))


def _snowflake(message: Record) -> int:
    written = _id(message)
    return int(written) if _SNOWFLAKE.fullmatch(written) else 0


def _turn(message: Record, zone: tzinfo, ids: ContentIds) -> Iterator[Turn | Refused]:
    if not message.keys() & {"id", "timestamp", "content"}:
        yield malformed("the message", sorted(message)[:9], "one of Discord's")
        return
    text, written = _text(message), message.get("timestamp")
    if not text:
        return
    author = dict_of(message.get("author"))
    speaker = text_of(author.get("nickname")) or text_of(author.get("name"))
    speaker = speaker or f"deleted:{text_of(author.get('id'))}".removesuffix(":")
    kind = text_of(message.get("type")).lower()
    yield Turn(
        _id(message) or ids(text_of(written), speaker, text),
        speaker,
        text,
        "person" if kind in _SAID else "system",
        (isinstance(written, str) and time_of(written, zone)) or _snowflake_time(message),
        edited=bool(message.get("timestampEdited")),
        reply_to=text_of(dict_of(message.get("reference")).get("messageId")),
    )


def _snowflake_time(message: Record) -> datetime | None:
    snowflake = _snowflake(message)
    return _SNOWFLAKE_EPOCH + timedelta(milliseconds=snowflake >> 22) if snowflake else None


def _text(message: Record) -> str:
    names = {
        text_of(person.get("id")): text_of(person.get("nickname")) or text_of(person.get("name"))
        for person in map(dict_of, list_of(message.get("mentions")))
    }

    def readable(value: Any) -> str:
        mentioned = _MENTION.sub(
            lambda found: "@" + (names.get(found[1]) or found[1]), text_of(value)
        )
        return _EMOJI.sub(r"\1", mentioned)

    parts = [readable(message.get("content"))]
    forwarded = dict_of(message.get("forwardedMessage"))
    if forwarded:
        parts += ["[forwarded]", readable(forwarded.get("content"))]
    for source in (message, forwarded):
        for embed in map(dict_of, list_of(source.get("embeds"))):
            parts += [part for part in _embed(embed) if part not in parts[0]]
        for file in map(dict_of, list_of(source.get("attachments"))):
            name = text_of(file.get("fileName")) or text_of(file.get("url")).rpartition("/")[2]
            parts.append(f"[file: {name}]" if name else "[file]")
    for sticker in map(dict_of, list_of(message.get("stickers"))):
        parts.append(f"[sticker: {text_of(sticker.get('name'))}]")
    return "\n".join(part for part in parts if part.strip()).strip()


def _embed(embed: Record) -> Iterator[str]:
    """The words of an embed. Its dates are not read: they may be anything (exporter's #1156)."""
    title, url = text_of(embed.get("title")), text_of(embed.get("url"))
    yield text_of(dict_of(embed.get("author")).get("name"))
    yield f"{title} ({url})" if title and url else title or url
    yield text_of(embed.get("description"))
    for entry in map(dict_of, list_of(embed.get("fields"))):
        yield ": ".join(filter(None, (text_of(entry.get("name")), text_of(entry.get("value")))))
    yield text_of(dict_of(embed.get("footer")).get("text"))
