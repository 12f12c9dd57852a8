"""Files in, documents and rejects out: nothing is lost without a word, and nothing raises."""

import gzip
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stillroom.schemas.documents import Document
from stillroom.schemas.ids import document_id
from stillroom.schemas.recipe import FORMATS, Source
from stillroom.schemas.rejects import Reject, RejectReason
from stillroom.transforms import read as read_module
from stillroom.transforms.files import InputFile, list_source
from stillroom.transforms.read import read_file
from tests.broken_files import (
    LIMIT_CHARS,
    docx_bytes,
    duplicate_id_rows,
    encrypted_pdf_bytes,
    encrypted_zip_bytes,
    lines,
    parquet_bytes,
    pdf_bytes,
    write_broken_folder,
    zip_bytes,
)

packed = partial(gzip.compress, mtime=0)  # without the time of packing


def read_bytes(
    folder: Path, name: str, data: bytes, source: Source | None = None, max_chars: int = 10_000
) -> list[Document | Reject]:
    path = folder / name
    path.write_bytes(data)
    source = source or Source("s", str(path))
    (file,) = list_source(Source("s", str(path)))
    return list(read_file(file, source, max_chars))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("broken")
    return folder, write_broken_folder(folder)


def test_a_folder_of_broken_files(broken: tuple[Path, dict[str, str]]) -> None:
    folder, expected = broken
    assert len(expected) >= 20
    source = Source("s", str(folder))
    files = list_source(source)
    assert [file.path for file in files] == sorted(expected)
    wrong = {}
    for file in files:
        results = list(read_file(file, source, LIMIT_CHARS))
        reasons = {r.reason.value for r in results if isinstance(r, Reject)}
        want = set() if expected[file.path] == "document" else {expected[file.path]}
        if reasons != want or not results:
            wrong[file.path] = [r for r in results if isinstance(r, Reject)]
        for result in results:
            assert result.uri.startswith(file.uri)
            if isinstance(result, Document):
                assert result.text.strip()
                result.text.encode("utf-8")
                assert len(result.text) <= LIMIT_CHARS
            else:
                assert result.detail
                assert "Traceback" not in result.detail
    assert not wrong


def test_sound_rows_before_and_between_damage_are_kept(
    broken: tuple[Path, dict[str, str]],
) -> None:
    folder, _ = broken
    for name, at_least in (("truncated.jsonl.gz", 100), ("malformed.jsonl", 2), ("ragged.csv", 2)):
        source = Source("s", str(folder / name))
        results = list(read_file(list_source(source)[0], source, LIMIT_CHARS))
        documents = [r for r in results if isinstance(r, Document)]
        assert len(documents) >= at_least, name
    assert [d.text for d in documents] == ["sound", "sound again"]


def test_rows_before_a_cut_are_exactly_the_first_ones(tmp_path: Path) -> None:
    rows = [{"_id": str(i), "text": f"row {i} {'x' * (i % 50)}"} for i in range(20_000)]
    data = packed(lines(*rows))
    *documents, reject = read_bytes(tmp_path, "a.jsonl.gz", data[: len(data) * 3 // 4])
    assert isinstance(reject, Reject)
    assert reject.reason == RejectReason.CORRUPT
    keys = [d.source_key for d in documents if isinstance(d, Document)]
    assert len(keys) > 10_000
    assert keys == [str(i) for i in range(len(keys))]


def test_identity_and_address_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "note.md").write_text("# Title\n\nwords")
    source = Source("notes", str(tmp_path))
    (file,) = list_source(source)
    (document,) = read_file(file, source, 1000)
    assert isinstance(document, Document)
    assert document.id == document_id("notes", "sub/note.md")
    assert document.source_key == "sub/note.md"
    assert document.uri == str(tmp_path / "sub" / "note.md")
    assert (document.source, document.kind, document.title) == ("notes", "markdown", "Title")


def test_identity_and_address_of_a_row_in_an_archive(tmp_path: Path) -> None:
    data = zip_bytes({"rows.jsonl": lines({"id": "a", "text": "words"}, "broken"), "n.md": b"note"})
    note, row, reject = read_bytes(tmp_path, "z.zip", data)
    assert isinstance(note, Document)
    assert note.source_key == "z.zip!n.md"
    assert note.title == "n"
    assert isinstance(row, Document)
    assert row.id == document_id("s", "z.zip", "rows.jsonl", "a")
    assert row.source_key == "a"
    assert row.uri == f"{tmp_path}/z.zip!rows.jsonl#a"
    assert isinstance(reject, Reject)
    assert reject.uri == f"{tmp_path}/z.zip!rows.jsonl#2"
    assert (reject.stage, reject.reason) == ("read", RejectReason.MALFORMED)
    assert "line 2" in reject.detail


def test_a_source_format_overrides_the_name(tmp_path: Path) -> None:
    source = Source("s", "x", format="jsonl")
    (document,) = read_bytes(tmp_path, "rows.txt", lines({"id": 1, "text": "words"}), source)
    assert isinstance(document, Document)
    assert document.text == "words"


def test_a_file_without_an_extension_is_told_by_its_content(tmp_path: Path) -> None:
    kinds = {}
    for name, data in (
        ("p", pdf_bytes(["words"])),
        ("h", b"<!DOCTYPE html><p>words"),
        ("q", parquet_bytes([{"text": "words"}])),
        ("d", docx_bytes(["words"])),
        ("t", b"words"),
    ):
        (document,) = read_bytes(tmp_path, name, data)
        assert isinstance(document, Document), document
        assert document.text.strip() == "words"
        kinds[name] = document.kind
    assert kinds == {"p": "pdf", "h": "html", "q": "row", "d": "office", "t": "text"}


def test_rows_of_one_id_both_come_out_with_that_id(tmp_path: Path) -> None:
    first, second = read_bytes(tmp_path, "a.jsonl", duplicate_id_rows())
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert first.id == second.id
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError("out of memory"), RejectReason.TOO_LARGE),
        (RuntimeError("a reader's bug\nsecond line"), RejectReason.CORRUPT),
        (RecursionError("too deep"), RejectReason.CORRUPT),
        (OSError(5, "Input/output error"), RejectReason.UNREADABLE),
    ],
)
def test_whatever_a_reader_raises_is_a_reject_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: RejectReason
) -> None:
    def fail(*args: object) -> None:
        raise error

    monkeypatch.setattr(read_module, "read_whole", fail)
    (reject,) = read_bytes(tmp_path, "a.md", b"words")
    assert isinstance(reject, Reject)
    assert reject.reason == reason
    assert reject.detail.startswith(f"{type(error).__name__}: ")
    assert "second line" not in reject.detail
    assert reject.document_id == document_id("s", "a.md")


