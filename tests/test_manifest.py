"""Manifests: round trip, another format refused by name, damage told."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.manifest import (
    MANIFEST_FORMAT,
    DerivedFiles,
    Fit,
    Manifest,
    TableVersion,
    build_id,
    manifest_from_json,
    manifest_to_json,
)
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe, Source
from stillroom.schemas.rejects import Accounting
from stillroom.schemas.specs import AnalyzerSpec, EncoderSpec

MANIFEST = Manifest(
    build="b" * 32,
    parent="",
    code_version="0.1.0",
    inputs="i",
    recipe=Recipe("corpus", (Source("a", "x", "csv", text_columns=("t", "u")),)),
    encoder=EncoderSpec("minilm", "w", "t", 384, 256, lengths=(16, 32), rows=(8, 8)),
    analyzer=AnalyzerSpec("standard", "p"),
    plan=SearchPlan(calibration={"queries": 5.0}),
    tables={"entries": TableVersion(3, 10, "c")},
    lexical=DerivedFiles("l", "lc", {"meta.json": (5, "s")}),
    serve=DerivedFiles("s", "sc", {"bits.npy": (6, "t"), "keys.arrow": (0, "u")}),
    accounting=Accounting(3, 0, 1, 1, 0, {"empty": 1}),
    fit=Fit("a" * 32, ("e1", "e2"), 0.25),
    counts={"entries": 10},
    lexical_format="tantivy-0.27/1",
    index={"recall": 0.99, "bytes": 64},
    elastic={"128/int8": {"retention": 0.99, "bytes": 128}},
)


def test_a_manifest_comes_back():
    assert manifest_from_json(manifest_to_json(MANIFEST)) == MANIFEST


def test_equal_manifests_are_equal_text():
    turned = replace(MANIFEST, counts=dict(reversed(MANIFEST.counts.items())))
    assert manifest_to_json(turned) == manifest_to_json(MANIFEST)


@pytest.mark.parametrize("found", [MANIFEST_FORMAT + 1, 0, "1", None])
def test_another_format_is_refused_naming_both(found):
    data = {**json.loads(manifest_to_json(MANIFEST)), "format": found, "code_version": "9.9"}
    with pytest.raises(ValueError, match="format") as raised:
        manifest_from_json(json.dumps(data))
    for named in (repr(found), str(MANIFEST_FORMAT), "9.9"):
        assert named in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"x"', "{}"])
def test_what_is_no_manifest_is_refused(text):
    with pytest.raises(ValueError, match="manifest"):
        manifest_from_json(text)


@pytest.mark.parametrize(
    "name", [n for n in json.loads(manifest_to_json(MANIFEST)) if n not in ("format",)]
)
def test_a_part_that_is_not_there_or_of_another_shape_is_damage(name):
    data = json.loads(manifest_to_json(MANIFEST))
    value = data.pop(name)
    if name not in ("counts", "lexical_format", "elastic", "index"):
        with pytest.raises(ValueError, match="manifest"):
            manifest_from_json(json.dumps(data))
    if isinstance(value, dict) and name != "counts":
        with pytest.raises(ValueError, match=r"."):
            manifest_from_json(json.dumps({**data, name: [1]}))


@given(st.integers(0, len(manifest_to_json(MANIFEST)) - 2))
def test_a_manifest_cut_anywhere_is_refused(cut):
    with pytest.raises(ValueError, match="damaged"):
        manifest_from_json(manifest_to_json(MANIFEST)[:cut])


def test_content_sees_what_a_search_sees():
    same = replace(
        MANIFEST,
        build="x",
        parent="y",
        tables={"entries": TableVersion(9, 10, "c")},
        serve=replace(MANIFEST.serve, files={}),
    )
    assert same.content == MANIFEST.content
    others = [
        replace(MANIFEST, tables={"entries": TableVersion(3, 10, "d")}),
        replace(MANIFEST, serve=replace(MANIFEST.serve, content="d")),
        replace(MANIFEST, lexical=replace(MANIFEST.lexical, content="d")),
        replace(MANIFEST, plan=SearchPlan(dense_weight=0.25)),
    ]
    assert len({made.content for made in (*others, MANIFEST)}) == 5


def test_a_build_id_sees_all_it_is_made_of():
    base = ("parent", "inputs", "recipe", "0.1.0", False)
    ids = {build_id(*base)}
    for position, other in enumerate(("q", "j", "s", "0.2.0", True)):
        ids.add(build_id(*(other if i == position else v for i, v in enumerate(base))))
    assert len(ids) == 6
