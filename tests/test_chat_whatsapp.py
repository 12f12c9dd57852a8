"""WhatsApp exports of many locales."""

import contextlib
import datetime as dt
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_whatsapp
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

BERLIN = ZoneInfo("Europe/Berlin")
NAME = "WhatsApp Chat with Ann.txt"


def turns(text: str | bytes, name: str = NAME, zone: dt.tzinfo = dt.UTC) -> list[Turn | Refused]:
    export = MemoryExport({name: text.encode() if isinstance(text, str) else text})
    assert list(chat_whatsapp.claims(export, export.names)) == [name]
    made: list[Turn | Refused] = []
    for item in chat_whatsapp.read(export, export.names, zone):
        made += [item] if isinstance(item, Refused) else item.turns
    return made


def brief(text: str) -> list[tuple[str, str, str]]:
    return [
        (t.speaker, t.text, f"{t.at:%Y-%m-%d %H:%M:%S}" if t.at else "-")
        for t in turns(text)
        if isinstance(t, Turn)
    ]


@pytest.mark.parametrize(
    ("line", "speaker", "text", "at"),
    [
        ("[13.06.2023, 18:08:08] Ann: Hi", "Ann", "Hi", "2023-06-13 18:08:08"),
        ("[05.05.23, 15:48:11] J: Hi", "J", "Hi", "2023-05-05 15:48:11"),
        ("2023-12-20, 5:46 p.m. - F: x", "F", "x", "2023-12-20 17:46:00"),
        ("19/10/16, 13:24 - A: b", "A", "b", "2016-10-19 13:24:00"),
        ("1/23/23, 3:22 PM - Ann: text", "Ann", "text", "2023-01-23 15:22:00"),
        ("2/2/23, 2:51\u202fAM - P: x", "P", "x", "2023-02-02 02:51:00"),
        ("13/6/23 3:22 p.\u00a0m. - Ann: x", "Ann", "x", "2023-06-13 15:22:00"),
        ("\u200f١٣/٦/٢٠٢٣، ٣:٢٢ م - آن: سلام", "آن", "سلام", "2023-06-13 15:22:00"),
        ("[2023. 6. 13. 오후 3:22:11] 앤: 안녕", "앤", "안녕", "2023-06-13 15:22:11"),
        ("2023/6/13 上午9:05 - 安: 你好", "安", "你好", "2023-06-13 09:05:00"),
        ("[13.6.2023 klo 15.22.11] Ann: hei", "Ann", "hei", "2023-06-13 15:22:11"),
        ("13/06/2023 à 15:22 - Ann: oui", "Ann", "oui", "2023-06-13 15:22:00"),
        ("[13/6/2566 15:22:11] Ann: hi", "Ann", "hi", "2023-06-13 15:22:11"),
        ("12/31/22, 12:05 AM - Ann: x", "Ann", "x", "2022-12-31 00:05:00"),
        ("\ufeff[13.06.23, 18:08:08] ~\u202fAnn B: Hi", "Ann B", "Hi", "2023-06-13 18:08:08"),
        ("[13.06.23, 18:08:08] \u202a+1 555 0100\u202c: Hi", "+1 555 0100", "Hi",
         "2023-06-13 18:08:08"),
    ],
)  # fmt: skip
def test_each_locale_is_read(line: str, speaker: str, text: str, at: str) -> None:
    assert brief(line) == [(speaker, text, at)]


def test_day_and_month_are_told_from_the_whole_file() -> None:
    def dates(*days: str) -> list[str]:
        return [at[:10] for _, _, at in brief("\n".join(f"{day}, 13:24 - A: b" for day in days))]

    assert dates("1/2/23", "1/13/23") == ["2023-01-02", "2023-01-13"]
    assert dates("1/2/23", "13/2/23") == ["2023-02-01", "2023-02-13"]
    # both possible, one runs backward
    assert dates("5/1/23", "4/2/23", "3/3/23") == ["2023-01-05", "2023-02-04", "2023-03-03"]
    assert dates("1/5/23", "2/4/23", "3/3/23") == ["2023-01-05", "2023-02-04", "2023-03-03"]
    # a day with one digit after one with two
    assert dates("12/12/19", "1/1/20") == ["2019-12-12", "2020-01-01"]
    assert dates("1/5/23", "1/6/23", "1/7/23") == ["2023-01-05", "2023-01-06", "2023-01-07"]


def test_habits_decide_where_dates_do_not() -> None:
    assert brief("3/4/23, 3:22 PM - A: b")[0][2][:10] == "2023-03-04"
    assert brief("3/4/23, 3:22 pm - A: b")[0][2][:10] == "2023-04-03"
    assert brief("03.04.23, 15:22 - A: b")[0][2][:10] == "2023-04-03"


def test_a_mark_before_a_line_does_not_glue_it_to_the_last() -> None:
    text = "[13.06.23, 18:08:08] P: x\r\n\u200e[13.06.23, 18:08:09] P: \u200eimage omitted\r\n"
    assert [t for _, t, _ in brief(text)] == ["x", "image omitted"]


def test_a_message_goes_over_lines_that_may_begin_with_a_date() -> None:
    text = (
        "19/10/16, 13:24 - Ann: list:\n\n20/10/16 milk\n12/12/12, 12:12 no dash\n"
        "[19.10.16, 13:00:00] Bob: pasted\n19/10/16, 13:25 - Bob: ok"
    )
    first, second = brief(text)
    assert first[1].splitlines()[-1] == "[19.10.16, 13:00:00] Bob: pasted"
    assert second[:2] == ("Bob", "ok")


