"""Files of a knowledge base, the same way in a local folder and on a real S3 server."""

import threading
import time
from pathlib import Path

import pytest

from stillroom.errors import BadInput, Damaged
from stillroom.folders import LocalFolder, Locked, file_checksum, is_uri, open_folder


@pytest.fixture(params=["local", "s3"])
def folder(request, tmp_path, monkeypatch):
    if request.param == "local":
        return open_folder(tmp_path / "base")
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "cache"))
    return open_folder(f"{request.getfixturevalue('s3')}/{tmp_path.name}/base")


def names(folder, prefix=""):
    return [file.name for file in folder.files(prefix)]


def test_a_file_comes_back_whole_and_is_replaced_whole(folder):
    with pytest.raises(FileNotFoundError):
        folder.read("a/b.txt")
    assert not folder.exists("a/b.txt")
    for data in (b"one", b"", bytes(range(256)) * 5000):
        folder.write("a/b.txt", data)
        assert folder.read("a/b.txt") == data
    assert folder.exists("a/b.txt")
    assert not folder.exists("a")
    assert names(folder) == ["a/b.txt"]


def test_only_the_first_creates(folder):
    assert folder.create("builds/x/manifest.json", b"first")
    assert not folder.create("builds/x/manifest.json", b"second")
    assert folder.read("builds/x/manifest.json") == b"first"


def test_a_swap_needs_what_it_expects(folder):
    assert folder.swap("CURRENT", None, b"a")
    assert not folder.swap("CURRENT", None, b"b")
    assert folder.swap("CURRENT", None, b"a"), "it is a already"
    assert not folder.swap("CURRENT", b"z", b"b")
    assert folder.read("CURRENT") == b"a"
    assert folder.swap("CURRENT", b"a", b"b")
    assert folder.read("CURRENT") == b"b"


def test_of_many_swaps_at_once_one_wins(folder):
    if folder.local:
        pytest.skip("in a local folder the lock keeps others out")
    folder.write("CURRENT", b"0")
    won = []

    def swap(name):
        if folder.swap("CURRENT", b"0", name):
            won.append(name)

    threads = [threading.Thread(target=swap, args=(b"%d" % n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [folder.read("CURRENT")]


def test_listing_by_prefix(folder):
    for name in ("a/1", "a/2/x", "ab/1", "c"):
        folder.write(name, b"12")
    assert names(folder) == ["a/1", "a/2/x", "ab/1", "c"]
    assert names(folder, "a") == ["a/1", "a/2/x"]
    assert names(folder, "none") == folder.folders("none") == []
    assert folder.folders("") == ["a", "ab"]
    assert folder.folders("a") == ["2"]
    assert all(0 <= file.age < 60 and file.size == 2 for file in folder.files())


def test_removing_a_file_or_all_below_a_name(folder):
    for name in ("a/1", "a/2/x", "ab/1", "c"):
        folder.write(name, b"x")
    folder.remove("a")
    folder.remove("c")
    folder.remove("nothing")
    assert names(folder) == ["ab/1"]


def placed(folder, name, **files):
    with folder.scratch() as scratch:
        (scratch / "made").mkdir()
        for file, text in files.items():
            (scratch / "made" / file).write_text(text)
        sums = {p.name: file_checksum(p) for p in (scratch / "made").iterdir()}
        folder.place(scratch / "made", name)
    assert not scratch.exists()
    return sums


def test_immutable_files_are_placed_and_mapped(folder):
    sums = placed(folder, "serve/d1", a="alpha", b="beta")
    assert names(folder, "serve") == ["serve/d1/a", "serve/d1/b"]
    assert folder.checksum("serve/d1/a") == sums["a"]
    assert folder.path("serve/d1/a", 5, sums["a"]).read_text() == "alpha"
    assert placed(folder, "serve/d1", a="alpha", b="beta") == sums, "placed again: no harm"
    with pytest.raises(Damaged, match="serve/d1/c is missing"):
        folder.path("serve/d1/c", 5, "0" * 32)


def test_a_file_of_another_size_is_damaged(folder):
    folder.write("serve/d1/a", b"cut")
    with pytest.raises(Damaged, match="serve/d1/a .*manifest says"):
        folder.path("serve/d1/a", 5, "0" * 32)


def test_fetched_files_are_cached_by_checksum(s3, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("STILLROOM_CACHE", str(cache))
    folder = open_folder(f"{s3}/cached")
    sums = placed(folder, "serve/d1", a="alpha")
    (cached,) = [p for p in cache.iterdir() if p.is_file()]
    assert cached.name == sums["a"], "who builds has it in the cache"
    cached.unlink()
    assert folder.path("serve/d1/a", 5, sums["a"]) == cached
    folder.remove("serve")
    assert folder.path("serve/elsewhere/a", 5, sums["a"]).read_text() == "alpha"
    cached.write_text("alphaX")  # a damaged cache is not used
    with pytest.raises(Damaged, match="is missing"):
        folder.path("serve/d1/a", 5, sums["a"])
    folder.write("serve/d1/a", b"alphX")  # nor what is not what its manifest says
    with pytest.raises(Damaged, match="not what its manifest says"):
        folder.path("serve/d1/a", 5, sums["a"])
    assert [p for p in cache.iterdir() if p.name.startswith(".")] == []


def test_what_nobody_opened_for_a_month_leaves_the_cache(s3, tmp_path, monkeypatch):
    import os

    cache = tmp_path / "cache"
    monkeypatch.setenv("STILLROOM_CACHE", str(cache))
    folder = open_folder(f"{s3}/swept")
    old = placed(folder, "serve/d1", a="old one", b="used one")
    new = placed(folder, "serve/d2", a="new one")
    month = time.time() - 31 * 86_400
    for name in old.values():
        os.utime(cache / name, (month, month))
    (cache / new["a"]).unlink()
    folder.path("serve/d1/b", 8, old["b"])  # opened: it stays
    folder.path("serve/d2/a", 7, new["a"])
    assert sorted(p.name for p in cache.iterdir()) == sorted([old["b"], new["a"]])


def test_a_cache_that_cannot_be_written_is_named(s3, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("STILLROOM_CACHE", str(tmp_path / "file"))
    with pytest.raises(BadInput, match="name another folder in STILLROOM_CACHE"):
        open_folder(f"{s3}/x").path("serve/a", 1, "0")


@pytest.mark.parametrize(
    ("address", "local"),
    [("a/b", True), ("/a", True), ("~/kb", True), ("file:///a/b", True), ("s3://b/kb/", False),
     (Path("s3://b/kb"), False), ("az://container/kb", False), ("gs://b/kb", False)],
)  # fmt: skip
def test_addresses(address, local, monkeypatch):
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    folder = open_folder(address)
    assert folder.local is local
    if not local:
        assert folder.uri == str(address).replace(":/", "://").replace(":///", "://").rstrip("/")
        assert is_uri(address)


@pytest.mark.parametrize("address", ["ftp://host/kb", "s3://", "nope://x"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(BadInput, match="not the address of an object store"):
        open_folder(address)


def test_one_writer_at_a_time_where_there_are_locks(tmp_path):
    folder = LocalFolder(tmp_path)
    with folder.lock(), pytest.raises(Locked, match="is running"), LocalFolder(tmp_path).lock():
        pass
    with folder.lock():
        pass


def test_a_file_is_held_while_its_handle_lives(tmp_path):
    folder = LocalFolder(tmp_path)
    folder.write("m", b"x")
    held = folder.hold("m")
    assert LocalFolder(tmp_path).is_held("m")
    del held
    assert not folder.is_held("m")
    assert folder.hold("none") is None
