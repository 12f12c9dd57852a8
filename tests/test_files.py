"""Listing and opening: what a user's path means, and what archives give."""

import gzip
import io
import os
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import zstandard
from apache_beam.io.filesystem import FileMetadata, FileSystem

from stillroom.errors import BadInput
from stillroom.schemas.recipe import Source
from stillroom.schemas.rejects import RejectReason
from stillroom.transforms import archives
from stillroom.transforms.archives import Budget, Part, open_parts
from stillroom.transforms.files import is_complete, list_source, open_file
from stillroom.transforms.parsed import Refused
from tests.broken_files import encrypted_zip_bytes, zip_bytes

packed = partial(gzip.compress, mtime=0)  # without the time of packing


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    for name in ("b.md", "a.txt", "sub/c.md", "sub/deep/d.csv", ".git/x.md", "sub/.hidden.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def paths(uri: str) -> list[str]:
    return [file.path for file in list_source(Source("s", uri))]


ALL = ["a.txt", "b.md", "sub/c.md", "sub/deep/d.csv"]


def test_a_folder_is_the_same_however_it_is_written(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(corpus.parent)
    for uri in (str(corpus), f"{corpus}/", "corpus", "./corpus/", corpus.as_uri()):
        assert paths(uri) == ALL
    assert len({tuple(list_source(Source("s", uri))) for uri in (str(corpus), "corpus/")}) == 1


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.md", ["b.md"]),
        ("**/*.md", ["b.md", "sub/c.md"]),
        ("**", ALL),
        ("sub/**", ["c.md", "deep/d.csv"]),
        ("s*/c.md", ["sub/c.md"]),
        ("[!b].*", ["a.txt"]),
        ("?.md", ["b.md"]),
        (".git/*", ["x.md"]),
        ("b.md", ["b.md"]),
    ],
)
def test_globs(corpus: Path, pattern: str, found: list[str]) -> None:
    assert paths(f"{corpus}/{pattern}") == found


def test_a_name_that_exists_is_not_a_glob(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("x")
    (tmp_path / "a1.txt").write_text("x")
    assert paths(str(tmp_path / "a[1].txt")) == ["a[1].txt"]


@pytest.mark.parametrize("uri", ["nowhere", "*.nope", "empty"])
def test_nothing_found_names_the_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput) as caught:
        paths(uri)
    assert repr(uri) in str(caught.value)


def test_links_in_a_circle_end_and_real_paths_win(corpus: Path) -> None:
    (corpus / "aaa").symlink_to(corpus / "sub")
    (corpus / "sub" / "up").symlink_to(corpus)
    assert paths(str(corpus)) == ALL


def test_a_link_to_a_folder_outside_is_followed(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "e.md").write_text("e")
    (corpus / "linked").symlink_to(tmp_path / "other")
    assert "linked/e.md" in paths(str(corpus))


def test_a_name_that_is_not_utf8_can_be_listed_shown_and_opened(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"caf\xe9.txt"), "wb") as stream:
        stream.write(b"words")
    (file,) = list_source(Source("s", str(tmp_path)))
    assert file.path == "caf\\xe9.txt"
    file.uri.encode("utf-8")
    with open_file(file) as opened:
        assert opened.read() == b"words"


def test_a_folder_that_cannot_be_listed_makes_the_listing_incomplete(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_complete(list_source(Source("s", str(corpus))))
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    files = list_source(Source("s", str(corpus)))
    assert not is_complete(files)
    assert [file.path for file in files] == ["a.txt", "b.md", "sub/c.md", "sub/deep"]


class MemoryFileSystem(FileSystem):  # type: ignore[misc]
    """An object store: names with slashes, no folders. Beam finds it by its scheme."""

    objects: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls) -> str:
        return "stillroomtest"

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        for name, data in self.objects.items():
            if name.startswith(prefix):
                yield FileMetadata(name, len(data))

    def has_dirs(self) -> bool:
        return False

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> io.BytesIO:
        return io.BytesIO(self.objects[path])

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath, *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def exists(self, path: str) -> bool:
        return path in self.objects

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, len(self.objects[path]))

    create = mkdirs = copy = rename = delete = last_updated = checksum = size = None


MemoryFileSystem.__abstractmethods__ = frozenset()


def test_object_stores_are_listed_and_opened_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    root = "stillroomtest://bucket/corpus"
    names = ["a.md", "sub/b.csv", ".git/c.md", "sub/"]
    objects = {f"{root}/{name}": name.encode() for name in names}
    objects["stillroomtest://bucket/corpus2/z.md"] = b"another prefix"
    monkeypatch.setattr(MemoryFileSystem, "objects", objects)
    assert paths(root) == paths(f"{root}/") == paths(f"{root}/**") == ["a.md", "sub/b.csv"]
    assert paths(f"{root}/*.md") == paths(f"{root}/a.md") == ["a.md"]
    (file,) = list_source(Source("s", f"{root}/a.md"))
    with open_file(file) as stream:
        assert stream.read() == b"a.md"
    with pytest.raises(BadInput, match="nothing"):
        paths(f"{root}/nothing")