def test_a_file_that_went_away_is_unreadable(tmp_path: Path) -> None:
    file = InputFile("s", str(tmp_path / "gone.md"), "gone.md", 5, "markdown")
    (reject,) = read_file(file, Source("s", str(tmp_path)), 1000)
    assert isinstance(reject, Reject)
    assert reject.reason == RejectReason.UNREADABLE
    assert "FileNotFoundError" in reject.detail


def test_reading_twice_gives_the_same(tmp_path: Path) -> None:
    data = zip_bytes({"b.md": b"# B\n\nb", "a.jsonl": lines({"text": "x", "n": 1.5, "l": ["u"]})})
    assert read_bytes(tmp_path, "z.zip", data) == read_bytes(tmp_path, "z.zip", data)


EXTENSIONS = [
    "txt",
    "md",
    "html",
    "pdf",
    "docx",
    "pptx",
    "xlsx",
    "epub",
    "jsonl",
    "json",
    "csv",
    "tsv",
    "parquet",
    "zip",
    "gz",
    "jsonl.gz",
    "md.zst",
    "zip.gz",
    "x",
]
SEEDS = [
    b"---\na: &x [1]\nb: *x\n---\ntext",
    b"---\n? {a: b}\n: c\n2024: d\n---\ntext",
    lines({"id": {"a": 1}, "text": ["x", None, {"y": 1}], "t": 1e308}),
    b'[{"text": "a"}, {"text": ',
    b'{"text": ' + b"[" * 5000,
    b"id,text\n1,\"open\n2,x\n",
    b"<table><td><pre><li><h1></table><td></pre>x<title>" * 20,
    b"\x1f\x8b\x08\x00" + bytes(20),
    b"\x28\xb5\x2f\xfd" + bytes(20),
    b"PK\x03\x04" + bytes(40),
    pdf_bytes(["words"]),
    encrypted_pdf_bytes(),
    docx_bytes(["words"]),
    parquet_bytes([{"text": "words", "id": 1}]),
    zip_bytes({"a.md": b"words", "b.csv": b"text\nx\n"}),
    encrypted_zip_bytes({"a.md": b"words"}),
    packed(b"words"),
]  # fmt: skip


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Arbitrary bytes, or a sound file with some bytes changed, cut out or put in."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=400))
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 20))] = draw(st.binary(max_size=6))
    return bytes(data)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(hostile(), st.sampled_from(EXTENSIONS), st.sampled_from(FORMATS))
@example(b'{"id": "\\ud800", "text": "\\udfff", "\\ud800": "\\ud800"}', "jsonl", "auto")
def test_no_bytes_raise(tmp_path: Path, data: bytes, extension: str, kind: str) -> None:
    source = Source("s", str(tmp_path), format=kind)
    results = read_bytes(tmp_path, f"f.{extension}", data, source)
    assert results
    for result in results:
        if isinstance(result, Document):
            f"{result.text}{result.title}{result.uri}{result.metadata}".encode()
            assert result.text.strip()
            assert result.digest
            assert result.metadata_digest
        else:
            f"{result.uri}{result.detail}".encode()
            assert result.detail
