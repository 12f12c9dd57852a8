"""The whole path: files in, one published knowledge base out."""

import json
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import stillroom
from stillroom.errors import BadInput, NotPublished
from stillroom.folders import Locked, open_folder
from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.recipe import Recipe, Source
from stillroom.store import current_build, read_manifest
from stillroom.transforms.publish import Outcome
from tests.broken_files import LIMIT_CHARS, write_broken_folder


def build(source: Path, kb: Path, workers: int = 1, **changes: Any) -> Outcome:
    recipe = Recipe("corpus", (Source("docs", str(source)),), **changes)
    return run_build(plan_build(recipe, str(kb)), workers)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def some_rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "_id": f"d{n}",
            "title": f"Report {n} on valve {n % 7}",
            "text": f"Valve {n % 7} was opened {n} times. " * (1 + n % 5) + f"Serial A-{n:04d}.",
            "year": 2000 + n % 20,
        }
        for n in range(count)
    ]


def rejects_of(kb: Path, build_id: str) -> list[dict[str, Any]]:
    lines = (kb / "builds" / build_id / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def tables_of(kb: Path) -> dict[str, Any]:
    manifest = read_manifest(kb, current_build(kb))
    return {
        name: lance.dataset(str(kb / f"{name}.lance"), version=table.version)
        .to_table()
        .sort_by("id" if name != "links" else "source_id")
        for name, table in manifest.tables.items()
    }


def test_a_folder_of_broken_files_is_published_with_every_input_accounted_for(tmp_path):
    folder, kb = tmp_path / "in", tmp_path / "kb"
    expected = write_broken_folder(folder)
    outcome = build(folder, kb, max_error_rate=1.0, max_document_chars=LIMIT_CHARS)
    rejects = rejects_of(kb, outcome.build)
    published = {row["uri"] for row in tables_of(kb)["documents"].to_pylist()}
    for path, wanted in expected.items():
        reasons = {r["reason"] for r in rejects if f"/{path}" in r["uri"]}
        if wanted == "document":
            assert any(f"/{path}" in uri for uri in published), path
            assert not reasons, (path, reasons)
        else:
            assert wanted in reasons, (path, reasons)
    accounting = outcome.accounting
    assert len(expected) >= 20
    assert accounting.published == len(published)
    assert accounting.rejected == len(rejects) == sum(accounting.reasons.values())
    assert accounting.read == accounting.published + accounting.rejected + accounting.duplicate


def test_over_the_error_budget_nothing_is_published_and_the_old_build_stays(tmp_path):
    folder, kb = tmp_path / "in", tmp_path / "kb"
    write_rows(folder / "good.jsonl", some_rows(9))
    first = build(folder, kb)
    (folder / "bad.txt").write_bytes(b"")
    (folder / "worse.txt").write_bytes(b"   \n")
    with pytest.raises(NotPublished, match=r"2 of 11 inputs were rejected \(2 empty\)"):
        build(folder, kb, max_error_rate=0.1)
    assert current_build(kb) == first.build
    assert len(stillroom.open(kb).search("valve", k=50, collapse=False)) == 9
    assert build(folder, kb, max_error_rate=0.2).accounting.rejected == 2


def test_nothing_to_read_and_nothing_to_publish_are_errors(tmp_path):
    with pytest.raises(BadInput, match="nowhere"):
        build(tmp_path / "nowhere*.txt", tmp_path / "kb")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(NotPublished, match="none of 1 inputs"):
        build(tmp_path / "empty.txt", tmp_path / "kb", max_error_rate=1.0)
    assert current_build(tmp_path / "kb") == ""


def test_one_worker_and_two_processes_give_the_same_base_to_the_bit(tmp_path):
    folder = tmp_path / "in"
    for name in range(4):
        rows = some_rows(30)
        write_rows(folder / f"{name}.jsonl", [{**r, "_id": f"{name}-{r['_id']}"} for r in rows])
    (folder / "page.md").write_text("# Pump\n\nBody.\n\n## Seal\n\nThe seal is rubber. " * 40)
    one, two = tmp_path / "one", tmp_path / "two"
    first, second = build(folder, one), build(folder, two, workers=2)
    assert first.build == second.build
    a, b = (read_manifest(kb, first.build) for kb in (one, two))
    assert a.content == b.content
    assert a.serve.digest == b.serve.digest  # byte for byte: ids, vectors, facets
    for name, table in tables_of(one).items():
        other = tables_of(two)[name]
        assert table.num_rows == other.num_rows
        for column in table.column_names:
            assert table.column(column).to_pylist() == other.column(column).to_pylist(), column
    bases = stillroom.open(one), stillroom.open(two)
    for text in ("valve 3 report", "rubber seal", "A-0007", "opened"):
        hits = [[(h.id, h.score) for h in kb.search(text, k=40, collapse=False)] for kb in bases]
        assert hits[0] == hits[1]


def test_an_unchanged_input_is_no_change_and_keeps_the_build(tmp_path):
    source, kb = write_rows(tmp_path / "in.jsonl", some_rows(12)), tmp_path / "kb"
    first = build(source, kb)
    again = build(source, kb)
    assert (again.build, again.changed) == (first.build, False)
    assert again.accounting.unchanged == 12
    assert again.accounting.published == 0
    write_rows(source, some_rows(13))
    third = build(source, kb)
    assert third.changed
    manifest = read_manifest(kb, third.build)
    assert (manifest.parent, manifest.counts["documents"]) == (first.build, 13)


def test_another_recipe_is_another_build(tmp_path):
    source, kb = write_rows(tmp_path / "in.jsonl", some_rows(6)), tmp_path / "kb"
    first = build(source, kb)
    second = build(source, kb, keys=("text", "path", "sentence"))
    assert second.build != first.build
    assert second.counts["keys"] > first.counts["keys"]


def test_equal_texts_are_two_documents_with_one_encoding(tmp_path):
    text = "The boiler is inspected in spring by two people, and again in autumn by one of them."
    rows = [{"_id": name, "title": "Boiler", "text": text} for name in ("a", "b")]
    kb_path = tmp_path / "kb"
    build(write_rows(tmp_path / "in.jsonl", rows), kb_path)
    kb = stillroom.open(kb_path)
    both = kb.search("boiler inspection", collapse=False)
    assert {hit.source_key for hit in both} == {"a", "b"}
    assert np.array_equal(*kb._builds[0].vectors)
    (hit,) = kb.search("boiler inspection")
    assert len(hit.duplicates) == 1


def test_one_id_twice_is_a_duplicate_if_equal_and_a_reject_if_not(tmp_path):
    rows = [
        {"_id": "same", "title": "", "text": "One text about pumps."},
        {"_id": "same", "title": "", "text": "One text about pumps."},
        {"_id": "same", "title": "", "text": "Another text about valves."},
        {"_id": "other", "title": "", "text": "A third text."},
    ]
    outcome = build(write_rows(tmp_path / "in.jsonl", rows), tmp_path / "kb")
    accounting = outcome.accounting
    assert (accounting.published, accounting.duplicate, accounting.rejected) == (2, 1, 1)
    (reject,) = rejects_of(tmp_path / "kb", outcome.build)
    assert reject["reason"] == "conflicting_id"


def test_every_value_is_the_span_of_its_document(tmp_path):
    folder, kb = tmp_path / "in", tmp_path / "kb"
    folder.mkdir()
    page = (
        "# Ünïcode 🙂\n\nA paragraph.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
        * 30
    )
    (folder / "page.md").write_text(page, encoding="utf-8")
    (folder / "zh.txt").write_text("世界经济。" * 400, encoding="utf-8")
    build(folder, kb, segment_tokens=64)
    tables = tables_of(kb)
    texts = {row["id"]: row["text"] for row in tables["documents"].to_pylist()}
    entries = tables["entries"].to_pylist()
    assert len(entries) > 20
    for row in entries:
        assert texts[row["document_id"]][row["start"] : row["end"]] == row["value"]


def test_what_is_in_row_columns_and_front_matter_can_be_filtered(tmp_path):
    folder, kb_path = tmp_path / "in", tmp_path / "kb"
    write_rows(folder / "rows.jsonl", some_rows(20))
    (folder / "note.md").write_text(
        "---\nyear: 1999\nteam: [red, blue]\n---\n# Valve\n\nValve note."
    )
    build(folder, kb_path)
    kb = stillroom.open(kb_path)
    assert {h.facets["year"] for h in kb.search("valve", 50, {"year": {"lt": 2003}})} == {
        1999, 2000, 2001, 2002,
    }  # fmt: skip
    assert [h.source_key for h in kb.search("valve", where={"team": "blue"})] == ["note.md"]


def test_a_second_build_at_once_says_so_and_harms_nothing(tmp_path):
    source, kb = write_rows(tmp_path / "in.jsonl", some_rows(3)), tmp_path / "kb"
    kb.mkdir()
    with open_folder(kb).lock(), pytest.raises(Locked, match="another build"):
        build(source, kb)
    assert build(source, kb).changed


def test_compressed_keys_are_searched_and_the_value_stays_whole(tmp_path):
    text = (
        "It is of course the case that the pressure relief valve, as has been said, must not be "
        "opened above 350 bar by anyone. Indeed this is really very important for all of us here."
    )
    kb_path = tmp_path / "kb"
    source = write_rows(tmp_path / "in.jsonl", [{"_id": "a", "title": "", "text": text}])
    build(source, kb_path, keys=("text", "compressed"), dense_keys=("compressed",))
    (hit,) = stillroom.open(kb_path).search("pressure limit", mode="dense")
    assert hit.value == text
    key = hit.reasons[0].key_text
    assert hit.reasons[0].key_kind == "compressed"
    assert len(key) < len(text)
    assert {"not", "350", "bar"} <= set(key.replace(",", " ").split())