def test_a_scheme_without_its_package_says_what_to_install() -> None:
    with pytest.raises(BadInput, match="pip install"):
        paths("unheardof://bucket/x")


def parts(data: bytes, name: str, budget: Budget | None = None) -> dict[str, Any]:
    """Member -> its bytes, or the reason why there are none."""
    found: dict[str, Any] = {}
    stream = io.BytesIO(data)
    for part in open_parts(stream, name, budget or Budget(len(data))):
        if not isinstance(part, Part):
            found[part[0]] = part[1].reason
            continue
        try:
            found[part.member] = (part.format, part.stream.read())
        except Refused as refused:
            found[part.member] = refused.reason
    return found


def zst(*frames: bytes) -> bytes:
    return b"".join(zstandard.ZstdCompressor().compress(frame) for frame in frames)


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (b"x", "a.md", {"": ("markdown", b"x")}),
        (packed(b"one ") + packed(b"two"), "a.jsonl.gz", {"": ("jsonl", b"one two")}),
        (packed(b"padded") + bytes(1000), "a.txt.gz", {"": ("text", b"padded")}),
        (b"served decompressed", "a.txt.gz", {"": ("text", b"served decompressed")}),
        (zst(b"one ", b"two"), "a.csv.zst", {"": ("csv", b"one two")}),
        (packed(b"no extension"), "dump", {"": ("", b"no extension")}),
        (
            zip_bytes({"b.md": b"b", "a.csv.gz": packed(b"a"), "__MACOSX/x": b"", "d/": b""}),
            "z.zip",
            {"a.csv.gz": ("csv", b"a"), "b.md": ("markdown", b"b")},
        ),
        (zip_bytes({"../up.md": b"x"}), "z.zip", {"../up.md": ("markdown", b"x")}),
        (
            zip_bytes({"in.zip": zip_bytes({"a.md": b"x"})}),
            "z.zip",
            {"in.zip!a.md": ("markdown", b"x")},
        ),
        (packed(zip_bytes({"a.md": b"x"})), "z.zip.gz", {"a.md": ("markdown", b"x")}),
        (encrypted_zip_bytes({"a.md": b"x"}), "z.zip", {"a.md": RejectReason.ENCRYPTED}),
        (zip_bytes({}), "z.zip", {"": RejectReason.EMPTY}),
        (zst(b"words " * 100)[:-5], "a.txt.zst", {"": RejectReason.CORRUPT}),
        (packed(b"words")[:-3], "a.txt.gz", {"": RejectReason.CORRUPT}),
        (b"BZh91AY&SY", "a.bz2", {"": RejectReason.UNSUPPORTED}),
    ],
)  # fmt: skip
def test_open_parts(data: bytes, name: str, expected: dict[str, Any]) -> None:
    assert parts(data, name) == expected


def test_one_bad_member_does_not_lose_the_others() -> None:
    data = bytearray(zip_bytes({"a.txt": b"first", "b.txt": b"second" * 50, "c.txt": b"third"}))
    at = data.find(b"b.txt") + 5
    data[at : at + 8] = b"\xff" * 8
    found = parts(bytes(data), "z.zip")
    assert found["a.txt"] == ("text", b"first")
    assert found["b.txt"] == RejectReason.CORRUPT
    assert found["c.txt"] == ("text", b"third")


@pytest.mark.parametrize("pack", [packed, zst, lambda data: zip_bytes({"a.txt": data})])
def test_a_bomb_is_stopped_at_the_limit(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_EXPANDED_BYTES", 1_000_000)
    monkeypatch.setattr(archives, "MAX_EXPANSION", 2)
    bomb = pack(bytes(50_000_000))
    (found,) = parts(bomb, "bomb").values()
    assert found == RejectReason.TOO_LARGE


def test_members_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MIN_EXPANDED_BYTES", 1000)
    monkeypatch.setattr(archives, "MAX_EXPANSION", 0)
    found = parts(zip_bytes({f"{i}.txt": b"x" * 400 for i in range(9)}), "z.zip")
    assert list(found) == ["0.txt", "1.txt", "2.txt"]
    assert found["2.txt"] == RejectReason.TOO_LARGE


def test_archives_nest_only_so_deep() -> None:
    data = b"x"
    for _ in range(10):
        data = zip_bytes({"in.zip": data})
    assert list(parts(data, "z.zip").values()) == [RejectReason.UNSUPPORTED]


def test_a_zip_with_an_unknown_method_is_unsupported() -> None:
    data = bytearray(zip_bytes({"a.txt": b"x"}))
    for magic, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        data[data.find(magic) + offset] = 97
    assert parts(bytes(data), "z.zip") == {"a.txt": RejectReason.UNSUPPORTED}
    assert zipfile.is_zipfile(io.BytesIO(data))
