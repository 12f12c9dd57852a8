"""WhatsApp's text export ("Export chat"): `_chat.txt` of iOS, `WhatsApp Chat with X.txt` of Android.

There is no specification: each line is written in the phone's locale. The order of day and month is
decided for a whole file, by what is possible, what runs forward in time, and the locale's habits.
Lines that look like a beginning, but not like the file's other beginnings, continue a message.
Times have no zone; messages have no ids, and two of one minute may be equal.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, time, tzinfo

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_dates import DateHabits, day_of
from stillroom.transforms.chat_lines import MAX_LINE_CHARS, ContentIds, head_lines, text_lines
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.parsed import Refused

_MORNING = (
    r"a\.?\s?m\.?|vorm\.|f\.?m\.?|ap\.|dop\.|de\.|sa|öö|π\.?\s?μ\.?|пр\.\s?об\.|ق\.ظ\.?|ص|לפנה״צ"
    r"|上午|午前|凌晨|清晨|早上|오전|पूर्वाह्न"
)
_EVENING = (
    r"p\.?\s?m\.?|nachm\.|e\.?m\.?|ip\.|odp\.|du\.|ch|ös|μ\.?\s?μ\.?|сл\.\s?об\.|ب\.ظ\.?|م|אחה״צ"
    r"|下午|午後|中午|晚上|오후|अपराह्न"
)
_HEADER = re.compile(
    rf"""(?P<open>\[)?
    (?P<a>\d{{1,4}})(?P<separator>[./-])\s?(?P<b>\d{{1,2}})[./-]\s?(?P<c>\d{{1,4}})\.?
    [,،]?\s+(?:(?:at|um|à|klo|kl\.?)\s)?
    (?P<before>{_MORNING}|{_EVENING})?\s?
    (?P<hour>\d{{1,2}})[:.](?P<minute>\d{{2}})(?:[:.](?P<second>\d{{2}}))?
    \s?(?P<after>{_MORNING}|{_EVENING})?
    (?(open)\]|\s[-–])(?:\s.*)?$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_HEADER_END = (re.compile(r"\s[-–](?:\s|$)"), re.compile(r"\](?:\s|$)"))
_EVENING_ONLY = re.compile(_EVENING, re.IGNORECASE)
_BIDI = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_NO_BIDI = dict.fromkeys(map(ord, _BIDI))
_SPACES = str.maketrans("\u00a0\u202f\u2009", "   ")
_MAX_HEADER = 2000  # characters in which a time and a name must be found
_COLON = re.compile(r":(?=\s|\u200e|\Z)")  # not that of `10:4 Club`
_LEVEL = re.compile(
    r"(?i)(?:^|[.\s\[|])(?:error|info|debug|warn(?:ing)?|notice|critical|fatal|trace)\]?$"
)
_ENCRYPTED = re.compile(
    r"(?i)end-to-end|ende-zu-ende|extremo a extremo|bout en bout|ponta a ponta|сквозн|uçtan uca"
)
_EDITED = re.compile(
    r"\s*\u200e?<[^<>\n]{0,40}(?:edited|bearbeitet|edit[óao]|modifi[ée]|modificato|bewerkt|изменено"
    r"|düzenlendi)[^<>\n]{0,40}>\s*$"
)
_DELETED = frozenset(
    """this message was deleted|you deleted this message|diese nachricht wurde gelöscht
    du hast diese nachricht gelöscht|se eliminó este mensaje|este mensaje fue eliminado
    eliminaste este mensaje|ce message a été supprimé|vous avez supprimé ce message
    mensagem apagada|esta mensagem foi apagada|você apagou esta mensagem
    questo messaggio è stato eliminato|hai eliminato questo messaggio|dit bericht is verwijderd
    je hebt dit bericht verwijderd|данное сообщение удалено|вы удалили данное сообщение
    bu mesaj silindi|bu mesajı sildiniz""".replace("\n    ", "|").split("|")
)
_TITLE = re.compile(r"(?i)^.*whatsapp.*?(?: - | with | mit | con | avec | com | met | с )")
_NAME_EVIDENCE = 5


