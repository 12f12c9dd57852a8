"""What a damaged export must never do to a chat format: raise, or hang."""

import json
from datetime import UTC
from typing import Any

from hypothesis import strategies as st

from stillroom.transforms.conversations import ChatFormat, Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 7, 1e999, 10**400, "", "x", "\ud800", "a\0b", "\u202e", [], [[]], [None],
    {}, {"a": None}, {"type": "text"}, "9" * 30,
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn, value: Any) -> Any:
    """A copy of a JSON value, some of whose members are of another type, gone or there twice."""
    if draw(st.integers(0, 24)) == 0:
        return draw(st.sampled_from(ODD))
    if isinstance(value, dict):
        kept = {name: draw(mangled(item)) for name, item in value.items()}
        if kept and draw(st.integers(0, 9)) == 0:
            del kept[draw(st.sampled_from(sorted(kept)))]
        return kept
    if isinstance(value, list):
        items = [draw(mangled(item)) for item in value]
        if items and draw(st.integers(0, 9)) == 0:
            items.append(draw(st.sampled_from(items)))
        return items
    return value


def read_all(chat: ChatFormat, files: dict[str, bytes], claim: bool = False) -> list[Any]:
    """Conversations with their turns in a list, and Refused ones; and everything holds that the
    interface promises."""
    export = MemoryExport(files)
    names = chat.claims(export, export.names) if claim else export.names
    made: list[Any] = []
    for item in chat.read(export, names, UTC):
        if isinstance(item, Refused):
            made.append(item)
            continue
        assert isinstance(item, Conversation)
        turns: list[Any] = []
        try:
            turns.extend(item.turns)
        except Refused as error:
            turns.append(error)
        made.append((item, turns))
        for turn in turns:
            assert isinstance(turn, Turn | Refused)
            if isinstance(turn, Turn):
                assert turn.id
                assert turn.text.strip()
                assert turn.speaker
                assert turn.at is None or turn.at.tzinfo
        ids = [turn.id for turn in turns if isinstance(turn, Turn)]
        assert len(ids) == len(set(ids))
    keys = [item[0].key for item in made if isinstance(item, tuple)]
    assert len(keys) == len(set(keys))
    return made


def to_json(value: Any) -> bytes:
    return json.dumps(value).encode()
