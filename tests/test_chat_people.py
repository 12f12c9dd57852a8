"""What holds for all formats of people's chats: each claims its own, and damage costs only what is
behind it."""

import datetime as dt
import io
import json
from types import ModuleType
from typing import Any, BinaryIO

import pytest

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import (
    chat_discord,
    chat_irc,
    chat_mbox,
    chat_slack,
    chat_telegram,
    chat_whatsapp,
    chat_zulip,
)
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests import (
    test_chat_discord,
    test_chat_mbox,
    test_chat_slack,
    test_chat_telegram,
    test_chat_zulip,
)
from tests.chat_exports import MemoryExport

ODD = "nul \0 marks \u202e\u200f end"
SAMPLES: dict[ModuleType, tuple[str, bytes]] = {
    chat_whatsapp: ("chat.txt", f"19/10/16, 13:24 - A: b\n19/10/16, 13:25 - A: {ODD}\n".encode()),
    chat_irc: ("x.log", f"[12:34] <ann> hi\n[12:35] <ann> {ODD}\n".encode()),
    chat_slack: (
        "general/2023-11-14.json",
        json.dumps(
            [test_chat_slack.message("1700000000.000100"),
             test_chat_slack.message("1700000000.000200", ODD + "\ud800")]
        ).encode(),
    ),
    chat_telegram: (
        "result.json",
        json.dumps(
            test_chat_telegram.chat(
                test_chat_telegram.message(1), test_chat_telegram.message(2, text=ODD + "\ud800")
            )
        ).encode(),
    ),
    chat_discord: (
        "a.json",
        test_chat_discord.channel(
            test_chat_discord.message(1), test_chat_discord.message(2, ODD + "\ud800")
        ),
    ),
    chat_zulip: (
        "messages-000001.json",
        test_chat_zulip.files(
            [test_chat_zulip.message(1), test_chat_zulip.message(2, content=ODD + "\ud800")]
        )["export/messages-000001.json"],
    ),
    chat_mbox: ("x.mbox", test_chat_mbox.mail(1) + test_chat_mbox.mail(2, ODD)),
}  # fmt: skip
FORMATS = list(SAMPLES)


class _Damaged(io.RawIOBase):
    def __init__(self, raw: bytes) -> None:
        self._stream = io.BytesIO(raw)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        if not count:
            raise Refused(RejectReason.CORRUPT, "the archive ends early")
        return count


class DamagedExport(MemoryExport):
    """One whose streams raise at their ends."""

    def open(self, name: str) -> BinaryIO:
        return io.BufferedReader(_Damaged(self.files[name]), 64)  # type: ignore[return-value]


def everything(format: Any, export: MemoryExport) -> list[Any]:
    made: list[Any] = []
    try:
        for item in format.read(export, export.names, dt.UTC):
            if isinstance(item, Refused):
                made.append(item)
            else:
                made += item.turns
    except Refused as refused:
        made.append(refused)
    return made


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.__name__)
def test_each_claims_its_own_and_no_other(format: Any) -> None:
    export = MemoryExport(dict(SAMPLES.values()))
    assert list(format.claims(export, export.names)) == [SAMPLES[format][0]]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.__name__)
def test_odd_characters_are_kept_and_reading_again_gives_the_same(format: Any) -> None:
    export = MemoryExport(dict([SAMPLES[format]]))
    made = everything(format, export)
    assert [type(turn) for turn in made] == [Turn, Turn]
    assert "marks" in made[1].text
    assert made == everything(format, export)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.__name__)
def test_a_damaged_stream_gives_what_came_before_and_the_damage(format: Any) -> None:
    made = everything(format, DamagedExport(dict([SAMPLES[format]])))
    assert any(isinstance(turn, Turn) for turn in made)
    assert any(isinstance(item, Refused) and item.reason == "corrupt" for item in made)
