"""IRC logs of irssi, WeeChat, ZNC and EnergyMech."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_irc
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport


def conversations(files: dict[str, bytes]) -> dict[str, list[Turn | Refused]]:
    export = MemoryExport(files)
    names = chat_irc.claims(export, export.names)
    made: dict[str, list[Turn | Refused]] = {}
    for item in chat_irc.read(export, names, dt.UTC):
        assert not isinstance(item, Refused)
        made[item.key] = list(item.turns)
    return made


def brief(name: str, text: str | bytes) -> list[tuple[str, str, str]]:
    raw = text.encode() if isinstance(text, str) else text
    (made,) = conversations({name: raw}).values()
    return [
        (t.speaker, t.text, f"{t.at:%m-%d %H:%M:%S}" if t.at else "-")
        if isinstance(t, Turn)
        else ("refused", t.reason.value, "")
        for t in made
    ]


def test_irssi() -> None:
    log = (
        "--- Log opened Tue Jun 13 23:50:00 2023\n"
        "23:58 -!- ann [~ann@host] has joined #tea\n"
        "23:59 <@ann> hello <b>\n"
        "23:59 -!- ann changed the topic of #tea to: Green tea\n"
        "--- Day changed Wed Jun 14 2023\n"
        "00:01  * bob waves\n"
        "00:02 < ann> bob: hi\n"
        "--- Log closed Wed Jun 14 00:03:00 2023\n"
    )
    assert brief("#tea.log", log) == [
        ("ann", "hello <b>", "06-13 23:59:00"),
        ("", "ann changed the topic of #tea to: Green tea", "06-13 23:59:00"),
        ("bob", "* bob waves", "06-14 00:01:00"),
        ("ann", "bob: hi", "06-14 00:02:00"),
    ]


def test_weechat() -> None:
    log = (
        "2023-06-13 12:00:00\t-->\tann (~a@h) has joined #tea\n"
        "2023-06-13 12:00:01\t@ann\thello\tthere\n"
        "2023-06-13 12:00:02\t *\tbob waves\n"
        "2023-06-13 12:00:03\t<--\tann (~a@h) has quit (bye)\n"
        "2023-06-13 12:00:04\t--\tann is now known as eve\n"
    )
    assert brief("irc.net.#tea.weechatlog", log) == [
        ("ann", "hello\tthere", "06-13 12:00:01"),
        ("bob", "* bob waves", "06-13 12:00:02"),
    ]


def test_znc_days_are_one_conversation() -> None:
    files = {
        "net/#tea/2023-06-14.log": b"[00:00:01] <ann> two\n",
        "net/#tea/2023-06-13.log": b"[12:00:00] *** Joins: ann (a@h)\n[12:00:01] <ann> one\n",
        "net/#mate/2023-06-13.log": b"[12:00:01] -bob- psst\n[12:00:02] * bob waves\n",
    }
    made = conversations(files)
    assert list(made) == ["net/#mate", "net/#tea"]
    tea = [t for t in made["net/#tea"] if isinstance(t, Turn)]
    assert [t.text for t in tea] == ["one", "two"]
    assert tea[1].at == dt.datetime(2023, 6, 14, 0, 0, 1, tzinfo=dt.UTC)
    assert [t.text for t in made["net/#mate"] if isinstance(t, Turn)] == ["psst", "* bob waves"]


def test_energymech() -> None:
    log = "[12:34] *** Joins: ann (a@h)\n[12:34] <ann> hi\n[9:05] <bob> early\n"
    assert brief("#tea_20230613.log", log) == [
        ("ann", "hi", "06-13 12:34:00"),
        ("bob", "early", "06-13 09:05:00"),
    ]


def test_times_without_a_date_and_impossible_ones_are_unknown() -> None:
    assert brief("tea.log", "[12:34] <ann> hi\n") == [("ann", "hi", "-")]
    assert brief("tea.log", "[2023-02-31 12:34] <ann> hi\n")[0][2] == "-"
    assert brief("2023-06-13.log", "[99:34] <ann> hi\n")[0][2] == "-"


def test_mixed_encodings_and_colours() -> None:
    log = "[12:34] <ann> grün\n".encode() + "[12:35] <bob> \x0304,12schön\x0f\n".encode("latin-1")
    log += b"[12:36] <bob> \x02\x1dbold\x1d\x02 5\n"
    assert [text for _, text, _ in brief("tea.log", log)] == ["grün", "schön", "bold 5"]


def test_a_replay_by_a_bouncer_comes_once() -> None:
    log = (
        "2023-06-13 12:00:01\tann\tone\n2023-06-13 12:00:01\tann\tone\n"
        "2023-06-13 12:00:09\tbob\ttwo\n2023-06-13 12:00:01\tann\tone\n"
        "2023-06-13 12:00:05\tann\tmissed\n2023-06-13 12:00:10\tann\tthree\n"
    )
    assert [t for _, t, _ in brief("x.log", log)] == ["one", "one", "two", "missed", "three"]


def test_znc_playback_has_its_times_in_the_text() -> None:
    log = (
        "[23:50:00] <ann> one\n[23:59:00] <***> Buffer Playback...\n"
        "[23:59:00] <ann> [23:50:00] one\n[23:59:00] <bob> [23:55:00] two\n"
        "[23:59:01] <***> Playback Complete.\n[23:59:30] <bob> [23:55:00] I quote\n"
    )
    assert brief("2023-06-13.log", log) == [
        ("ann", "one", "06-13 23:50:00"),
        ("bob", "two", "06-13 23:55:00"),
        ("bob", "[23:55:00] I quote", "06-13 23:59:30"),
    ]


def test_ids_do_not_depend_on_what_comes_later() -> None:
    first = b"[12:00:01] <ann> one\n[12:00:01] <ann> one\n"
    (short,) = conversations({"2023-06-13.log": first}).values()
    (longer,) = conversations({"2023-06-13.log": first + b"[12:00:02] <ann> one\n"}).values()
    ids = [t.id for t in longer if isinstance(t, Turn)]
    assert len(set(ids)) == 3
    assert [t.id for t in short if isinstance(t, Turn)] == ids[:2]


def test_what_is_no_line_is_refused_and_joins_alone_are_empty() -> None:
    assert brief("x.log", "[12:34] <ann> hi\nsomething else\n[12:35] <ann> ho\n")[1][0] == "refused"
    export = MemoryExport({"x.log": b"[12:34] *** Joins: ann (a@h)\n"})
    (made,) = chat_irc.read(export, export.names, dt.UTC)
    assert not isinstance(made, Refused)
    (refused,) = made.turns
    assert isinstance(refused, Refused)
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    export = MemoryExport(
        {
            "a.txt": b"19/10/16, 13:24 - A: b\n",
            "b.log": b"2023-06-13 12:00:00 INFO started\n2023-06-13 12:00:01 INFO done\n",
            "c.md": b"At 12:34 <ann> said\n\nHello\n",
            "d.json": b'[{"ts": "12:34"}]',
            "e": b"",
        }
    )
    assert not chat_irc.claims(export, export.names)


SOUND = "--- Log opened Tue Jun 13 23:50:00 2023\n23:59 <@ann> ü\n00:01  * bob waves\n".encode()


@given(st.integers(0, len(SOUND)), st.binary(max_size=8), st.integers(0, 20))
def test_damage_never_raises(at: int, junk: bytes, cut: int) -> None:
    export = MemoryExport({"x.log": SOUND[:at] + junk + SOUND[at + cut :]})
    for item in chat_irc.read(export, export.names, dt.UTC):
        assert not isinstance(item, Refused)
        assert list(item.turns)
