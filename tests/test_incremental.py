"""Builds over a parent build: what is made again, what is kept, and that the result is the same."""

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import lance
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stillroom
from stillroom import encoders, models
from stillroom.approximate import Proposals
from stillroom.errors import BadInput
from stillroom.pipelines import build as pipeline
from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.recipe import Recipe, Source
from stillroom.store import current_build, read_manifest
from stillroom.transforms import carry, pca, tables
from stillroom.transforms import write as write_stage
from stillroom.transforms.maintenance import collect_garbage, diff_builds, verify_build
from stillroom.transforms.publish import Outcome, publish
from stillroom.transforms.vector_index import centroids_in
from stillroom.versions import rollback

TOPICS = ("valves", "whales", "bread", "orbits", "looms", "vinegar")


def text_of(name: str, version: int = 0) -> str:
    topic = TOPICS[sum(map(ord, name)) % len(TOPICS)]
    return (
        f"# Notes on {topic} {name}\n\nThis page is about {topic} and was kept by {name}.\n\n"
        f"## Revision {version}\n\nRevision {version} says that {topic} need {version + 2} checks "
        f"each year, done by {name} and by nobody else in the house."
    )


def write(folder: Path, pages: dict[str, str]) -> Path:
    """Exactly these pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def build(folder: Path, kb: Path, refit: bool = False, workers: int = 1, **changes: Any) -> Outcome:
    changes = {"max_error_rate": 1.0, **changes}
    recipe = Recipe("corpus", (Source("docs", str(folder)),), **changes)
    return run_build(plan_build(recipe, str(kb), refit), workers)


def pages(names: str, **versions: int) -> dict[str, str]:
    return {f"{n}.md": text_of(n, versions.get(n, 0)) for n in names}


def contents(kb: Path) -> dict[str, str]:
    """Digests of LOCAL and GLOBAL results of the live build."""
    manifest = read_manifest(kb, current_build(kb))
    tables = {name: table.content for name, table in manifest.tables.items()}
    return {**tables, "serve": manifest.serve.digest, "lexical": manifest.lexical.content}


@pytest.fixture
def encoded(monkeypatch):
    """Texts that the encoder was given, in a list that a test may clear."""
    texts: list[str] = []
    real = encoders.Encoder.encode_documents

    def spy(self, some):
        texts.extend(some)
        return real(self, some)

    monkeypatch.setattr(encoders.Encoder, "encode_documents", spy)
    return texts


def test_an_unchanged_run_encodes_nothing_and_loads_no_model(tmp_path, encoded, monkeypatch):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    first = build(folder, kb)
    encoded.clear()
    monkeypatch.setattr(models, "_load", lambda *_: pytest.fail("a model was loaded"))
    monkeypatch.setattr(models, "_loaded", {})
    again = build(folder, kb)
    assert (again.build, again.changed, again.accounting.unchanged) == (first.build, False, 3)
    assert encoded == []


def test_one_changed_page_encodes_its_changed_texts_alone(tmp_path, encoded):
    folder, kb = write(tmp_path / "in", pages("abcde")), tmp_path / "kb"
    build(folder, kb)
    encoded.clear()
    write(folder, pages("abcde", c=1))
    outcome = build(folder, kb)
    accounting = outcome.accounting
    assert (accounting.published, accounting.unchanged) == (1, 4)
    assert len(encoded) == 1
    assert "Revision 1" in encoded[0]
    kb_now = stillroom.open(kb)
    assert len(kb_now.search("Revision 0 checks", 20, mode="lexical", collapse=False)) >= 4
    (hit,) = kb_now.search("3 checks each year", 1)
    assert hit.source_key == "c.md"
    assert "Revision 1" in hit.value


def test_vectors_of_equal_texts_are_kept_though_their_document_changed(tmp_path, encoded):
    long_page = "\n\n".join(
        f"## Part {n}\n\n" + f"Sentence {n} about looms. " * 60 for n in range(4)
    )
    folder, kb = write(tmp_path / "in", {"a.md": long_page}), tmp_path / "kb"
    build(folder, kb)
    before = len(encoded)
    encoded.clear()
    write(folder, {"a.md": long_page + "\n\n## Part 9\n\n" + "An added part on vinegar. " * 60})
    build(folder, kb)
    assert 0 < len(encoded) < before / 2
    assert all("vinegar" in text for text in encoded)


def test_metadata_alone_is_updated_without_encoding(tmp_path, encoded):
    page = "---\nyear: 2019\n---\n" + text_of("a")
    folder, kb = write(tmp_path / "in", {"a.md": page, "b.md": text_of("b")}), tmp_path / "kb"
    build(folder, kb)
    encoded.clear()
    write(folder, {"a.md": page.replace("2019", "2024"), "b.md": text_of("b")})
    outcome = build(folder, kb)
    assert encoded == []
    assert outcome.accounting.unchanged == 1
    found = stillroom.open(kb).search("notes", where={"year": 2024})
    assert {hit.source_key for hit in found} == {"a.md"}


def test_removed_pages_leave_both_indexes_and_may_come_back(tmp_path):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    first = build(folder, kb)
    everything = contents(kb)
    write(folder, pages("ac"))
    second = build(folder, kb)
    assert second.counts["removed"] == 1
    base = stillroom.open(kb)
    for mode in ("lexical", "dense"):
        hits = base.search("kept by b revision", 50, mode=mode, collapse=False)
        assert "b.md" not in {hit.source_key for hit in hits}
    write(folder, pages("abc"))
    third = build(folder, kb)
    assert third.build not in (first.build, second.build)
    assert contents(kb) == everything
    difference = diff_builds(kb, second.build, third.build)
    assert (difference.added, difference.changed, difference.removed) == (("docs: b.md",), (), ())
    assert difference.entries_added > 0


def test_a_page_that_cannot_be_read_any_more_is_stale_and_still_found(tmp_path):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    build(folder, kb)
    (folder / "b.md").write_bytes(b"\x00\x01\x02\x03" * 400)
    (folder / "new.txt").write_bytes(b"")
    outcome = build(folder, kb)
    accounting = outcome.accounting
    assert (accounting.unchanged, accounting.stale, accounting.rejected) == (2, 1, 1)
    assert accounting.read == 4
    hits = stillroom.open(kb).search("kept by b", 10, collapse=False)
    assert "b.md" in {hit.source_key for hit in hits}
    changed = build(folder, kb, segment_tokens=32)  # a new recipe shapes stale pages from the base
    assert (changed.accounting.published, changed.accounting.stale) == (2, 1)
    hits = stillroom.open(kb).search("kept by b", 10, collapse=False)
    assert "b.md" in {hit.source_key for hit in hits}
    write(folder, pages("abc"))
    assert build(folder, kb).accounting.stale == 0


def test_rows_of_a_damaged_file_are_stale(tmp_path):
    folder, kb = tmp_path / "in", tmp_path / "kb"
    folder.mkdir()
    rows = [{"_id": str(n), "text": text_of(str(n))} for n in range(3)]
    (folder / "r.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "a.md").write_text(text_of("a"))
    build(folder, kb)
    (folder / "r.jsonl").unlink()
    os.symlink(tmp_path / "gone", folder / "r.jsonl")
    accounting = build(folder, kb).accounting
    assert (accounting.unchanged, accounting.stale, accounting.rejected) == (1, 3, 0)


def test_an_incremental_build_equals_one_from_scratch(tmp_path):
    folder, kb = write(tmp_path / "in", pages("abcdef")), tmp_path / "kb"
    build(folder, kb)
    write(folder, pages("bcdefgh", c=2, d=1))
    build(folder, kb)
    build(folder, tmp_path / "scratch")
    assert contents(kb) == contents(tmp_path / "scratch")
    refitted = build(folder, kb, refit=True)
    fresh = read_manifest(tmp_path / "scratch", current_build(tmp_path / "scratch"))
    assert refitted.plan == fresh.plan
    assert verify_build(kb) == []


def test_the_fusion_weight_is_carried_with_its_drift(tmp_path):
    folder, kb = write(tmp_path / "in", pages("abcdefgh")), tmp_path / "kb"
    first = build(folder, kb)
    write(folder, pages("abcdefgi"))
    second = read_manifest(kb, build(folder, kb).build)
    assert second.plan.dense_weight == first.plan.dense_weight
    assert second.fit.build == first.build
    assert 0 < second.fit.drift <= 0.5
    write(folder, pages("qrstuvwx"))
    third = read_manifest(kb, build(folder, kb).build)
    assert (third.fit.build, third.fit.drift) == (third.build, 0.0)


def test_a_changed_recipe_says_what_will_be_redone(tmp_path, encoded):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    build(folder, kb)
    recipe = Recipe("corpus", (Source("docs", str(folder)),), keys=("text", "sentence"))
    planned = plan_build(recipe, str(kb))
    assert not planned.rules.same
    assert planned.changes == ("keys: text, path is now text, sentence",)
    assert planned.vectors_carried
    encoded.clear()
    assert run_build(planned).accounting.published == 3
    assert encoded == []


def test_rollback_is_a_swap_and_the_next_build_is_right(tmp_path):
    folder, kb = write(tmp_path / "in", pages("ab")), tmp_path / "kb"
    first = build(folder, kb)
    before = contents(kb)
    write(folder, pages("abc"))
    second = build(folder, kb)
    assert rollback(str(kb), first.build[:10]) == first.build
    assert contents(kb) == before
    assert "c.md" not in {h.source_key for h in stillroom.open(kb).search("notes", 50)}
    again = build(folder, kb)
    assert again.build == second.build  # made already: publishing it is a pointer swap
    write(folder, pages("abcd"))
    build(folder, kb)
    build(folder, tmp_path / "scratch")
    assert contents(kb) == contents(tmp_path / "scratch")


def test_gc_keeps_the_live_the_newest_and_what_readers_hold(tmp_path):
    folder, kb = tmp_path / "in", tmp_path / "kb"
    made = []
    for count in range(1, 6):
        write(folder, pages("abcdef"[:count]))
        made.append(build(folder, kb).build)
    rollback(str(kb), made[1])
    held = stillroom.open(kb)
    rollback(str(kb), made[3])
    removed = collect_garbage(kb, keep=1)
    assert removed == [made[0], made[2]]
    assert len(held.search("notes", 50, collapse=False)) >= 2
    assert [p.name for p in (kb / "serve").iterdir()]
    for build_id in (made[1], made[3], made[4]):
        assert verify_build(kb, build_id) == []
    del held
    assert collect_garbage(kb, keep=1) == [made[1]]
    assert len(list((kb / "serve").iterdir())) == 2
    assert verify_build(kb) == []


def test_many_small_builds_leave_few_files(tmp_path, monkeypatch):
    monkeypatch.setattr(carry, "MANY_SMALL", 3)
    folder, kb = tmp_path / "in", tmp_path / "kb"
    names = "abcdefghi"
    for count in range(1, len(names) + 1):
        write(folder, pages(names[:count]))
        build(folder, kb)
    fragments = lance.dataset(str(kb / "documents.lance")).get_fragments()
    assert len(fragments) <= 5
    build(folder, tmp_path / "scratch")
    assert contents(kb) == contents(tmp_path / "scratch")


def test_a_bundle_delivered_twice_doubles_nothing(tmp_path, monkeypatch):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    real = write_stage._Write.process

    def twice(self, group):
        group = (group[0], {name: list(side) for name, side in group[1].items()})
        list(real(self, group))
        yield from real(self, group)

    monkeypatch.setattr(write_stage._Write, "process", twice)
    build(folder, kb)
    monkeypatch.undo()
    build(folder, tmp_path / "scratch")
    assert contents(kb) == contents(tmp_path / "scratch")
    assert verify_build(kb) == []


def test_publishing_twice_even_at_once_is_harmless(tmp_path, monkeypatch):
    folder, kb = write(tmp_path / "in", pages("abcd")), tmp_path / "kb"
    errors: list[BaseException] = []

    def several(plan, made, *rest):
        def one() -> None:
            try:
                publish(plan, made)
            except BaseException as error:  # noqa: BLE001 - all of them, to be looked at below
                errors.append(error)

        threads = [threading.Thread(target=one) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return publish(plan, made, *rest)

    monkeypatch.setattr(pipeline, "publish", several)
    build(folder, kb)
    monkeypatch.undo()
    assert errors == []
    assert verify_build(kb) == []
    build(folder, tmp_path / "scratch")
    assert contents(kb) == contents(tmp_path / "scratch")


def test_verify_names_what_is_wrong(tmp_path):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    build(folder, kb)
    assert verify_build(kb) == []
    manifest = read_manifest(kb, current_build(kb))
    vectors = kb / "serve" / manifest.serve.digest / "vectors.npy"
    raw = bytearray(vectors.read_bytes())
    raw[-1] ^= 1
    vectors.write_bytes(raw)
    assert any("vectors.npy" in problem for problem in verify_build(kb))
    raw[-1] ^= 1
    vectors.write_bytes(raw)
    shutil.rmtree(kb / "keys.lance")
    assert any("keys" in problem for problem in verify_build(kb))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("set", "set", "set", "delete", "recipe", "rollback", "crash")),
        st.sampled_from("abcd"),
        st.integers(0, 2),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_any_sequence_of_changes_ends_like_a_build_from_scratch(tmp_path, steps, monkeypatch):
    root = tmp_path / str(len(list(tmp_path.iterdir())))
    folder, kb = root / "in", root / "kb"
    state = pages("ab")
    recipe: dict[str, Any] = {}
    write(folder, state)
    made = [build(folder, kb).build]
    for action, name, version in steps:
        if action == "set":
            state[f"{name}.md"] = text_of(name, version)
        elif action == "delete" and len(state) > 1:
            state.pop(f"{name}.md", None)
        elif action == "recipe":
            recipe = {"segment_tokens": 32 + 16 * version}
        elif action == "rollback":
            rollback(str(kb), made[version % len(made)])
        write(folder, state)
        if action == "crash":
            monkeypatch.setenv(
                "STILLROOM_FAULT", f"raise@{('shape', 'write', 'before-manifest')[version]}"
            )
            with contextlib.suppress(stillroom.StillroomError):
                build(folder, kb, **recipe)
            monkeypatch.delenv("STILLROOM_FAULT")
        made.append(build(folder, kb, **recipe).build)
    build(folder, kb, refit=True, **recipe)
    fresh = root / "scratch"
    build(folder, fresh, **recipe)
    assert contents(kb) == contents(fresh)
    plans = [read_manifest(base, current_build(base)).plan for base in (kb, fresh)]
    assert plans[0] == plans[1]
    assert verify_build(kb) == []


FORMS = ({"dims": 128, "dtype": "int8"}, {"dims": 64}, {"dtype": "bit"}, {"dtype": "int8"})


def test_another_form_of_the_vectors_encodes_and_shapes_nothing(tmp_path, encoded):
    folder, kb = write(tmp_path / "in", pages("abcdef")), tmp_path / "kb"
    first = build(folder, kb)
    before = contents(kb)
    encoded.clear()
    for form in FORMS:
        outcome = build(folder, kb, **form)
        assert (outcome.changed, outcome.accounting.unchanged) == (True, 6)
        assert (outcome.plan.dims, outcome.plan.dtype) == (
            form.get("dims", 0), form.get("dtype", "f32"),
        )  # fmt: skip
        assert verify_build(kb) == []
        (hit,) = stillroom.open(kb).search("What does page c say about its keeper?", 1)
        assert hit.source_key == "c.md"
    assert encoded == []
    again = build(folder, kb)
    assert contents(kb) == before
    assert again.plan == first.plan


def test_forms_of_one_base_are_the_same_built_at_once_or_in_steps(tmp_path):
    """The axes are fitted over carried, rewritten and new parts alike, each vector once."""
    form = {"dims": 64, "dtype": "bit"}
    folder, kb = write(tmp_path / "in", pages("abcdef")), tmp_path / "kb"
    build(folder, kb, **form)
    write(folder, pages("bcdefgh", c=2, d=1))
    build(folder, kb, **form)
    build(folder, tmp_path / "scratch", workers=2, **form)
    assert contents(kb) == contents(tmp_path / "scratch")


def test_an_unchanged_run_reads_no_vectors(tmp_path, monkeypatch):
    folder, kb = write(tmp_path / "in", pages("abc")), tmp_path / "kb"
    build(folder, kb, dims=64)
    monkeypatch.setattr(pca, "LanceFileReader", lambda *_, **__: pytest.fail("vectors were read"))
    assert not build(folder, kb, dims=64).changed


@pytest.mark.parametrize("dims", [392, 4096])
def test_more_dimensions_than_the_encoder_has_are_refused(tmp_path, dims):
    with pytest.raises(BadInput, match="384"):
        build(write(tmp_path / "in", pages("a")), tmp_path / "kb", dims=dims)


def test_all_dimensions_asked_for_by_number_are_all(tmp_path):
    folder = write(tmp_path / "in", pages("ab"))
    assert build(folder, tmp_path / "kb", dims=384).plan.dims == 0


def test_a_large_base_is_searched_by_an_index(tmp_path, monkeypatch):
    """The cross-over is lowered, so that this small base has one."""
    folder, kb = write(tmp_path / "in", pages("abcdefgh")), tmp_path / "kb"
    build(folder, tmp_path / "plain")
    monkeypatch.setattr(tables, "CROSS_OVER", 8)
    outcome = build(folder, kb, dims=64, dtype="bit")
    manifest = read_manifest(kb, outcome.build)
    assert (manifest.plan.tier, set(manifest.index)) == ("ivf_rq", {"recall", "bytes"})
    assert manifest.index["recall"] > 0.9
    assert manifest.index["bytes"] > 0
    assert verify_build(kb) == []
    asked: list[int] = []
    real = Proposals.__call__

    def spy(self, query, count):
        asked.append(count)
        return real(self, query, count)

    monkeypatch.setattr(Proposals, "__call__", spy)
    base = stillroom.open(kb)
    (hit,) = base.search("kept by c and nobody else", 1, mode="dense")
    assert hit.source_key == "c.md"
    assert asked
    asked.clear()
    assert base.search("kept by c", where={"source": "docs"}, mode="dense")
    assert not asked  # a filter is not the index's business
    before = centroids_in(kb, manifest)
    write(folder, pages("abcdefghij"))
    grown = build(folder, kb, dims=64, dtype="bit")
    carried = centroids_in(kb, read_manifest(kb, grown.build))
    assert before is not None
    assert carried.tolist() == before.tolist()
    assert base.refresh()
    assert base.search("kept by j and nobody else", 1)[0].source_key == "j.md"
    monkeypatch.setattr(tables, "CROSS_OVER", 10**9)
    write(folder, pages("abcdefghi"))
    assert build(folder, kb).plan.tier == "scan"
    assert verify_build(kb) == []
