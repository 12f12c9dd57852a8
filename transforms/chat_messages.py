"""Chats with models as data sets have them: JSON or JSONL of conversations that are lists of messages.

Read are ShareGPT (`conversations` of `from` and `value`; see lm-sys/FastChat, docs/training.md), OpenAI's
`messages` of `role` and `content` (Chat Completions, fine-tuning), Anthropic's, with `system` beside
them, and a bare list of messages, which is one conversation.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from functools import partial
from itertools import chain
from typing import Any

from stillroom.schemas.ids import digest
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_blocks import call_text, content_text, readable
from stillroom.transforms.chat_lines import ContentIds
from stillroom.transforms.chat_values import (
    Record,
    UniqueKeys,
    claimed,
    dict_of,
    list_of,
    made_of_records,
    malformed,
    peek_records,
    read_files,
    records,
    role_of,
    text_of,
    time_of,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.html_markdown import html_to_markdown
from stillroom.transforms.parsed import Refused

_LISTS = ("messages", "conversations", "conversation", "items")
_IDS = ("id", "conversation_id", "uuid", "hash", "custom_id")
_TIMES = ("timestamp", "created_at", "create_time", "created", "date", "time")
# Names of models that a role is known by; other roles are called by their own name.
_MODELS = {"chatgpt": "ChatGPT", "bing": "Bing", "bard": "Bard", "claude": "Claude"}
_NOT_OURS = ("turn-info", "dia_id", "has_answer")  # of benchmarks, whose questions are not read
# Parts of one long conversation of ShareGPT, which has ids of seven characters.
_PART = re.compile(r"(?=\w*[0-9A-Z]\w*_)(\w{7})_\d+")
_HTML = re.compile(r"\s*<(div|p|pre|ul|ol|h\d)\b[^>]*>.*</\1>\s*$", re.DOTALL)


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    return claimed(export, names, lambda record: _is_message(record) or _is_conversation(record))


def _is_conversation(record: Record) -> bool:
    return any(
        isinstance(messages := record.get(name), list)
        and any(map(_is_message, messages))
        and not any(mark in dict_of(message) for message in messages for mark in _NOT_OURS)
        for name in _LISTS
    )


def _is_message(value: Any) -> bool:
    message = dict_of(value)
    if isinstance(message.get("from"), str) and "value" in message:
        return True
    if role_of(text_of(message.get("role"))) == "person":
        return False
    return any(name in message for name in ("content", "tool_calls", "function_call"))


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation for each record; one for a file that is a list of messages. A conversation
    without an id is named by how it begins, which stays when it grows."""
    keys = UniqueKeys()

    def read_one(name: str) -> Iterator[Conversation | Refused]:
        if any(map(_is_message, peek_records(export.head(name)))):
            messages = (record for _, record in records(export, name))
            yield Conversation(keys(name), _turns(messages, zone))
            return
        yield from made_of_records(
            export, name, lambda record, place: _conversation(record, keys, place, zone)
        )

    yield from read_files(names, read_one)


def _conversation(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Conversation | Refused:
    key = next((text for name in _IDS if (text := text_of(record.get(name)))), "")
    messages = next((record[name] for name in _LISTS if name in record), None)
    if not isinstance(messages, list):
        return malformed("the list of messages", messages, "a list", keys(key or place))
    # Anthropic gives the system's prompt beside the messages.
    system = [{"role": "system", "content": record["system"]}] if record.get("system") else []
    turns = list(_turns(chain(system, messages), zone))
    if not turns:
        detail = "a conversation without messages"
        return Refused(RejectReason.EMPTY, detail, keys(key or place))
    part = _PART.fullmatch(key)
    title = text_of(record.get("title"))
    return Conversation(keys(key or _beginning(turns)), turns, title, part[1] if part else "")


def _beginning(turns: Sequence[Turn | Refused]) -> str:
    said = [turn for turn in turns if isinstance(turn, Turn)]
    first = next((turn for turn in said if turn.role != "system"), said[0] if said else None)
    return digest(first.speaker, first.text) if first else digest()


def _turns(messages: Iterator[Any] | Sequence[Any], zone: tzinfo) -> Iterator[Turn | Refused]:
    ids, unique = ContentIds(), UniqueKeys()
    for number, message in enumerate(messages, 1):
        turn = readable(partial(_turn, message, ids, unique, zone), f"message {number}")
        if turn:
            yield turn


def _turn(message: Any, ids: ContentIds, unique: UniqueKeys, zone: tzinfo) -> Turn | None:
    """A message's turn; None if it is empty. Raises Refused."""
    if isinstance(message, Refused):
        raise message
    if not isinstance(message, dict):
        raise malformed("a message", message, "an object")
    word = text_of(message.get("role")) or text_of(message.get("from"))
    if not word:
        raise malformed("`role`", message.get("role", message.get("from")), "a name")
    role = role_of(word)
    speaker = text_of(message.get("name")) or _speaker(word, role)
    text = "\n\n".join(part for part in _parts(message) if part.strip())
    if not text:
        return None
    time = next((message[name] for name in _TIMES if message.get(name)), None)
    given = text_of(message.get("id"))
    made = unique(given) if given else ids(text_of(time), speaker, text)
    return Turn(made, speaker, text, role, time_of(time, zone))


def _speaker(word: str, role: str) -> str:
    return _MODELS.get(word.strip().lower()) or (word if role == "person" else role.capitalize())


def _parts(message: Record) -> Iterator[str]:
    """What a message holds: thoughts, text and calls of tools, in the order they are made."""
    if thought := text_of(message.get("reasoning_content")):
        yield f"[thinking] {thought}"
    text = content_text(message["content"] if "content" in message else message.get("value"))
    # ShareGPT's first collection holds the HTML of the page.
    yield html_to_markdown(text) if "value" in message and _HTML.match(text) else text
    yield text_of(message.get("refusal"))
    yield text_of(dict_of(message.get("audio")).get("transcript"))
    for call in (*list_of(message.get("tool_calls")), message.get("function_call")):
        if call is not None:
            if not isinstance(call, dict):
                raise malformed("a tool call", call, "an object")
            function = dict_of(call.get("function")) or dict_of(call.get("custom")) or call
            arguments = function.get("arguments", function.get("input"))
            yield call_text(function.get("name"), arguments)
