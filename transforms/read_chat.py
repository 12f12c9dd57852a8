"""One group of files in, the conversations in it as documents out, and rejects. No error leaves here."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import PurePosixPath
from types import ModuleType
from zoneinfo import ZoneInfo

from stillroom.schemas.documents import Document
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms import (
    chat_benchmarks,
    chat_chatgpt,
    chat_claude,
    chat_discord,
    chat_irc,
    chat_mbox,
    chat_messages,
    chat_slack,
    chat_telegram,
    chat_whatsapp,
    chat_zulip,
)
from stillroom.transforms.exports import Files, is_archive, open_export
from stillroom.transforms.files import InputFile
from stillroom.transforms.parsed import Refused
from stillroom.transforms.read import make_reject, refusal
from stillroom.transforms.transcripts import documents_of

# In the order in which they are asked what is theirs: whole exports before single files, and the
# strict before the lenient.
FORMATS: dict[str, ModuleType] = {
    "slack": chat_slack,
    "zulip": chat_zulip,
    "chatgpt": chat_chatgpt,
    "claude": chat_claude,
    "discord": chat_discord,
    "telegram": chat_telegram,
    "benchmark": chat_benchmarks,
    "messages": chat_messages,
    "mbox": chat_mbox,
    "whatsapp": chat_whatsapp,
    "irc": chat_irc,
}
# Their conversations have ids of their own, so that a later export of an account is the same
# conversations; in the other formats a conversation is known by its file.
OWN_IDS = ("slack", "zulip", "chatgpt", "claude", "discord", "telegram", "benchmark")
# What people send along: it belongs to the export and is no input of its own.
_ATTACHMENTS = re.compile(
    r"\.(?:jpe?g|png|gif|webp|heic|svg|ico|mp4|mov|mkv|webm|3gp|opus|og[ga]|m4a|mp3|wav|amr|vcf|tgs|"
    r"pdf|docx?|xlsx?|pptx?|html|css|js|woff|dat)",
    re.IGNORECASE,
)


def read_chats(
    files: Sequence[InputFile], source: Source, max_chars: int
) -> Iterator[Document | Reject]:
    """The sessions of all conversations in a group of files (`exports.plan_exports`).

    Formats are told by content. A file in which no format sees a conversation is a Reject
    (UNSUPPORTED), but for what was sent along in an export in which one does. Never raises.
    """
    try:
        place, export = open_export(files)
        yield from _read_export(place, export, {f.path: f for f in files}, source, max_chars)
    except Exception as error:  # noqa: BLE001 - it belongs to this group, and is told
        yield make_reject(files[0], "", refusal(error, opening=True))


def zone_of(source: Source) -> tzinfo:
    """The zone of times that are written without one."""
    return ZoneInfo(source.timezone) if source.timezone else UTC


def _read_export(
    place: InputFile, export: Files, files: Mapping[str, InputFile], source: Source,
    max_chars: int,
) -> Iterator[Document | Reject]:  # fmt: skip
    """`place` is the archive or folder; a damaged file in it makes it a failed input as a whole, so
    that what is missing from it is stale and not removed."""
    left = list(export.names)
    for name, chat_format in FORMATS.items():
        claimed = list(chat_format.claims(export, left)) if left else []
        if not claimed:
            continue
        left = [one for one in left if one not in claimed]
        ids = f"chat:{name}" if name in OWN_IDS else place.path
        try:
            for made in chat_format.read(export, claimed, zone_of(source)):
                if isinstance(made, Refused):
                    yield make_reject(place, "", made)
                    continue
                for session in documents_of(made, source.name, ids, place.uri, name, max_chars):
                    if isinstance(session, Refused):
                        yield make_reject(place, "", session)
                    else:
                        yield session
        except Exception as error:  # noqa: BLE001 - the other formats' files are still to be read
            yield make_reject(place, "", refusal(error))
    recognised = len(left) < len(export.names)
    if is_archive(place.path) and not recognised:
        yield make_reject(place, "", _unrecognised(export, left[0]))
        return
    for one in left:
        if recognised and _ATTACHMENTS.fullmatch(PurePosixPath(one).suffix):
            continue
        refused = _unrecognised(export, one)
        if is_archive(place.path):
            yield make_reject(place, one, refused)
        else:
            yield make_reject(files[place.path + one], "", refused)


def _unrecognised(export: Files, name: str) -> Refused:
    """Why no format saw a conversation: the file cannot be opened, or is none."""
    try:
        with export.open(name) as stream:
            if not stream.read(1):
                return Refused(RejectReason.EMPTY, "no bytes")
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return refusal(error, opening=True)
    return Refused(RejectReason.UNSUPPORTED, f"no chat format recognises {name}")