@dataclass(frozen=True, slots=True)
class _Header:
    """A line that begins a message, as written."""

    style: tuple[bool, str, bool]
    date: tuple[str, str, str]
    hour: str
    minute: str
    second: str
    half: str
    written: str
    rest: str


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """Text files that begin with a dated message. Server logs look alike: they name a level where
    people have a name, and are not called `.txt`."""
    return [
        name
        for name in names
        if name.lower().endswith(".txt") or "." not in name.rsplit("/", 1)[-1]
        if _is_chat(export.head(name))
    ]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation a file, read twice: for its habits, then for its messages."""
    for name in names:
        try:
            habits = _habits(export, name)
        except Refused as refused:
            yield Refused(refused.reason, refused.detail, name)
            continue
        if habits is None:
            yield Refused(RejectReason.MALFORMED, "no line begins a WhatsApp message", name)
        else:
            yield Conversation(name, _turns(export, name, habits, zone), _title(name))


def _is_chat(head: bytes) -> bool:
    lines = [line for line in head_lines(head) if line.strip()][:50]
    found = [header for line in lines if (header := _header(line))]
    speakers = [speaker for header in found if (speaker := _split(header.rest, {})[0])]
    # The first message may be cut, as where someone took a part of a chat.
    return bool(found and speakers) and not any(map(_LEVEL.search, speakers))


def _header(line: str) -> _Header | None:
    start = line[:_MAX_HEADER].lstrip(_BIDI + " ")
    found = _HEADER.match(start.translate(_NO_BIDI).translate(_SPACES))
    if not found:
        return None
    bracketed = bool(found["open"])
    if not bracketed and found["second"]:  # Android writes no seconds, server logs do
        return None
    written = [found[part] or "" for part in ("a", "b", "c", "hour", "minute", "second")]
    half = found["before"] or found["after"] or ""
    return _Header(
        (bracketed, found["separator"], bool(found["second"])),
        (written[0], written[1], written[2]),
        written[3],
        written[4],
        written[5],
        half,
        " ".join([*written, half]),
        _HEADER_END[bracketed].split(line, 1)[-1],  # from the line itself: with its own marks
    )


@dataclass(frozen=True, slots=True)
class _Habits:
    """What one file's messages have in common. `names` holds names with a colon in them, by the part
    before it."""

    style: tuple[bool, str, bool]
    order: str
    names: dict[str, str]


def _habits(export: Export, name: str) -> _Habits | None:
    styles: dict[tuple[bool, str, bool], DateHabits] = {}
    prefixes: dict[str, tuple[str, int]] = {}
    try:
        with export.open(name) as stream:
            for line in text_lines(stream):
                header = None if isinstance(line, Refused) else _header(line)
                if header:
                    styles.setdefault(header.style, DateHabits()).add(header.date, header.half)
                    _note_prefix(prefixes, header.rest)
    except Refused:
        if not styles:
            raise  # else it is met again, after the messages before it
    if not styles:
        return None
    style = max(styles, key=lambda key: styles[key].count)
    names = {first: second for first, (second, n) in prefixes.items() if n >= _NAME_EVIDENCE}
    return _Habits(style, styles[style].order(style[1]), {k: v for k, v in names.items() if v})


def _note_prefix(prefixes: dict[str, tuple[str, int]], rest: str) -> None:
    """Whether all that comes after `Re: ` begins with `Zero: `: then the name is `Re: Zero`."""
    first, colon, after = rest[:_MAX_HEADER].partition(": ")
    second = after.partition(": ")[0] if ": " in after else ""
    if colon and (first in prefixes or len(prefixes) < 10_000):
        known, count = prefixes.get(first, (second, 0))
        prefixes[first] = (second if known == second else "", count + 1)


def _turns(export: Export, name: str, habits: _Habits, zone: tzinfo) -> Iterator[Turn | Refused]:
    ids = ContentIds()
    header: _Header | None = None
    lines: list[str] = []
    size = 0

    def made() -> Iterator[Turn | Refused]:
        if size > MAX_LINE_CHARS:
            yield Refused(RejectReason.TOO_LARGE, f"a message of {size:,} characters")
        elif header:
            yield _turn(header, lines, habits, zone, ids)
        elif any(line.strip() for line in lines):
            yield Refused(RejectReason.MALFORMED, f"before the first message: {lines[0][:100]!r}")

    try:
        with export.open(name) as stream:
            for line in text_lines(stream):
                if isinstance(line, Refused):
                    yield line
                    continue
                found = _header(line)
                if found and found.style == habits.style:
                    yield from made()
                    header, lines, size = found, [], 0
                elif size <= MAX_LINE_CHARS:
                    lines.append(line)
                    size += len(line) + 1
    except Refused:
        yield from made()
        raise
    yield from made()


def _turn(
    header: _Header, lines: list[str], habits: _Habits, zone: tzinfo, ids: ContentIds
) -> Turn:
    speaker, first = _split(header.rest, habits.names)
    text = "\n".join([first.lstrip(_BIDI), *lines]).strip()
    edited = bool(_EDITED.search(text[-200:]))
    if edited:
        text = text[:-200] + _EDITED.sub("", text[-200:])
    system = not speaker or (first.startswith("\u200e") and bool(_ENCRYPTED.search(first[:500])))
    return Turn(
        ids(header.written, speaker, text),
        "" if system else speaker,
        text,
        "system" if system else "person",
        _at(header, habits.order, zone),
        edited=edited,
        deleted=text.casefold().rstrip(". ") in _DELETED,
    )


def _split(rest: str, names: dict[str, str]) -> tuple[str, str]:
    """Who speaks, and what: nobody where there is no colon, or a quotation before it, as in `Bob
    changed the subject from "a: b"`."""
    colon = _COLON.search(rest, 0, _MAX_HEADER)
    if not colon:
        return "", rest
    written, text = rest[: colon.start()], rest[colon.start() + 1 :]
    second = names.get(written)
    if second and text.startswith(f" {second}: "):
        written, text = f"{written}: {second}", text[len(second) + 2 :]
    if re.search('["“”«»„]', written):
        return "", rest
    speaker = written.translate(_NO_BIDI).translate(_SPACES).strip().removeprefix("~").strip()
    return speaker, text.removeprefix(" ")


def _at(header: _Header, order: str, zone: tzinfo) -> datetime | None:
    day = day_of(header.date, order)
    hour = int(header.hour)
    if header.half and hour <= 12:
        hour = hour % 12 + (12 if _EVENING_ONLY.fullmatch(header.half) else 0)
    try:
        clock = time(hour, int(header.minute), int(header.second or 0), tzinfo=zone)
    except ValueError:
        return None
    return datetime.combine(day, clock) if day else None


def _title(name: str) -> str:
    """Whom the chat is with: in the file's name, or, on iOS, in its folder's."""
    folder, _, file = name.rpartition("/")
    title = file.removesuffix(".txt")
    if title.lstrip("_").lower() == "chat":
        title = folder.rpartition("/")[2]
    return _TITLE.sub("", title)
