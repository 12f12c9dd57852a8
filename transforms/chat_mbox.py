"""Mail in mbox files (Mailman archives, Google Takeout, Thunderbird): a thread is a conversation.

Threads come from References and In-Reply-To, else from an answer's subject. A mail that is in several
folders comes once. RFC 4155 (mbox), RFC 5322 (References), RFC 2047 (encoded words in headers).
"""

import email
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from email.header import decode_header
from email.message import Message
from email.utils import parseaddr, parsedate_to_datetime
from typing import Any, BinaryIO

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms.chat_lines import ContentIds
from stillroom.transforms.chat_spool import Spool
from stillroom.transforms.chat_values import with_zone
from stillroom.transforms.conversations import Conversation, Export, Turn
from stillroom.transforms.decode import BinaryContent, decode_text
from stillroom.transforms.html_markdown import parse_html
from stillroom.transforms.parsed import Refused

MAX_MAIL_BYTES = 1 << 26
_HEAD = re.compile(rb"\A\s*From \S[^\r\n]*\r?\n[!-9;-~]+:[ \t\r\n]")
_FIELD = re.compile(rb"[!-9;-~]+:")
_DATED_FROM = re.compile(rb"From \S.*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d{4}")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)
_ID = re.compile(r"<[^<>\s]+>")
_ANSWER = re.compile(
    r"^\s*(?:(?:re|aw|sv|antw|rif|odp|fwd?|wg|tr)(?:\[\d+\])?\s*:\s*)+", re.IGNORECASE
)
_LIST_TAG = re.compile(r"^\s*\[[^\]]{1,40}\]\s*")
_FROM_DATE = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*$")
_MAX_DEPTH = 20  # of parts in parts
# What the standard library raises for hostile mail, beside what is documented.
_MAIL_ERRORS = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError)


def claims(export: Export, names: Sequence[str]) -> Sequence[str]:
    """Files that begin with a `From ` line and a header."""
    return [name for name in names if _HEAD.match(export.head(name))]


def read(export: Export, names: Sequence[str], zone: tzinfo) -> Iterator[Conversation | Refused]:
    """Threads in the order of their first mails, through all files."""
    threads = _Threads()
    ids = ContentIds()
    with Spool() as spool:
        for name in sorted(names):
            for number, raw in enumerate(_mails(export, name), 1):
                mail = raw if isinstance(raw, Refused) else _mail(raw, f"{name}:{number}", zone)
                if isinstance(mail, Refused):
                    yield Refused(mail.reason, mail.detail, mail.key or f"{name}:{number}")
                elif mail["text"]:
                    mail["id"] = mail["id"] or ids(mail["date"], mail["speaker"], mail["text"])
                    if threads.add(mail):
                        spool.add(mail["id"], mail)
        mails: dict[str, list[str]] = defaultdict(list)
        for identifier in spool.groups():
            mails[threads.key(identifier)].append(identifier)
        for key, identifiers in mails.items():
            title = _subject(next(spool.records(identifiers[0]))["subject"])
            yield Conversation(key, _turns(spool, identifiers), title)
        if not spool.groups():
            yield Refused(RejectReason.EMPTY, "no mail with a text", names[0] if names else "")


class _Threads:
    """Which thread a mail belongs to. The key is the first mail's id, even where that mail is not in
    the export, so that a longer one gives the same. A mail may join threads, as where one folder
    has the questions and another the answers."""

    def __init__(self) -> None:
        self._joined: dict[str, str] = {}  # each id, and an older one of its thread or itself
        self._by_subject: dict[str, str] = {}
        self._seen = set[str]()

    def add(self, mail: dict[str, Any]) -> bool:
        """False for a mail that was there before."""
        identifier, references = mail["id"], mail["references"]
        if identifier in self._seen:
            return False
        self._seen.add(identifier)
        subject = _subject(mail["subject"]).casefold()
        if not references and _ANSWER.match(_LIST_TAG.sub("", mail["subject"])):
            references = filter(None, [self._by_subject.get(subject)])
        chain = [*references, identifier]  # oldest first
        first = self.key(chain[0])
        for name in chain:
            self._joined[self.key(name)] = first
        self._joined[first] = first
        if subject:
            self._by_subject[subject] = first
        return True

    def key(self, identifier: str) -> str:
        """The thread that a mail's id belongs to by now."""
        path = []
        while (above := self._joined.get(identifier, identifier)) != identifier:
            path.append(identifier)
            identifier = above
        for name in path:
            self._joined[name] = identifier
        return identifier


def _mails(export: Export, name: str) -> Iterator[bytes | Refused]:
    """The mails of a file, split where a `From ` line precedes a header and follows a blank line or
    has a date: writers do not always quote such lines in bodies, nor end mails with a blank line."""
    lines = list[bytes]()
    size, damage = 0, list[Refused]()
    previous = held = b""

    def mail() -> Iterator[bytes | Refused]:
        if size > MAX_MAIL_BYTES:
            yield Refused(RejectReason.TOO_LARGE, f"a mail of {size:,} bytes")
        elif any(line.strip() for line in lines):
            yield b"".join(lines)

    for line in _lines(export, name, damage):
        if held and _FIELD.match(line):
            yield from mail()
            lines, size = [held], len(held)
        elif held:
            lines.append(held)
            size += len(held)
        begins = line.startswith(b"From ") and (not previous.strip() or _DATED_FROM.match(line))
        held = line if begins else b""
        previous = line
        if not held:
            size += len(line)
            if size <= MAX_MAIL_BYTES:
                lines.append(line)
    if held:
        lines.append(held)
    yield from mail()
    yield from damage


