"""Claude's data export: the `conversations.json` of a list of conversations, or one conversation as its
web API gives it.

A message has its text twice, in `text` and in the blocks of `content`, of which either may be empty;
what was pasted is the extracted content of attachments. Messages have a parent where the export has
branches. See "How can I export my Claude data?", support.anthropic.com.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from functools import partial
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_blocks import content_text, file_text, has_text, readable
from stillroom.transforms.chat_lines import ContentIds
from stillroom.transforms.chat_tree import tree_turns
from stillroom.transforms.chat_values import (
    Record,
    UniqueKeys,
    claimed,
    dict_of,
    list_of,
    made_of_records,
    malformed,
    read_files,
    role_of,
    text_of,
    time_of,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.parsed import Refused

ROOT = "00000000-0000-4000-8000-000000000000"
_SPEAKERS = {"user": "User", "assistant": "Claude"}
# What the app puts into `text` for a block that it does not show.
_UNSUPPORTED = re.compile(
    r"(```\s*)?This block is not supported on your current device yet\.(\s*```)?"
)


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    return claimed(
        export,
        names,
        lambda record: "uuid" in record and isinstance(record.get("chat_messages"), list),
    )


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation for each; branches that were left follow the active chain, which ends with
    the message that the export calls the current one, else with the newest."""
    keys = UniqueKeys()

    def made(record: Record, place: str) -> Conversation | Refused:
        return _conversation(record, keys, place, zone)

    yield from read_files(names, lambda name: made_of_records(export, name, made))


def _conversation(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Conversation | Refused:
    key = keys(text_of(record.get("uuid")) or place)
    messages = record.get("chat_messages")
    if not isinstance(messages, list):
        return malformed("`chat_messages`", messages, "a list", key)
    turns = _turns(record, messages, zone)
    if not turns:
        return Refused(RejectReason.EMPTY, "a conversation without messages", key)
    model = text_of(record.get("model"))
    title = text_of(record.get("name"))
    return Conversation(key, turns, title, metadata={"model": model} if model else {})


def _turns(record: Record, messages: Sequence[Any], zone: tzinfo) -> list[Turn | Refused]:
    # Each message under a name of its own: a uuid may be missing, or there twice.
    unique, ids = UniqueKeys(), ContentIds()
    made: dict[str, Turn | Refused | None] = {}
    parents: dict[str, str | None] = {}
    known = {_get(message, "uuid") for message in messages} - {""}
    previous: str | None = None
    for number, message in enumerate(messages, 1):
        name = unique(_get(message, "uuid") or f"message {number}")
        made[name] = readable(partial(_turn, message, ids, zone), name)
        # A parent that is not in the export: the message before stands for it.
        parent = _get(message, "parent_message_uuid")
        parents[name] = None if parent == ROOT else parent if parent in known else previous
        previous = name
    current, begun = _get(record, "current_leaf_message_uuid"), record.get("created_at")
    return tree_turns(made, parents, current, time_of(begun, zone))


def _get(message: Any, name: str) -> str:
    return text_of(dict_of(message).get(name))


def _turn(message: Any, ids: ContentIds, zone: tzinfo) -> Turn | None:
    """A message's turn; None if nothing was said. Raises Refused."""
    if not isinstance(message, dict):
        raise malformed("a message", message, "an object")
    sender, created = _get(message, "sender"), message.get("created_at")
    role = role_of(sender)
    speaker = _SPEAKERS.get(role) or sender or "Unknown"
    text = "\n\n".join(part for part in _parts(message) if part.strip())
    if not text:
        return None
    uuid = _get(message, "uuid") or ids(text_of(created), speaker, text)
    return Turn(uuid, speaker, text, role, time_of(created, zone))


def _parts(message: Record) -> Iterator[str]:
    text, content = message.get("text"), message.get("content")
    if not (text is None or isinstance(text, str)):
        raise malformed("`text`", text, "a string")
    blocks = content_text(content)
    if text and not has_text(content):
        yield _UNSUPPORTED.sub("", text).strip() if blocks else text
    yield blocks
    for file in (*list_of(message.get("attachments")), *list_of(message.get("files"))):
        if isinstance(file, dict):
            yield file_text(file.get("file_name"), file.get("extracted_content"))
        elif file is not None:
            yield file_text(file)
