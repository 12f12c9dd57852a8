"""Opening: what is refused, and that reading writes nothing."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

import stillroom
from stillroom.errors import Damaged, NotAKnowledgeBase, VersionSkew
from stillroom.store import CURRENT, Build, manifest_name


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in folder.rglob("*")
    }


def edit_manifest(root: Path, **changes) -> None:
    path = root / manifest_name((root / CURRENT).read_text().strip())
    data = json.loads(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        if isinstance(value, dict):
            data[name].update(value)
        else:
            data[name] = value
    path.write_text(json.dumps(data), encoding="utf-8")


def test_a_path_that_is_nothing(tmp_path):
    with pytest.raises(NotAKnowledgeBase, match="is not a folder.*stillroom build corpus"):
        stillroom.open(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotAKnowledgeBase, match="is not a folder"):
        stillroom.open(tmp_path / "file")


def test_a_folder_without_a_build(tmp_path):
    with pytest.raises(NotAKnowledgeBase, match="has no published build"):
        stillroom.open(tmp_path)


def test_strings_and_home_folders_open(small_kb, monkeypatch):
    monkeypatch.setenv("HOME", str(small_kb.path.parent))
    assert len(stillroom.open(str(small_kb.path))) == len(stillroom.open("~/small.kb"))


def files_of(root: Path, folder: str) -> list[Path]:
    (inside,) = (root / folder).iterdir()
    return sorted(inside.iterdir())


@pytest.mark.parametrize("folder", ["serve", "lexical"])
def test_a_file_that_is_missing_or_cut_is_named(copied_kb, folder):
    files = files_of(copied_kb, folder)
    assert files
    for path in files:
        raw = path.read_bytes()
        path.unlink()
        with pytest.raises(Damaged, match=path.name):
            stillroom.open(copied_kb)
        path.write_bytes(raw[:-1])
        with pytest.raises(Damaged, match=f"{path.name} has {len(raw) - 1} bytes.*{len(raw)}"):
            stillroom.open(copied_kb)
        path.write_bytes(raw)
    assert len(stillroom.open(copied_kb))


def test_current_naming_a_build_that_is_not_there(copied_kb):
    (copied_kb / CURRENT).write_text("f" * 32)
    with pytest.raises(Damaged, match="names build ffff.*manifest.json is not there"):
        stillroom.open(copied_kb)


def test_an_unreadable_current(copied_kb):
    (copied_kb / CURRENT).write_bytes(b"\xff\xfe")
    with pytest.raises(Damaged, match="CURRENT cannot be read"):
        stillroom.open(copied_kb)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[]", b"null", b"{}garbage"])
def test_a_damaged_manifest_is_named(copied_kb, raw):
    (copied_kb / manifest_name((copied_kb / CURRENT).read_text().strip())).write_bytes(raw)
    with pytest.raises(Damaged, match="manifest.json"):
        stillroom.open(copied_kb)


def test_a_manifest_that_lacks_a_part_is_damaged_not_of_another_version(copied_kb):
    path = copied_kb / manifest_name((copied_kb / CURRENT).read_text().strip())
    data = json.loads(path.read_text())
    del data["serve"]
    path.write_text(json.dumps(data))
    with pytest.raises(Damaged, match="serve"):
        stillroom.open(copied_kb)


def test_another_manifest_format_is_a_skew(copied_kb):
    edit_manifest(copied_kb, format=99, code_version="7.7")
    with pytest.raises(VersionSkew, match=r"format 99.*reads 2.*7\.7"):
        stillroom.open(copied_kb)


def test_another_analyzer_is_a_skew_naming_both(copied_kb):
    from stillroom.analyzers import analyzer_spec

    edit_manifest(copied_kb, analyzer={"probe": "deadbeef" * 4})
    with pytest.raises(VersionSkew) as raised:
        stillroom.open(copied_kb)
    assert "deadbeef" in str(raised.value)
    assert analyzer_spec().probe[:8] in str(raised.value)


def test_another_index_format_is_a_skew_naming_both(copied_kb):
    edit_manifest(copied_kb, lexical_format="tantivy-0.99/7")
    with pytest.raises(VersionSkew, match=r"tantivy-0.99/7.*tantivy-0.27/1"):
        stillroom.open(copied_kb)


def test_another_encoder_is_a_skew_only_where_it_is_needed(copied_kb):
    edit_manifest(copied_kb, encoder={"weights": "0" * 32})
    kb = stillroom.open(copied_kb)
    assert kb.search("whales", mode="lexical")[0].source_key == "sea.txt"
    with pytest.raises(VersionSkew, match="weights 00000000"):
        kb.search("whales")


def test_reading_writes_nothing(copied_kb):
    before = snapshot(copied_kb)
    kb = stillroom.open(copied_kb)
    hit = kb.search("whales", where={"kind": kb.search("whales")[0].kind}, k=3)[0]
    kb.document(hit.document_id)
    kb.neighbours(hit.id)
    kb.why("whales", hit.id)
    kb.refresh()
    hit.reasons  # noqa: B018
    assert snapshot(copied_kb) == before


def read_as(user: int, base: Path) -> None:
    """In a child: exit code 0 if that user finds what is there, and may not write."""
    import lancedb  # noqa: F401 - before the user changes: others may not see the libraries

    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    kb = stillroom.open(base)
    (hit,) = kb.search("whales", k=1, mode="lexical")
    assert kb.document(hit.document_id).text.startswith("Whales")
    assert kb.refresh() is False
    with pytest.raises(PermissionError):
        (base / CURRENT).open("w")
    os._exit(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_another_user_reads_what_it_may_not_write(small_kb, fork_server):
    with tempfile.TemporaryDirectory() as place:
        base = Path(place) / "base"
        shutil.copytree(small_kb.path, base)
        read_only(Path(place))
        child = fork_server.Process(target=read_as, args=(65534, base))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        read_only(Path(place), False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_opens(copied_kb):
    read_only(copied_kb)
    try:
        assert stillroom.open(copied_kb).search("whales", mode="lexical")
    finally:
        read_only(copied_kb, False)


def read_only(folder: Path, yes: bool = True) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod((0o755 if path.is_dir() else 0o644) & ~(0o222 * yes))


def test_a_base_may_be_moved(copied_kb, kb):
    moved = copied_kb.rename(copied_kb.with_name("with space é.kb"))
    there = stillroom.open(moved)
    hits = there.search("Nat.succ_le_of_lt", k=3)
    assert [h.id for h in hits] == [h.id for h in kb.search("Nat.succ_le_of_lt", k=3)]
    assert there.document(hits[0].document_id).title == "Orders in Lean"


def test_rows_are_found_by_id(build):
    ids = build.entries.column("id").to_pylist()
    assert ids == sorted(ids)
    assert [build.row_of(name) for name in ids] == list(range(len(ids)))
    for missing in ("", "0", "f" * 33, ids[0] + "x", ids[0][:-1]):
        assert build.row_of(missing) == -1


def test_a_build_that_was_opened_outlives_its_folder(copied_kb):
    opened = Build.open_current(copied_kb)
    entries, (_, searcher), vectors = opened.entries, opened.searcher, opened.vectors
    shutil.rmtree(copied_kb)
    assert entries.column("value")[0].as_py()
    assert searcher.num_docs == entries.num_rows
    assert len(vectors[0])