def _lines(export: Export, name: str, damage: list[Refused]) -> Iterator[bytes]:
    """Lines, up to where the file is damaged; long ones in pieces."""
    try:
        with export.open(name) as stream:
            yield from _pieces(stream)
    except Refused as refused:
        damage.append(Refused(refused.reason, refused.detail, name))


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(1 << 16):
        yield line


def _mail(raw: bytes, key: str, zone: tzinfo) -> dict[str, Any] | Refused:
    first, _, rest = raw.lstrip().partition(b"\n")
    try:
        message = email.message_from_bytes(_QUOTED_FROM.sub(rb"\1", rest))
        headers = _headers(message)
        if not headers:
            return Refused(RejectReason.MALFORMED, f"no header after {first[:100]!r}", key)
        at, inferred = _date(headers.get("date", ""), first, zone)
        name, address = parseaddr(headers.get("from", ""))
        text = "\n".join(part for part in _texts(message) if part.strip()).strip("\n")
    except _MAIL_ERRORS as error:
        return Refused(RejectReason.MALFORMED, f"{type(error).__name__}: {error}", key)
    answered = _ID.findall(headers.get("in-reply-to", ""))
    references = [*_ID.findall(headers.get("references", "")), *answered]
    subject = " ".join(headers.get("subject", "").split())
    own = _ID.findall(headers.get("message-id", ""))
    return {
        "id": own[0] if own else "",
        "date": headers.get("date", ""),
        "speaker": name.strip() or address or headers.get("from", "").strip() or "unknown",
        "text": text if text.strip() else subject,
        "subject": subject,
        "at": at.isoformat() if at else "",
        "inferred": inferred,
        "references": list(dict.fromkeys(references)),
        "reply_to": references[-1] if references else "",
    }


def _headers(message: Message) -> dict[str, str]:
    """The first of each header, decoded."""
    made: dict[str, str] = {}
    for name, value in message.raw_items():
        if name.lower() not in made:
            made[name.lower()] = _decoded(str(value))
    return made


def _decoded(value: str) -> str:
    """Encoded words, and bytes that should have been encoded, as text."""
    if not value.isascii():
        value = _text_of(value.encode("utf-8", "surrogateescape"), None)
    try:
        parts = decode_header(value)
    except _MAIL_ERRORS:
        return value
    return "".join(
        part if isinstance(part, str) else _text_of(part, charset) for part, charset in parts
    )


def _text_of(raw: bytes, charset: str | None) -> str:
    try:
        return decode_text(raw, charset)[0]
    except BinaryContent:
        return ""


def _date(written: str, from_line: bytes, zone: tzinfo) -> tuple[datetime | None, bool]:
    """When it was written; where the header does not say, when the `From ` line says it came."""
    found = _FROM_DATE.search(from_line.decode("ascii", "replace"))
    for text, inferred in ((written, False), (found[0].strip() if found else "", True)):
        try:
            at = with_zone(parsedate_to_datetime(text), zone)
        except _MAIL_ERRORS:
            continue
        if at:
            return at, inferred
    return None, False


def _texts(part: Message, depth: int = 0) -> Iterator[str]:
    """The texts of a mail: of alternatives the plain one; attachments of text whole, others by name."""
    if depth > _MAX_DEPTH:
        return
    payload = part.get_payload()
    if not isinstance(payload, list):
        yield from _leaf(part)
        return
    children = [child for child in payload if isinstance(child, Message)]
    if part.get_content_type() == "message/rfc822" and children:
        yield f"[mail: {_headers(children[0]).get('subject', '')}]"
    if part.get_content_subtype() == "alternative":
        children.sort(key=lambda child: child.get_content_type() != "text/plain")
        for child in children:
            made = [text for text in _texts(child, depth + 1) if text.strip()]
            if made:
                yield from made
                return
    for child in children:
        yield from _texts(child, depth + 1)


def _leaf(part: Message) -> Iterator[str]:
    kind = part.get_content_type()
    name = _decoded(part.get_filename() or "")
    if part.get_content_maintype() != "text":
        yield f"[file: {name or kind}]"
        return
    raw = part.get_payload(decode=True)
    text = _text_of(raw, part.get_content_charset()) if isinstance(raw, bytes) else ""
    if name:
        yield f"[file: {name}]"
    yield parse_html(text).text if kind == "text/html" else text


def _subject(written: str) -> str:
    """Without the marks of answers and mailing lists, in whatever order they stand."""
    before = None
    while before != written:
        before = written
        written = _ANSWER.sub("", _LIST_TAG.sub("", written))
    return written.strip()


def _turns(spool: Spool, identifiers: Sequence[str]) -> Iterator[Turn]:
    last = datetime.min.replace(tzinfo=UTC)
    timed = []
    mails = (mail for identifier in identifiers for mail in spool.records(identifier))
    for mail in mails:  # what has no time stays behind the mail before it
        last = datetime.fromisoformat(mail["at"]) if mail["at"] else last
        timed.append((last, mail))
    for _, mail in sorted(timed, key=lambda pair: pair[0]):
        yield Turn(
            mail["id"],
            mail["speaker"],
            mail["text"],
            at=datetime.fromisoformat(mail["at"]) if mail["at"] else None,
            inferred=mail["inferred"],
            reply_to=mail["reply_to"],
        )
