"""Slack's workspace export: users.json, channels.json (groups, dms, mpims) and `<channel>/<day>.json`.

A thread is a conversation of its own, `<channel>/<thread_ts>`: its replies lie in the files of the days
on which they were written, and its key stays the same when more come. The channel's other messages
are one conversation, `<channel>`. `ts` is an id as text: as a float it would lose its last digits.
https://slack.com/help/articles/220556107, https://api.slack.com/reference/surfaces/formatting
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds
from stillroom.transforms.chat_slack_text import (
    LISTS,
    Workspace,
    json_list,
    message_text,
    user_name,
)
from stillroom.transforms.chat_values import Record, dict_of, malformed, peek_records, text_of
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.parsed import Refused

_TS = re.compile(r"(\d{9,11})\.(\d{1,6})")
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
_COMPANIONS = ("users.json", "org_users.json", "integration_logs.json", "canvases.json", *LISTS)
_EVENT = re.compile(
    r"(?:channel|group)_\w+|bot_(?:add|remove|enable|disable)|(?:un)?pinned_item|tombstone"
    r"|reminder_add|sh_room_\w+|huddle_\w+|ekm_access_denied"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """Files of messages with a Slack `ts`, and what lies about them: lists of users and channels, and
    days without messages. An export that is only a part may lack any of these."""
    messages = {name for name in names if name.endswith(".json") and _is_messages(export, name)}
    roots = {_parent(_parent(name)) for name in messages}
    for name in names:
        if name.rpartition("/")[2] == "users.json" and _is_users(export, name):
            root = _parent(name)
            if any(f"{root}/{other}".lstrip("/") in names for other in LISTS):
                roots.add(root)
    return [
        name
        for name in names
        if name in messages
        or (_parent(name) in roots and name.rpartition("/")[2] in _COMPANIONS)
        or (_parent(_parent(name)) in roots and "/" in name and _is_empty_day(export, name))
    ]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """The conversations of each channel: the channel itself, then its threads."""
    workspace = Workspace()
    channels: dict[str, list[str]] = defaultdict(list)
    for name in sorted(names):
        base = name.rpartition("/")[2]
        if base in _COMPANIONS:
            yield from workspace.add(export, name, base)
        else:
            channels[_parent(name) if _DAY.fullmatch(base) else name].append(name)
    found = False
    doubled = len({_label(channel) for channel in channels}) < len(channels)
    for channel in sorted(channels):
        key = channel if doubled else _label(channel)
        for conversation in _Channel(export, channels[channel], key, workspace).conversations():
            found = True
            yield conversation
    if not found:
        yield Refused(RejectReason.EMPTY, "a Slack export without messages")


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


def _label(channel: str) -> str:
    return channel.rpartition("/")[2].removesuffix(".json")


def _is_messages(export: Export, name: str) -> bool:
    return any(
        isinstance(ts := record.get("ts"), str)
        and _TS.fullmatch(ts)
        and (record.get("type") == "message" or "user" in record or "bot_id" in record)
        for record in peek_records(export.head(name))[:20]
    )


def _is_users(export: Export, name: str) -> bool:
    found = peek_records(export.head(name))[:5]
    return any("id" in user and ("profile" in user or "team_id" in user) for user in found)


def _is_empty_day(export: Export, name: str) -> bool:
    return bool(_DAY.fullmatch(name.rpartition("/")[2])) and export.head(name).strip() == b"[]"


class _Channel:
    """The days of one channel, read three times: for its threads' ids, for what is in no thread, and
    for the threads, of which those are in memory that go on after the day at hand."""

    def __init__(
        self, export: Export, names: Sequence[str], key: str, workspace: Workspace
    ) -> None:
        self._export, self._names, self._key = export, names, key
        self._workspace = workspace
        self._last_day: dict[str, int] = {}  # of each thread
        self._others = False

    def conversations(self) -> Iterator[Conversation]:
        starts = set[str]()
        for day, message in self._messages():
            if isinstance(message, Refused):
                self._others = True
                continue
            ts, thread = _ts(message), text_of(message.get("thread_ts"))
            if thread and thread != ts:
                self._last_day[thread] = day
            elif thread:
                starts.add(ts)
            else:
                self._others = True
        self._others |= bool(starts - self._last_day.keys())
        title = self._workspace.title(_label(self._key))
        if self._others:
            yield Conversation(self._key, self._plain(), title)
        for thread, turns in self._threads():
            yield Conversation(f"{self._key}/{thread}", turns, title, self._key)

    def _messages(self) -> Iterator[tuple[int, Record | Refused]]:
        for day, name in enumerate(self._names):
            try:
                for record in json_list(self._export, name):
                    yield day, record
            except Refused as refused:  # the other days are sound
                yield day, Refused(refused.reason, refused.detail, name)

    def _thread(self, message: Record) -> str:
        thread = text_of(message.get("thread_ts")) or _ts(message)
        return thread if thread in self._last_day else ""

    def _plain(self) -> Iterator[Turn | Refused]:
        ids = ContentIds()
        today, seen = -1, set[str]()
        for day, message in self._messages():
            if day != today:
                today, seen = day, set()
            if isinstance(message, Refused):
                yield message
            elif not self._thread(message):
                ts = _ts(message)
                if not ts or ts not in seen:
                    seen.add(ts)
                    yield from _turns(message, self._workspace, ids)

    def _threads(self) -> Iterator[tuple[str, list[Turn | Refused]]]:
        ids = ContentIds()
        open_threads: dict[str, dict[str, list[Turn | Refused]]] = {}
        today = 0
        for day, message in self._messages():
            if day != today:
                yield from self._ended(open_threads, day)
                today = day
            if not isinstance(message, Refused) and (thread := self._thread(message)):
                parts = open_threads.setdefault(thread, {})
                # A reply that was also sent to the channel is there twice.
                parts.setdefault(_ts(message), list(_turns(message, self._workspace, ids)))
        yield from self._ended(open_threads, len(self._names))

    def _ended(
        self, threads: dict[str, dict[str, list[Turn | Refused]]], day: int
    ) -> Iterator[tuple[str, list[Turn | Refused]]]:
        for thread in sorted(threads):
            if self._last_day[thread] < day:
                parts = threads.pop(thread)
                order = sorted(parts, key=lambda ts: (ts != thread, len(ts), ts))
                yield thread, [turn for ts in order for turn in parts[ts]]


def _ts(message: Record) -> str:
    return text_of(message.get("ts"))


def _turns(message: Record, workspace: Workspace, ids: ContentIds) -> Iterator[Turn | Refused]:
    ts = _ts(message)
    if not ts and not message.keys() & {"text", "blocks", "attachments", "files"}:
        yield malformed("ts", message.get("ts"), "a Slack time")
        return
    text = message_text(message, workspace)
    if not text:
        return
    subtype = text_of(message.get("subtype"))
    thread = text_of(message.get("thread_ts"))
    speaker = _speaker(message, workspace)
    yield Turn(
        ts or ids("", speaker, text),
        speaker,
        text,
        "system" if _EVENT.fullmatch(subtype) else "person",
        _at(ts),
        edited=bool(message.get("edited")),
        deleted=subtype == "tombstone",
        reply_to=thread if thread != ts else "",
    )


def _at(ts: str) -> datetime | None:
    found = _TS.fullmatch(ts)
    if not found:
        return None
    return _EPOCH + timedelta(seconds=int(found[1]), microseconds=int(found[2].ljust(6, "0")))


def _speaker(message: Record, workspace: Workspace) -> str:
    user = text_of(message.get("user"))
    profile = user_name({"profile": message.get("user_profile")})
    bot = text_of(dict_of(message.get("bot_profile")).get("name"))
    named = text_of(message.get("username"))
    return (
        workspace.users.get(user)
        or profile
        or named
        or bot
        or user
        or text_of(message.get("bot_id"))
        or "unknown"
    )