def test_system_lines_have_no_speaker() -> None:
    text = (
        "1/23/23, 3:22 PM - Messages and calls are end-to-end encrypted.\n"
        '1/23/23, 3:23 PM - Bob changed the subject from "a: b" to "c"\n'
        "1/23/23, 3:24 PM - Bob: see http://x.org: nice\n"
    )
    made = [t for t in turns(text) if isinstance(t, Turn)]
    assert [(t.role, t.speaker) for t in made] == [
        ("system", ""),
        ("system", ""),
        ("person", "Bob"),
    ]
    assert made[2].text == "see http://x.org: nice"
    (ios,) = turns(
        "[13.06.23, 18:08:08] Team: \u200eMessages and calls are end-to-end encrypted.\n"
    )
    assert isinstance(ios, Turn)
    assert (ios.role, ios.speaker) == ("system", "")


def test_names_with_a_colon() -> None:
    lines = "".join(f"1/{n}/23, 3:22 PM - Re: Zero: word {n}\n" for n in range(1, 7))
    lines += "1/8/23, 3:22 PM - 10:4 Club: yes\n"
    made = brief(lines)
    assert {speaker for speaker, _, _ in made} == {"Re: Zero", "10:4 Club"}
    assert made[0][1] == "word 1"


def test_flags_and_media_stay_readable() -> None:
    text = (
        "[13.06.23, 18:08:08] A: new text \u200e<This message was edited>\n"
        "[13.06.23, 18:08:09] A: \u200eDiese Nachricht wurde gelöscht.\n"
        "[13.06.23, 18:08:10] A: \u200e<attached: 01-PHOTO.jpg>\n"
        "[13.06.23, 18:08:11] A: <Media omitted>\n"
    )
    a, b, c, d = (t for t in turns(text) if isinstance(t, Turn))
    assert (a.text, a.edited, a.deleted) == ("new text", True, False)
    assert (b.text, b.deleted) == ("Diese Nachricht wurde gelöscht.", True)
    assert (c.text, d.text) == ("<attached: 01-PHOTO.jpg>", "<Media omitted>")


def test_equal_messages_of_a_minute_are_two_and_keep_their_ids() -> None:
    short = "1/1/23, 1:00 AM - A: hi\n1/1/23, 1:00 AM - A: hi\n1/1/23, 1:00 AM - A: there\n"
    ids = [t.id for t in turns(short) if isinstance(t, Turn)]
    assert len(set(ids)) == 3
    longer = "12/31/22, 1:00 AM - A: hi\n" + short + "1/13/23, 1:00 AM - A: hi\n"
    assert [t.id for t in turns(longer) if isinstance(t, Turn)][1:4] == ids


def test_the_zone_is_the_one_given() -> None:
    (turn,) = turns("19/10/16, 13:24 - A: b", zone=BERLIN)
    assert isinstance(turn, Turn)
    assert turn.at == dt.datetime(2016, 10, 19, 11, 24, tzinfo=dt.UTC)


def test_impossible_times_are_none() -> None:
    made = turns("19/10/16, 13:24 - A: b\n19/10/16, 25:99 - A: c\n99/99/16, 13:24 - A: d\n")
    assert [t.at is None for t in made if isinstance(t, Turn)] == [False, True, True]


def test_text_before_the_first_message_is_refused() -> None:
    refused, turn = turns("the end of something\n19/10/16, 13:24 - A: b\n")
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.MALFORMED
    assert isinstance(turn, Turn)


def test_saved_again_as_utf_16() -> None:
    (turn,) = turns("\ufeff19/10/16, 13:24 - A: grün\n".encode("utf-16-le"))
    assert isinstance(turn, Turn)
    assert turn.text == "grün"


@pytest.mark.parametrize(
    "text",
    [
        "Just a note.\n19/10/16 was a good day\n",
        "[2023-06-13 12:00:00] production.ERROR: no\n[2023-06-13 12:00:01] local.INFO: yes\n",
        "2023-06-13 12:00:00 - worker: started\n",
        "[12:34] <ann> hello\n",
        "",
    ],
)
def test_other_files_are_not_claimed(text: str) -> None:
    export = MemoryExport({"notes.txt": text.encode()})
    assert not chat_whatsapp.claims(export, export.names)


def test_titles() -> None:
    line = b"19/10/16, 13:24 - A: b"
    names = {
        "WhatsApp Chat with Ann.txt": "Ann",
        "WhatsApp Chat - The Club/_chat.txt": "The Club",
        "WhatsApp Chat mit Jo.txt": "Jo",
        "_chat.txt": "",
    }
    for name, title in names.items():
        (made,) = chat_whatsapp.read(MemoryExport({name: line}), [name], dt.UTC)
        assert not isinstance(made, Refused)
        assert (made.title, made.key) == (title, name)


SOUND = (
    "[13.06.23, 18:08:08] Ann: Hi\nmore\n[13.06.23, 18:08:09] ~ Bob: \u200eimage omitted\n"
    "[13.06.23, 18:08:10] Ann left\n"
).encode()


def ends_well(raw: bytes) -> Iterator[object]:
    for item in chat_whatsapp.read(MemoryExport({NAME: raw}), [NAME], dt.UTC):
        yield item
        if not isinstance(item, Refused):
            yield from item.turns


@given(st.integers(0, len(SOUND)), st.binary(max_size=8), st.integers(0, 20))
def test_damage_never_raises_anything_else(at: int, junk: bytes, cut: int) -> None:
    with contextlib.suppress(Refused):
        assert list(ends_well(SOUND[:at] + junk + SOUND[at + cut :]))
