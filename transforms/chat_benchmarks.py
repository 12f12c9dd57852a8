"""Benchmarks of conversational memory, as the chats that they ask about: LoCoMo (snap-research/locomo),
LongMemEval (xiaowu0162/LongMemEval) and MT-Bench+ (LuJunru/MemoChat).

Questions, answers and everything that was made from the chats (observations, summaries, marks of
what holds the answer) are never read: they would be found instead of the turns.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_blocks import content_text, readable
from stillroom.transforms.chat_lines import ContentIds
from stillroom.transforms.chat_values import (
    Record,
    UniqueKeys,
    claimed,
    dict_of,
    list_of,
    malformed,
    read_files,
    records,
    role_of,
    text_of,
    time_of,
    with_zone,
)
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.parsed import Refused

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D\d+:\d+")
_LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
_LONGMEMEVAL_TIME = re.compile(r"(\d{4})/(\d\d?)/(\d\d?)(?:\s*\(\w+\))?(?:\s+(\d\d?):(\d\d))?")


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    return claimed(export, names, lambda record: _reader_of(record) is not None)


def _reader_of(record: Record) -> Any:
    if _is_locomo(record):
        return _locomo
    if "haystack_sessions" in record or {"question_id", "haystack_dates"} <= record.keys():
        return _longmemeval
    if any("turn-info" in dict_of(turn) for turn in list_of(record.get("conversations"))):
        return _mtbenchplus
    return None


def _is_locomo(record: Record) -> bool:
    conversation = dict_of(record.get("conversation"))
    if "speaker_a" in conversation or any(map(_SESSION.fullmatch, conversation)):
        return True
    # The questions stand first, and may fill all that was looked at.
    first = next(iter(list_of(record.get("qa"))), None)
    evidence = list_of(dict_of(first).get("evidence"))
    return any(isinstance(item, str) and _EVIDENCE.search(item) for item in evidence)


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """LoCoMo and LongMemEval: a conversation for each session; MT-Bench+: one for each dialogue."""
    keys = UniqueKeys()

    def read_one(name: str) -> Iterator[Conversation | Refused]:
        for line, record in records(export, name):
            place = f"{name}:{line}"
            if isinstance(record, Refused):
                yield record
            elif reader := _reader_of(record):
                yield from reader(record, keys, place, zone)
            else:
                yield Refused(RejectReason.MALFORMED, "no chat of a benchmark that is known", place)

    yield from read_files(names, read_one)


def _locomo(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Iterator[Conversation | Refused]:
    sample = text_of(record.get("sample_id")) or place
    conversation = dict_of(record.get("conversation"))
    numbers = sorted(int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name)))
    if not numbers:
        yield Refused(RejectReason.EMPTY, "a sample without sessions", sample)
    for number in numbers:
        name = f"session_{number}"
        date = text_of(conversation.get(f"{name}_date_time"))
        turn = partial(_locomo_turn, date=date, zone=zone)
        key = keys(f"{sample}/{name}")
        yield _session(key, conversation[name], turn, f"session {number}", sample)


def _locomo_turn(message: Record, ids: ContentIds, date: str, zone: tzinfo) -> Turn | None:
    speaker, said = text_of(message.get("speaker")), content_text(message.get("text"))
    caption = text_of(message.get("blip_caption"))
    text = " ".join(filter(None, (said, f"[shares image: {caption}]" if caption else "")))
    if not text.strip():
        return None
    if not speaker:
        raise malformed("`speaker`", message.get("speaker"), "a name")
    name = text_of(message.get("dia_id")) or ids(date, speaker, text)
    return Turn(name, speaker, text, "person", _time(date, zone))


def _longmemeval(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Iterator[Conversation | Refused]:
    question = text_of(record.get("question_id")) or place
    sessions = list_of(record.get("haystack_sessions"))
    if not sessions:
        yield Refused(RejectReason.EMPTY, "a question without sessions", question)
    dates = _texts(record.get("haystack_dates"), len(sessions))
    given = _texts(record.get("haystack_session_ids"), len(sessions))
    given = [name or f"session_{i}" for i, name in enumerate(given, 1)]
    counts = Counter(given)
    for i, (name, date, session) in enumerate(zip(given, dates, sessions, strict=True)):
        # Some histories have a session twice, at two dates: both are kept.
        suffix = f"#{i}" if counts[name] > 1 else ""
        key = keys(f"{question}/{name}{suffix}")
        turn = partial(_model_turn, date=date, zone=zone)
        yield _session(key, session, turn, f"session {i + 1}", question)


def _texts(values: Any, count: int) -> list[str]:
    """As many texts as there are sessions, whatever the list is."""
    return [*map(text_of, list_of(values)), *[""] * count][:count]


def _mtbenchplus(
    record: Record, keys: UniqueKeys, place: str, zone: tzinfo
) -> Iterator[Conversation | Refused]:
    turns = list_of(record.get("conversations"))
    # The last that a person says is the question that the benchmark asks.
    asked = [
        i for i, turn in enumerate(turns) if role_of(text_of(dict_of(turn).get("from"))) == "user"
    ]
    key = keys(text_of(record.get("id")) or place)
    said = turns[: asked[-1]] if asked else turns
    yield _session(key, said, partial(_model_turn, date="", zone=zone))


def _model_turn(message: Record, ids: ContentIds, date: str, zone: tzinfo) -> Turn | None:
    word = text_of(message.get("role")) or text_of(message.get("from"))
    text = content_text(message["content"] if "content" in message else message.get("value"))
    if not text.strip():
        return None
    if not word:
        raise malformed("`role`", message.get("role"), "a name")
    role = role_of(word)
    speaker = word if role == "person" else role.capitalize()
    return Turn(ids(date, speaker, text), speaker, text, role, _time(date, zone))


def _session(
    key: str,
    messages: Any,
    turn: Callable[[Record, ContentIds], Turn | None],
    title: str = "",
    thread: str = "",
) -> Conversation | Refused:
    if not isinstance(messages, list):
        return malformed("a session", messages, "a list", key)
    ids, unique = ContentIds(), UniqueKeys()

    def made(message: Any) -> Turn | None:
        if not isinstance(message, dict):
            raise malformed("a turn", message, "an object")
        found = turn(message, ids)
        return found and replace(found, id=unique(found.id))

    turns = [
        found
        for number, message in enumerate(messages, 1)
        if (found := readable(partial(made, message), f"turn {number}"))
    ]
    if not turns:
        return Refused(RejectReason.EMPTY, "a session without turns", key)
    return Conversation(key, turns, title, thread)


def _time(date: str, zone: tzinfo) -> datetime | None:
    """The date of a session: `1:56 pm on 8 May, 2023`, `2023/05/30 (Tue) 23:40` or ISO 8601."""
    text = " ".join(date.split())
    try:
        if found := _LONGMEMEVAL_TIME.fullmatch(text):
            year, month, day, hour, minute = (int(part or 0) for part in found.groups())
            return with_zone(datetime(year, month, day, hour, minute), zone)
        if " on " in text:
            return with_zone(datetime.strptime(text, _LOCOMO_TIME), zone)
    except (ValueError, OverflowError):
        return None
    return time_of(date, zone)
