"""ChatGPT's data export: `conversations.json`, or shards `conversations-000.json` of it.

A list of conversations, each a tree of messages (`mapping`), since a prompt that is edited or an answer
that is made again starts a branch. What is on the screen is the chain of parents from `current_node`,
whatever the order of children and times. See "How do I export my ChatGPT history", help.openai.com.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from functools import partial
from typing import Any

from stillroom.schemas.ids import digest
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_blocks import file_text, readable
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

_SPEAKERS = {"user": "User", "assistant": "ChatGPT", "system": "System", "tool": "Tool"}
# Beside these, a content's members are something that a text should show.
_FORMAL = ("content_type", "language", "response_format_name", "parts")
_INSTRUCTIONS = ("user_editable_context", "model_editable_context")
# Citations and widgets are between private-use characters: begin, what it is, fields, end.
_MARKED = re.compile(" ?\ue200([^\ue200\ue201]{0,4000})\ue201")
_SOURCE = re.compile(" ?【[^【】]{0,40}†[^【】]{0,200}】")
_PRIVATE = re.compile("[\ue200-\ue206]")


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    return claimed(export, names, _is_conversation)


def _is_conversation(record: Record) -> bool:
    nodes = dict_of(record.get("mapping")).values()
    if any("message" in dict_of(node) or "children" in dict_of(node) for node in nodes):
        return True
    return "mapping" in record and ("current_node" in record or "conversation_id" in record)


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation for each tree. Branches that were left follow the active chain."""
    keys = UniqueKeys()

    def made(record: Record, place: str) -> Conversation | Refused:
        return _conversation(record, keys, place, zone)

    yield from read_files(names, lambda name: made_of_records(export, name, made))


def _conversation(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Conversation | Refused:
    title = text_of(record.get("title"))
    key = text_of(record.get("conversation_id")) or text_of(record.get("id"))
    if not key:
        made = text_of(record.get("create_time"))
        key = digest(title, made) if title or made else place
    key = keys(key)
    mapping = record.get("mapping")
    if not isinstance(mapping, dict):
        return malformed("`mapping`", mapping, "an object", key)
    turns = _turns(record, mapping, zone)
    if not turns:
        return Refused(RejectReason.EMPTY, "a conversation without messages", key)
    model = text_of(record.get("default_model_slug"))
    return Conversation(key, turns, title, metadata={"model": model} if model else {})


def _turns(record: Record, mapping: Record, zone: tzinfo) -> list[Turn | Refused]:
    made = {
        node: readable(partial(_turn, node, value, zone), node) for node, value in mapping.items()
    }
    current, begun = text_of(record.get("current_node")), time_of(record.get("create_time"), zone)
    return tree_turns(made, _parents(mapping), current, begun)


def _parents(mapping: Record) -> dict[str, str | None]:
    """The parent of each node; from `children` where it does not say. One that is not there was cut
    out of the file: the node before it in the file stands for it."""
    by_children = {
        child: node
        for node, value in mapping.items()
        for child in list_of(dict_of(value).get("children"))
        if isinstance(child, str)
    }
    parents: dict[str, str | None] = {}
    previous: str | None = None
    for node, value in mapping.items():
        parent = dict_of(value).get("parent") or by_children.get(node)
        parents[node] = None
        if isinstance(parent, str):
            parents[node] = parent if parent in mapping else previous
        previous = node
    return parents


def _turn(node: str, value: Any, zone: tzinfo) -> Turn | None:
    """The turn of a node; None for what people do not see, and where nothing was said. Raises
    Refused."""
    message = value.get("message") if isinstance(value, dict) else value
    if message is None:
        return None
    if not isinstance(message, dict):
        raise malformed("a message", message, "an object")
    author, metadata = dict_of(message.get("author")), dict_of(message.get("metadata"))
    content = message.get("content")
    role = role_of(text_of(author.get("role")))
    if metadata.get("is_visually_hidden_from_conversation") is True:
        return None
    if role == "system" and message.get("weight") == 0:
        return None
    if dict_of(content).get("content_type") in _INSTRUCTIONS:
        return None
    if content is not None and not isinstance(content, dict):
        raise malformed("`content`", content, "an object")
    speaker = text_of(author.get("name")) or _SPEAKERS.get(role) or text_of(author.get("role"))
    if role == "assistant" and message.get("recipient") not in (None, "", "all"):
        role = "tool"  # said to a tool
    text = _text(dict_of(content), metadata, cited=role == "assistant")
    if not text.strip():
        return None
    at = time_of(message.get("create_time"), zone)
    return Turn(text_of(message.get("id")) or node, speaker or "Unknown", text, role, at)


def _text(content: Record, metadata: Record, cited: bool) -> str:
    kind = text_of(content.get("content_type"))
    parts = content.get("parts")
    if parts is not None and not isinstance(parts, list):
        raise malformed("`parts`", parts, "a list")
    texts = [_part(part) for part in parts or ()]
    # Web pages that a tool read have a title and an address; results and code have one text.
    texts += [text_of(content.get(name)) for name in ("title", "url", "text", "result", "content")]
    texts += [_thought(thought) for thought in list_of(content.get("thoughts"))]
    if kind in ("thoughts", "reasoning_recap") and any(texts):
        texts.insert(0, "[thinking]")
    files = [dict_of(file) for file in list_of(metadata.get("attachments"))]
    shown = "[image]" in texts
    texts += [
        file_text(file.get("name"))
        for file in files
        if not (shown and text_of(file.get("mime_type")).startswith("image/"))
    ]
    text = "\n\n".join(text for text in texts if text.strip())
    if not text and any(value for name, value in content.items() if name not in _FORMAL):
        return f"[{kind}]"
    text = _MARKED.sub(_label, text)
    return _PRIVATE.sub("", _SOURCE.sub("", text) if cited else text)


def _part(part: Any) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    if not isinstance(part, dict):
        raise malformed("a part", part, "a string or an object")
    kind = text_of(part.get("content_type"))
    if text := text_of(part.get("text")):  # also the transcription of what was spoken
        return text
    for sign in ("image", "audio", "video"):
        if sign in kind:
            return f"[{sign}]"
    return f"[{kind}]" if kind else json.dumps(part, ensure_ascii=False) if part else ""


def _thought(thought: Any) -> str:
    if isinstance(thought, str):
        return thought
    parts = (text_of(dict_of(thought).get(name)) for name in ("summary", "content"))
    return "\n".join(filter(None, parts))


def _label(marked: re.Match[str]) -> str:
    """What people see of a marked span: the name of a thing, the label of a link; nothing of a
    citation."""
    kind, *fields = marked[1].split("\ue202")
    blank = " " if marked[0].startswith(" ") else ""
    if kind == "url" and fields:
        address = f" ({fields[1]})" if len(fields) > 1 else ""
        return f"{blank}{fields[0]}{address}"
    if kind == "entity" and fields:
        try:
            values = [text for text in map(text_of, json.loads(fields[0])) if text]
        except (ValueError, TypeError, RecursionError):
            return ""
        return blank + values[min(1, len(values) - 1)] if values else ""
    return ""
