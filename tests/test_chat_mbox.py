"""Mail in mbox files."""

import datetime as dt
from email.message import EmailMessage
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import chat_mbox
from stillroom.transforms.conversations import Conversation, Turn
from stillroom.transforms.parsed import Refused
from tests.chat_exports import MemoryExport

FROM = b"From ann@x.org Tue Jun 13 12:00:00 2023\n"


def mail(number: int, body: bytes | str = "hi\n", **headers: str) -> bytes:
    named = {
        "From": "Ann <ann@x.org>",
        "Date": f"Tue, 13 Jun 2023 12:00:{number:02} +0200",
        "Message-ID": f"<m{number}@x.org>",
        "Subject": "Tea",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    written = "".join(f"{name}: {value}\n" for name, value in named.items() if value)
    raw = body.encode() if isinstance(body, str) else body
    return FROM + written.encode("utf-8", "surrogateescape") + b"\n" + raw + b"\n"


def read(*mails: bytes, **files: bytes) -> dict[str, Any]:
    export = MemoryExport({"list.mbox": b"".join(mails), **files} if mails else files)
    names = chat_mbox.claims(export, export.names)
    assert list(names) == list(export.names)
    found: dict[str, Any] = {}
    for item in chat_mbox.read(export, names, dt.UTC):
        if isinstance(item, Refused):
            found[f"refused {len(found)}"] = item
        else:
            found[item.key] = list(item.turns)
    return found


def texts(*mails: bytes, **files: bytes) -> list[list[str]]:
    return [[turn.text for turn in turns] for turns in read(*mails, **files).values()]


def one(*args: Any, **more: Any) -> Turn:
    ((turn,),) = read(mail(1, *args, **more)).values()
    assert isinstance(turn, Turn)
    return turn


def test_a_mail() -> None:
    turn = one("Hello\n> quoted\n")
    assert (turn.id, turn.speaker, turn.text) == ("<m1@x.org>", "Ann", "Hello\n> quoted")
    assert turn.at == dt.datetime(2023, 6, 13, 10, 0, 1, tzinfo=dt.UTC)


def test_threads_by_references_then_by_subject() -> None:
    made = read(
        mail(1, "ask"),
        mail(2, "answer", Subject="Re: Tea", References="<m1@x.org>"),
        mail(3, "other", Subject="Cups"),
        mail(4, "again", Subject="Renamed", In_Reply_To="<m2@x.org>"),
        mail(5, "no ids", Subject="[list] AW: Re: tea"),
        mail(6, "same words, new thread"),
        mail(7, "late", References="<gone@x.org> <m0@x.org>"),
        mail(8, "later", References="<m0@x.org>"),
    )
    assert {key: [turn.text for turn in turns] for key, turns in made.items()} == {
        "<m1@x.org>": ["ask", "answer", "again", "no ids"],
        "<m3@x.org>": ["other"],
        "<m6@x.org>": ["same words, new thread"],
        "<gone@x.org>": ["late", "later"],
    }
    assert made["<m1@x.org>"][2].reply_to == "<m2@x.org>"


def test_folders_are_one_export_and_a_mail_comes_once() -> None:
    inbox = mail(1, "ask") + mail(3, "thanks", In_Reply_To="<m2@x.org>")
    sent = mail(2, "answer", In_Reply_To="<m1@x.org>") + mail(1, "ask")
    assert texts(inbox=inbox, sent=sent) == [["ask", "answer", "thanks"]]


def test_lines_that_begin_with_from() -> None:
    body = "one\n\nFrom here on it is text\n>From quoted\nend"
    assert texts(mail(1, body), mail(2, "next", Subject="B")) == [
        ["one\n\nFrom here on it is text\nFrom quoted\nend"],
        ["next"],
    ]


def test_encodings_of_headers_and_bodies() -> None:
    turn = one(
        "sch=F6n=\n!",
        From="=?utf-8?q?J=C3=BCrgen?= <j@x.org>",
        Content_Type="text/plain; charset=iso-8859-1",
        Content_Transfer_Encoding="quoted-printable",
    )
    assert (turn.speaker, turn.text) == ("Jürgen", "schön!")
    assert one("grün".encode("latin-1"), Content_Type="text/plain; charset=nonsense").text == "grün"
    assert one(From="J\udcfcrgen <j@x.org>").speaker == "Jürgen"
    assert one(From="=?nonsense?q?J=C3=BCrgen?= <j@x.org>").speaker == "Jürgen"
    assert one(From="ann at x.org (Ann B)").speaker == "Ann B"


def test_plain_before_html_and_attachments() -> None:
    message = EmailMessage()
    message["From"], message["Message-ID"] = "ann@x.org", "<a@x.org>"
    message.set_content("plain words\n")
    message.add_alternative("<p>html words</p>", subtype="html")
    message.add_attachment("a,b\n", subtype="csv", filename="t.csv")
    message.add_attachment(b"\x00", maintype="image", subtype="png", filename="tee.png")
    (((turn,)),) = read(FROM + message.as_bytes()).values()
    assert turn.text.split("\n") == [
        "plain words",
        "",
        "[file: t.csv]",
        "a,b",
        "",
        "[file: tee.png]",
    ]
    assert one("<p>only <b>html</b></p>", Content_Type="text/html").text == "only html"
    assert one("").text == "Tea"


def test_times_that_cannot_be_told() -> None:
    missing = one(Date="")
    assert missing.inferred
    assert missing.at == dt.datetime(2023, 6, 13, 12, tzinfo=dt.UTC)
    assert one(Date="Tue, 99 Jun 2023 99:00:00 +9900").inferred
    assert one(Date="Tue, 13 Jun 2023 12:00:00 -0000").at == missing.at


def test_mails_without_ids_are_told_apart() -> None:
    made = read(mail(1, Message_ID=""), mail(1, Message_ID=""))
    assert len(made) == 2


def test_a_file_that_ends_early_and_nothing_to_read() -> None:
    assert texts((mail(1, "one") + mail(2, "two", Subject="B"))[:-2]) == [["one"], ["tw"]]
    (refused,) = read(FROM + b"From: a@x.org\n\n").values()
    assert refused.reason == RejectReason.EMPTY


def test_other_files_are_not_claimed() -> None:
    export = MemoryExport({"a.txt": b"From here on\nwe walk\n", "b": b"From: ann@x.org\n\nhi\n"})
    assert not chat_mbox.claims(export, export.names)


SOUND = mail(1, "one") + mail(
    2,
    "--b\nContent-Type: text/html; charset=utf-8\n\n<p>x</p>\n--b\n\nplain\n--b--\n",
    Content_Type='multipart/mixed; boundary="b"',
    References="<m1@x.org>",
)


@given(st.integers(0, len(SOUND)), st.binary(max_size=10), st.integers(0, 60))
def test_damage_never_raises(at: int, junk: bytes, cut: int) -> None:
    export = MemoryExport({"x": SOUND[:at] + junk + SOUND[at + cut :]})
    for item in chat_mbox.read(export, export.names, dt.UTC):
        if isinstance(item, Conversation):
            for turn in item.turns:
                assert isinstance(turn, Turn | Refused)
