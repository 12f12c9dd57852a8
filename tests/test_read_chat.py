"""Reading chats: formats told by content, every file accounted for, and never an exception."""

import json
import shutil
import zipfile

import pytest

from stillroom.schemas.documents import Document
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms.exports import plan_exports
from stillroom.transforms.files import list_source
from stillroom.transforms.read_chat import read_chats

WHATSAPP = (
    "13/06/2023, 18:08 - Ann: Did you water the plants?\n"
    "13/06/2023, 18:09 - Bob: Yes, this morning.\n"
    "14/06/2023, 20:00 - Ann: And today?\n"
)
SHAREGPT = {
    "id": "talk-1",
    "conversations": [
        {"from": "human", "value": "What is a lemma?"},
        {"from": "gpt", "value": "A small theorem."},
    ],
}


def read(path, **options):
    source = Source("s", str(path), **options)
    made = []
    for shard in plan_exports(source, list_source(source)):
        made.extend(read_chats(shard.files, source, 10_000))
    documents = [one for one in made if isinstance(one, Document)]
    return documents, [one for one in made if isinstance(one, Reject)]


def test_formats_side_by_side_are_told_by_content(tmp_path):
    (tmp_path / "chat.txt").write_text(WHATSAPP, encoding="utf-8")
    (tmp_path / "talks.json").write_text(json.dumps([SHAREGPT]), encoding="utf-8")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "notes.md").write_text("# Just notes\n\nNobody speaks here.\n")
    (tmp_path / "empty.txt").write_bytes(b"")
    documents, rejects = read(tmp_path)
    assert [d.metadata["format"] for d in documents] == ["messages", "whatsapp", "whatsapp"]
    assert documents[1].text == "Ann: Did you water the plants?\nBob: Yes, this morning."
    assert documents[0].text.endswith("A small theorem.")
    assert sorted((r.reason, r.uri.rpartition("/")[2]) for r in rejects) == [
        (RejectReason.EMPTY, "empty.txt"),
        (RejectReason.UNSUPPORTED, "notes.md"),
    ]


def test_a_reject_names_its_own_file_and_no_other(tmp_path):
    (tmp_path / "Notes of a talk.txt").write_text(WHATSAPP, encoding="utf-8")
    (tmp_path / "a talk.txt").write_text("nobody speaks here", encoding="utf-8")
    documents, (reject,) = read(tmp_path)
    assert documents
    assert reject.uri == str(tmp_path / "a talk.txt")


def test_an_archive_and_a_folder_of_it_say_the_same(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "_chat.txt").write_text(WHATSAPP, encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Bob.zip", "w") as archive:
        archive.write(folder / "_chat.txt", "_chat.txt")
        archive.writestr("photo.jpg", b"\xff\xd8\xff")
    loose, none = read(folder)
    shutil.rmtree(folder)
    packed, nothing = read(tmp_path)
    assert not none
    assert not nothing
    assert [d.text for d in loose] == [d.text for d in packed]
    assert packed[0].uri.endswith("WhatsApp Chat - Bob.zip#_chat.txt")
    assert {d.id for d in loose}.isdisjoint({d.id for d in packed})


def test_the_same_conversation_in_a_later_export_is_the_same_document(tmp_path):
    turns = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "Hello"},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "Hi there"},
    ]
    rows = [{
        "sample_id": "conv-1", "qa": [{"question": "SECRET", "answer": "SECRET"}],
        "conversation": {"speaker_a": "Ann", "speaker_b": "Bob", "session_1": turns,
                         "session_1_date_time": "1:56 pm on 8 May, 2023"},
    }]  # fmt: skip
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "export.json").write_text(json.dumps(rows))
    rows[0]["conversation"]["session_1"] = [*turns, {"speaker": "Ann", "dia_id": "D1:3", "text": "x"}]  # fmt: skip
    (tmp_path / "new" / "later.json").write_text(json.dumps(rows))
    (old,), _ = read(tmp_path / "old")
    (new,), _ = read(tmp_path / "new")
    assert old.id == new.id
    assert old.digest != new.digest
    assert "SECRET" not in old.text
    assert old.created_at.isoformat() == "2023-05-08T13:56:00+00:00"


def test_times_without_a_zone_are_of_the_source_s(tmp_path):
    (tmp_path / "chat.txt").write_text(WHATSAPP, encoding="utf-8")
    documents, _ = read(tmp_path, timezone="Europe/Berlin")
    assert documents[0].created_at.isoformat() == "2023-06-13T18:08:00+02:00"


def test_a_zone_that_is_none():
    with pytest.raises(ValueError, match="no time zone"):
        Source("s", "x", timezone="Mars/Base")


@pytest.mark.parametrize("name", ["e.zip", "e.tar.gz", "e.json", "e.txt"])
def test_what_is_none_is_one_reject(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x00\x01\x02 not what it says")
    documents, rejects = read(tmp_path)
    assert not documents
    assert len(rejects) == 1


def test_an_archive_without_a_conversation_is_one_reject(tmp_path):
    with zipfile.ZipFile(tmp_path / "e.zip", "w") as archive:
        archive.writestr("a.txt", "no chat")
        archive.writestr("b.txt", "none either")
    documents, (reject,) = read(tmp_path)
    assert not documents
    assert reject.reason is RejectReason.UNSUPPORTED
    assert reject.uri.endswith("e.zip")
