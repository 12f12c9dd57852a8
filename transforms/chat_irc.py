"""IRC logs as irssi, WeeChat, ZNC and EnergyMech write them (their `autolog`, `logger`, `log` modules).

The files of one channel, a day each, are one conversation. The date is in the line (WeeChat), in the
file's name (ZNC, EnergyMech), or in `--- Day changed` and `--- Log opened` (irssi); without any of
them times are unknown. Who came, left or changed a name or mode is left out: nothing was said.
Changed topics are kept as system turns. What a bouncer plays again is left out where it is there
already.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds, head_lines, text_lines
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.parsed import Refused

_LINE = re.compile(
    r"""\[?(?:(?P<date>\d{4}-\d\d-\d\d)[T ])?(?P<time>\d{1,2}:\d\d(?::\d\d)?)\]?
    (?:\t(?P<prefix>[^\t]*)\t|\s)(?P<body>.*)$""",
    re.VERBOSE | re.DOTALL,
)
_SPEECH = re.compile(r"<\s?[@+%&~!]?(?P<nick>[^>\s]+)>\s?(?P<text>.*)$", re.DOTALL)
_ACTION = re.compile(r"\s?\*\s(?P<nick>[^\s*]+)\s(?P<text>.*)$", re.DOTALL)
_NOTICE = re.compile(r"-(?P<nick>[^\s!-][^\s-]*)-\s(?P<text>.*)$", re.DOTALL)
_EVENT = re.compile(r"\s?(?:-!-|\*\*\*|-->|<--|--|={2,})\s?(?P<text>.*)$", re.DOTALL)
_TOPIC = re.compile(r"\btopic\b", re.IGNORECASE)
_MARKER = re.compile(r"(?:---|\*\*\*\*|Session (?:Start|Time|Close)|# )")
_MARKED_DAY = re.compile(
    r"(?:(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?:[\d:]+ )?(?P<year>\d{4})"
    r"|(?P<iso>\d{4}-\d\d-\d\d))"
)
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_NAMED_DAY = re.compile(
    r"[._-]?(?P<y>(?:19|20)\d\d)(?P<s>[-_.]?)(?P<m>\d\d)(?P=s)(?P<d>\d\d)(?!\d)"
)
_COLOURS = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6})?|[\x02\x0f\x11\x16\x1d\x1e\x1f]"
)
_PLAYED = re.compile(r"\[(?P<time>\d{1,2}:\d\d:\d\d)\] (?P<text>.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Said:
    """One line of a log that is something said, or an event (`nick` is empty)."""

    date: str
    time: str
    nick: str
    text: str


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """Files whose first lines are mostly timed lines of a log, with someone speaking among them."""
    return [name for name in names if _is_log(export.head(name))]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """One conversation a channel, through all its files in the order of their days."""
    channels: dict[str, list[tuple[date, str]]] = defaultdict(list)
    for name in names:
        channel, day = _channel(name)
        channels[channel].append((day or date.min, name))
    for channel in sorted(channels):
        files = [name for _, name in sorted(channels[channel])]
        title = channel.rpartition("/")[2]
        yield Conversation(channel, _Channel(export, files, zone).turns(), title)


def _is_log(head: bytes) -> bool:
    lines = [line for line in head_lines(head)[:200] if line.strip()]
    said = [found for line in lines if (found := _said(line))]
    known = len(said) + sum(bool(_MARKER.match(line)) for line in lines)
    return any(found.nick for found in said) and 2 * known > len(lines)


def _channel(name: str) -> tuple[str, date | None]:
    """A channel's name and the day, out of a path such as `net/#chan/2023-06-13.log`."""
    folder, _, file = name.rpartition("/")
    stem = re.sub(r"\.(?:log|txt|weechatlog)$", "", file, flags=re.IGNORECASE)
    found = _NAMED_DAY.search(stem)
    day = _date(found["y"], found["m"], found["d"]) if found else None
    if found and day:
        stem = stem[: found.start()] + stem[found.end() :]
    return "/".join(filter(None, (folder, stem))) or "channel", day


