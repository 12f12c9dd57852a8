"""Exports: which files belong together, and the same names whatever holds them."""

import io
import tarfile
import zipfile

import pytest

from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import exports
from stillroom.transforms.exports import open_export, plan_exports
from stillroom.transforms.files import list_source
from stillroom.transforms.parsed import Refused

FILES = {"users.json": b"[]", "channels.json": b"[]", "general/2024-01-01.json": b"[1]"}


def groups(root):
    source = Source("s", str(root))
    return [[f.path for f in shard.files] for shard in plan_exports(source, list_source(source))]


def write(root, files):
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def test_a_known_root_is_one_export_and_other_files_go_by_folder(tmp_path):
    write(tmp_path / "slack", FILES)
    write(tmp_path, {"chats/a.txt": b"a", "chats/b.txt": b"b", "x.zip": b"", "y.tar.gz": b""})
    assert groups(tmp_path) == [
        ["chats/a.txt", "chats/b.txt"],
        ["slack/channels.json", "slack/general/2024-01-01.json", "slack/users.json"],
        ["x.zip"],
        ["y.tar.gz"],
    ]


def test_parts_of_one_export_stay_together(tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "SHARD_BYTES", 4)
    write(tmp_path, {f"conversations-{i:03}.json": b"[1]" for i in range(3)})
    write(tmp_path, {"a.json": b"[1]", "b.json": b"[1]"})
    assert groups(tmp_path) == [
        ["a.json"],
        ["b.json"],
        [f"conversations-{i:03}.json" for i in range(3)],
    ]


def zipped(files, folder=""):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:
        for name, data in files.items():
            archive.writestr(folder + name, data)
        archive.writestr("__MACOSX/._x", b"")
    return raw.getvalue()


def tarred(files, mode):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode=mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(f"export/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return raw.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("e.zip", zipped(FILES)),
        ("e.zip", zipped(FILES, "Acme Slack export/")),
        ("e.tar", tarred(FILES, "w")),
        ("e.tar.gz", tarred(FILES, "w:gz")),
        ("e.tgz", tarred(FILES, "w:gz")),
    ],
    ids=["zip", "zip in a folder", "tar", "tar.gz", "tgz"],
)
def test_an_archive_has_the_names_of_its_export(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    (file,) = list_source(Source("s", str(tmp_path)))
    place, export = open_export([file])
    assert place == file
    assert export.names == ("channels.json", "general/2024-01-01.json", "users.json")
    assert export.open("general/2024-01-01.json").read() == b"[1]"
    assert export.head("users.json") == b"[]"
    assert export.head("channels.json") == b"[]"


def test_only_so_many_heads_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "MAX_HEADS", 1)
    write(tmp_path, {"a.txt": b"a", "b.txt": b"b"})
    _, export = open_export(list_source(Source("s", str(tmp_path))))
    assert [export.head(name) for name in ("a.txt", "b.txt", "a.txt", "b.txt")] == [b"a", b"b"] * 2
    assert len(export._heads) == 1


def test_a_channel_alone_keeps_its_name(tmp_path):
    (tmp_path / "e.zip").write_bytes(zipped({"general/2024-01-01.json": b"[]"}))
    (file,) = list_source(Source("s", str(tmp_path)))
    assert open_export([file])[1].names == ("general/2024-01-01.json",)


def test_a_folder_stands_for_its_files(tmp_path):
    write(tmp_path / "in" / "chats", {"a.txt": b"hello", "b.txt": b""})
    files = list_source(Source("s", str(tmp_path / "in")))
    place, export = open_export(files)
    assert (place.uri, place.path) == (str(tmp_path / "in"), "")
    assert export.names == ("chats/a.txt", "chats/b.txt")
    assert export.head("chats/a.txt") == b"hello"


@pytest.mark.parametrize("name", ["e.zip", "e.tar", "e.tar.gz"])
def test_what_is_no_archive_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"not an archive at all")
    with pytest.raises(Refused) as raised:
        open_export(list_source(Source("s", str(tmp_path))))
    assert raised.value.reason in (RejectReason.CORRUPT, RejectReason.UNSUPPORTED)


def test_damage_inside_is_told_where_it_is_read(tmp_path):
    data = zipped({"a.txt": b"words " * 1000})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        start = archive.getinfo("a.txt").header_offset
    broken = bytearray(data)
    broken[start + 200] ^= 0xFF
    (tmp_path / "e.zip").write_bytes(bytes(broken))
    _, export = open_export(list_source(Source("s", str(tmp_path))))
    with pytest.raises(Refused) as raised:
        export.open("a.txt").read()
    assert raised.value.reason is RejectReason.CORRUPT
    assert not export.head("a.txt").strip(b"words ")  # what could be read, or nothing
