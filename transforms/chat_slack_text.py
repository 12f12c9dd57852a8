"""Slack's messages as people read them: names for ids, links, Block Kit, attachments and files.

https://api.slack.com/reference/surfaces/formatting, https://api.slack.com/reference/block-kit
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import sniffed_text
from stillroom.transforms.chat_values import (
    MAX_RECORD_CHARS,
    Record,
    dict_of,
    list_of,
    parse_record,
    text_of,
)
from stillroom.transforms.conversations import Export
from stillroom.transforms.json_items import json_items
from stillroom.transforms.parsed import Refused

LISTS = ("channels.json", "groups.json", "dms.json", "mpims.json")
_MARKUP = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")
_ENTITY = re.compile(r"&(amp|lt|gt);")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">"}
_MAX_DEPTH = 12  # of blocks in blocks


def json_list(export: Export, name: str) -> Iterator[Record | Refused]:
    """The objects of a list, up to where the file is damaged. Raises Refused."""
    with export.open(name) as stream:
        for line, item in json_items(sniffed_text(stream), MAX_RECORD_CHARS):
            key = f"{name}:{line}"
            if item is None:
                yield Refused(RejectReason.TOO_LARGE, f"line {line}: a record too long", key)
            elif item:
                yield parse_record(item, key)


@dataclass(slots=True)
class Workspace:
    """Names of users and channels by their ids, and who is in a channel by its folder's name."""

    users: dict[str, str] = field(default_factory=lambda: {"USLACKBOT": "Slackbot"})
    channels: dict[str, str] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)

    def add(self, export: Export, name: str, base: str) -> Iterator[Refused]:
        try:
            for record in json_list(export, name):
                if isinstance(record, Refused):
                    yield record
                elif base in ("users.json", "org_users.json"):
                    self.users[text_of(record.get("id"))] = user_name(record)
                elif base in LISTS:
                    label = text_of(record.get("name"))
                    self.channels[text_of(record.get("id"))] = label
                    if base in ("dms.json", "mpims.json"):
                        people = [text_of(member) for member in list_of(record.get("members"))]
                        self.members[label or text_of(record.get("id"))] = people
        except Refused as refused:
            yield Refused(refused.reason, refused.detail, name)

    def user(self, identifier: str) -> str:
        return self.users.get(identifier) or identifier

    def title(self, folder: str) -> str:
        people = self.members.get(folder)
        if people:
            return ", ".join(map(self.user, people))
        return self.channels.get(folder) or folder


def user_name(record: Mapping[str, Any]) -> str:
    """What people call a user: the display name, else the real one, the account's, the id."""
    profile = dict_of(record.get("profile"))
    names = (profile.get("display_name"), profile.get("real_name"), record.get("real_name"))
    return next(filter(None, map(text_of, (*names, record.get("name"), record.get("id")))), "")


def message_text(message: Record, workspace: Workspace) -> str:
    """What a message says: its text or else its blocks, its attachments, the names of its files."""
    text = _plain_text(text_of(message.get("text")), workspace)
    if not text.strip():
        text = _blocks(message.get("blocks"), workspace)
    parts = [text]
    for attachment in map(dict_of, list_of(message.get("attachments"))):
        parts += [part for part in _attachment(attachment, workspace) if part not in parts[0]]
    for file in map(dict_of, list_of(message.get("files"))):
        label = text_of(file.get("title")) or text_of(file.get("name")) or text_of(file.get("id"))
        parts.append(f"[file: {label}]" if label else "[file]")
        parts.append(text_of(file.get("preview_plain_text")) or text_of(file.get("preview")))
    return "\n".join(part for part in parts if part.strip()).strip()


def _attachment(attachment: Record, workspace: Workspace) -> Iterator[str]:
    shown = ("pretext", "author_name", "title", "text")
    made = [_plain_text(text_of(attachment.get(name)), workspace) for name in shown]
    for entry in map(dict_of, list_of(attachment.get("fields"))):
        pair = (_plain_text(text_of(entry.get(name)), workspace) for name in ("title", "value"))
        made.append(": ".join(filter(None, pair)))
    made.append(_blocks(attachment.get("blocks"), workspace))
    if not any(made):
        made.append(_plain_text(text_of(attachment.get("fallback")), workspace))
    yield from dict.fromkeys(part for part in made if part.strip())


def _blocks(value: Any, workspace: Workspace, depth: int = 0) -> str:
    """The text of Block Kit: sections, headers, and rich text with its lists and quotations."""
    if depth > _MAX_DEPTH:
        return ""
    made = []
    for block in map(dict_of, list_of(value)):
        kind, text = text_of(block.get("type")), block.get("text")
        inside = dict_of(text)
        if kind == "user":
            made.append("@" + workspace.user(text_of(block.get("user_id"))))
        elif kind == "channel":
            identifier = text_of(block.get("channel_id"))
            made.append("#" + (workspace.channels.get(identifier) or identifier))
        elif kind == "broadcast":
            made.append("@" + text_of(block.get("range")))
        elif kind == "emoji":
            made.append(f":{text_of(block.get('name'))}:")
        elif kind == "link":
            made.append(_link(text_of(block.get("url")), text_of(text)))
        else:
            written = text_of(inside.get("text"))
            if inside.get("type") == "mrkdwn" or kind == "mrkdwn":
                written = _plain_text(written or text_of(text), workspace)
            made += [written or text_of(text), _blocks(block.get("fields"), workspace, depth + 1)]
            made.append(_blocks(block.get("elements"), workspace, depth + 1))
            if kind not in ("text", "rich_text"):
                made.append("\n")
    return "".join(made) if depth else "".join(made).strip()


def _plain_text(text: str, workspace: Workspace) -> str:
    """Slack's markup as people read it: names for ids, `label (address)` for links."""

    def shown(found: re.Match[str]) -> str:
        target, label = found[1], found[2] or ""
        if target.startswith("@"):
            return "@" + (workspace.users.get(target[1:]) or label.lstrip("@") or target[1:])
        if target.startswith("#"):
            return "#" + (label or workspace.channels.get(target[1:]) or target[1:])
        if target.startswith("!"):
            return label or "@" + target[1:].partition("^")[2 * ("^" in target)]
        return _link(target, label)

    marked = _MARKUP.sub(shown, text)
    return _ENTITY.sub(lambda found: _ENTITIES[found[1]], marked)


def _link(url: str, label: str) -> str:
    return f"{label} ({url})" if label and label not in url else url
