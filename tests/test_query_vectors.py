"""Which encoder makes a query's vector, and what the hits say of it; on a base large enough to fit one."""

import json
import subprocess
import sys

import numpy as np
import pytest

import stillroom
from stillroom import query_vectors
from stillroom.errors import BadInput, MissingExtra
from stillroom.folders import open_folder
from stillroom.pipelines.build import run_build
from stillroom.pipelines.plan import plan_build
from stillroom.schemas.recipe import Recipe, Source
from stillroom.store import current_build, manifest_name, read_manifest
from stillroom.transforms.maintenance import collect_garbage, verify_build

TOPICS = {
    "valves": "pressure relief spring boiler steam leak seat gasket",
    "whales": "ocean song migration krill fluke calf baleen depth",
    "bread": "dough yeast oven crust flour knead starter loaf",
    "orbits": "planet gravity ellipse comet moon period mass star",
}


def write_corpus(path, pages=160):
    rows = []
    for n in range(pages):
        name, words = list(TOPICS.items())[n % len(TOPICS)]
        some = words.split()
        a, b, c = (some[(n // 4 + step) % len(some)] for step in (0, 1, 3))
        text = (
            f"Note {n} is about {name}. The {a} of such {name} depends on the {b} in many cases. "
            f"When the {c} changes, people who know {name} look at the {a} first."
        )
        rows.append({"_id": str(n), "title": f"{name} {n}", "text": text})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def build(source, kb, **options):
    recipe = Recipe("corpus", (Source("docs", str(source)),))
    return run_build(plan_build(recipe, str(kb), **options))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    root = tmp_path_factory.mktemp("light")
    build(write_corpus(root / "in.jsonl"), root / "kb")
    return root / "kb"


def with_retention(base, tmp_path, **legs):
    """A copy of the base whose manifest says this of its light encoder."""
    import shutil

    kb = tmp_path / "kb"
    shutil.copytree(base, kb)
    path = kb / manifest_name(current_build(kb))
    data = json.loads(path.read_text())
    data["light"]["retention"] = legs
    path.write_text(json.dumps(data))
    return kb


def encoders_of(hits):
    return {reason.encoder for hit in hits for reason in hit.reasons if reason.leg == "dense"}


def test_a_build_fits_a_light_encoder_and_says_how_good_it_is(base):
    manifest = read_manifest(base, current_build(base))
    assert set(manifest.light.retention) == {"dense", "hybrid"}
    assert manifest.light.rows > 160
    assert verify_build(base) == []
    light = stillroom.open(base)._builds[0].light
    full = query_vectors.Encode("full")(stillroom.open(base)._builds[0], "krill in the ocean")
    assert float(light.encode("krill in the ocean") @ full.vector) > 0.5


def test_it_answers_and_is_named_in_the_reasons(base):
    kb = stillroom.open(base)
    for encoder in ("light", "full"):
        hits = kb.search("what do whales sing in the ocean", k=5, mode="dense", encoder=encoder)
        assert {hit.title.split()[0] for hit in hits} == {"whales"}
        assert encoders_of(hits) == {encoder}
        assert hits.notes == ()


def test_the_default_is_light_only_where_it_is_good_enough(base, tmp_path):
    good = stillroom.open(with_retention(base, tmp_path / "a", dense=0.95, hybrid=0.99))
    assert encoders_of(good.search("ocean song", 3)) == {"light"}
    poor = stillroom.open(with_retention(base, tmp_path / "b", dense=0.95, hybrid=0.9))
    assert encoders_of(poor.search("ocean song", 3)) == {"full"}


def test_a_query_that_it_hardly_knows_goes_to_the_full_model(base, tmp_path):
    kb = stillroom.open(with_retention(base, tmp_path, dense=1.0, hybrid=1.0))
    hits = kb.search("cryptographic ballet ocean", 3)
    assert encoders_of(hits) == {"full"}
    (note,) = hits.notes
    assert "the light encoder knows" in note
    assert "the full model encoded it" in note


def test_without_the_full_model_the_light_one_answers(base, tmp_path, monkeypatch):
    monkeypatch.setattr(query_vectors, "is_installed", lambda spec: False)
    monkeypatch.setattr("stillroom.knowledge_base.is_installed", lambda spec: False)
    poor = stillroom.open(with_retention(base, tmp_path / "a", dense=0.1, hybrid=0.1))
    hits = poor.search("ocean song", 3)
    assert encoders_of(hits) == {"light"}
    assert "not installed" in hits.notes[0]
    good = stillroom.open(with_retention(base, tmp_path / "b", dense=1.0, hybrid=1.0))
    assert encoders_of(good.search("cryptographic ballet ocean", 3)) == {"light"}
    with pytest.raises(MissingExtra, match=r"stillroom\[build,models\]"):
        good.search("ocean", 3, encoder="full")


def test_a_base_without_one_refuses_it_by_name(kb):
    with pytest.raises(BadInput, match="no light query encoder"):
        kb.search("whales", encoder="light")
    with pytest.raises(BadInput, match="'light', 'full' or None"):
        kb.search("whales", encoder="medium")


def test_an_encoder_is_carried_with_its_build_and_refitted_when_asked(tmp_path):
    source, kb = write_corpus(tmp_path / "in.jsonl"), tmp_path / "kb"
    build(source, kb)
    first = read_manifest(kb, current_build(kb)).light
    write_corpus(source, 164)
    build(source, kb)
    assert read_manifest(kb, current_build(kb)).light == first
    build(source, kb, refit=True)
    manifest = read_manifest(kb, current_build(kb))
    assert manifest.light.files.digest != first.files.digest
    scratch = tmp_path / "scratch.kb"
    build(source, scratch)
    assert read_manifest(scratch, current_build(scratch)).light == manifest.light
    assert len(open_folder(kb).folders("encoders")) == 2
    collect_garbage(kb, keep=1)
    assert open_folder(kb).folders("encoders") == [manifest.light.files.digest]
    assert stillroom.open(kb).search("ocean", 3, encoder="light")


def test_a_damaged_table_is_found_by_verify(base, tmp_path):
    kb = with_retention(base, tmp_path, dense=1.0, hybrid=1.0)
    (folder,) = (kb / "encoders").iterdir()
    raw = bytearray((folder / "table.npy").read_bytes())
    raw[-1] ^= 1
    (folder / "table.npy").write_bytes(raw)
    assert any("table.npy is not what its checksum says" in line for line in verify_build(kb))


def test_a_hybrid_search_by_the_light_encoder_loads_no_framework(base):
    code = """
import sys
import stillroom
hits = stillroom.open(sys.argv[1]).search("ocean song", 3, encoder="light")
assert {r.leg for r in hits[0].reasons} == {"lexical", "dense"}
print(*sorted({"torch", "apache_beam", "lancedb", "transformers", "scipy"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(base)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_vectors_of_single_tokens_do_not_depend_on_their_block(minilm):
    whole = minilm.encode_vocabulary(1000, 1200)
    parts = [minilm.encode_vocabulary(a, a + 50) for a in range(1000, 1200, 50)]
    np.testing.assert_allclose(whole, np.concatenate(parts), atol=1e-6)
    assert whole.shape == (200, 384)
    cat = minilm.tokens.tokenizer.token_to_id("cat")
    alone = minilm.encode_queries(["cat"])[0]
    assert float(minilm.encode_vocabulary(cat, cat + 1)[0] @ alone) > 0.999