def _said(line: str) -> _Said | None:
    found = _LINE.match(line)
    if not found:
        return None
    body, prefix = found["body"], found["prefix"]
    if prefix is not None:  # WeeChat has columns
        prefix = prefix.strip().lstrip("@+%&~")
        body = f"* {body}" if prefix == "*" else body
        if prefix and prefix != "*":
            body = f"{prefix} {body}" if _EVENT.match(prefix) else f"<{prefix}> {body}"
    for pattern in (_SPEECH, _EVENT, _ACTION, _NOTICE):
        if part := pattern.match(body):
            groups = part.groupdict()
            nick = groups.get("nick", "")
            text = _COLOURS.sub("", groups["text"]).strip()
            if pattern is _ACTION:
                text = f"* {nick} {text}"
            return _Said(found["date"] or "", found["time"], nick, text)
    return None


class _Channel:
    """The files of one channel, read line by line."""

    def __init__(self, export: Export, names: Sequence[str], zone: tzinfo) -> None:
        self._export, self._names, self._zone = export, names, zone
        self._ids = ContentIds()
        self._day: date | None = None
        self._last: datetime | None = None
        self._playback = False

    def turns(self) -> Iterator[Turn | Refused]:
        recognised = False
        for name in self._names:
            self._day = _channel(name)[1]
            try:
                with self._export.open(name) as stream:
                    for line in text_lines(stream, sniff=False):
                        for turn in self._line(line):
                            recognised |= isinstance(turn, Turn)
                            yield turn
            except Refused as refused:  # the other days are sound
                yield Refused(refused.reason, refused.detail, name)
        if not recognised:
            yield Refused(RejectReason.EMPTY, "nobody said anything", self._names[0])

    def _line(self, line: str | Refused) -> Iterator[Turn | Refused]:
        if isinstance(line, Refused):
            yield line
        elif said := _said(line):
            yield from self._turn(said)
        elif _MARKER.match(line):
            self._day = _marked_day(line) or self._day
        elif line.strip("\0 \t\ufeff"):
            yield Refused(RejectReason.MALFORMED, f"no line of an IRC log: {line[:100]!r}")

    def _turn(self, said: _Said) -> Iterator[Turn]:
        if said.nick == "***":  # ZNC's own voice
            self._playback = "playback..." in said.text.lower()
            return
        if not said.text or (not said.nick and not _TOPIC.search(said.text)):
            return
        day = _date(*said.date.split("-")) if said.date else self._day
        clock, text = said.time, said.text
        played = _PLAYED.match(text) if self._playback else None
        if played:
            clock, text = played["time"], played["text"]
            if day and _clock(clock) > _clock(said.time):  # played after midnight
                day -= timedelta(days=1)
        written = f"{day or ''} {clock}"
        at = self._at(day, clock)
        # A line that goes back in time and is there already was played again.
        back = bool(at and self._last and at < self._last)
        if (played or back) and self._ids.seen(written, said.nick, text):
            return
        self._last = max(at, self._last) if at and self._last else at or self._last
        role = "person" if said.nick else "system"
        yield Turn(self._ids(written, said.nick, text), said.nick, text, role, at)

    def _at(self, day: date | None, clock: str) -> datetime | None:
        try:
            at = time(*_clock(clock))
        except ValueError:
            return None
        return datetime.combine(day, at, self._zone) if day else None


def _clock(written: str) -> tuple[int, int, int]:
    hour, minute, *second = (int(part) for part in written.split(":"))
    return hour, minute, second[0] if second else 0


def _marked_day(line: str) -> date | None:
    found = _MARKED_DAY.search(line)
    if not found:
        return None
    if found["iso"]:
        return _date(*found["iso"].split("-"))
    month = _MONTHS.index(found["month"]) + 1 if found["month"] in _MONTHS else 0
    return _date(found["year"], str(month), found["day"])


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
