"""Recipes: TOML, refusals that name the value, and what the fingerprint sees."""

from dataclasses import replace

import pytest

from stillroom.schemas.recipe import (
    Recipe,
    Source,
    read_recipe,
    recipe_from_dict,
    recipe_to_dict,
)

RECIPE = Recipe("corpus", (Source("a", "/in/a"), Source("b", "/in/b", "jsonl", "id")))


def test_a_recipe_comes_back_from_plain_data():
    full = replace(
        RECIPE,
        sources=(Source("a", "x", "csv", "i", "t", ("u", "v"), "c"),),
        keys=("text", "sentence", "compressed"),
        dense_keys=("compressed",),
        compress_rate=0.5,
        dims=128,
        dtype="int8",
        encoder="/models/x",
        max_error_rate=0.0,
    )
    assert recipe_from_dict(recipe_to_dict(full)) == full


def test_toml_with_relative_sources(tmp_path):
    path = tmp_path / "base.toml"
    path.write_text(
        """
        kind = "corpus"
        keys = ["text", "path", "sentence"]
        segment_tokens = 128
        [[source]]
        name = "near"
        uri = "docs"
        [[source]]
        name = "rows"
        uri = "/abs/rows.jsonl"
        text_columns = ["title", "body"]
        [[source]]
        name = "far"
        uri = "gs://bucket/x"
        """,
        encoding="utf-8",
    )
    made = read_recipe(path)
    assert [s.uri for s in made.sources] == [
        str(tmp_path / "docs"),
        "/abs/rows.jsonl",
        "gs://bucket/x",
    ]
    assert made.sources[1].text_columns == ("title", "body")
    assert made.keys == ("text", "path", "sentence")
    assert made.segment_tokens == 128


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind = ", "base.toml is not valid TOML"),
        ("kind = 'corpus'\nsource = 'docs'", "sources is a list of tables, not 'docs'"),
        ("kind = 'corpus'\n[[source]]\nname = 'a'", "uri"),
        ("kind = 'corpus'\n[[source]]\nname = 'a'\nuri = 'x'\npath = 'y'", "source has no 'path'"),
        (
            "kind = 'corpus'\ntokens = 5\n[[source]]\nname = 'a'\nuri = 'x'",
            "recipe has no 'tokens'",
        ),
        ("[[source]]\nname = 'a'\nuri = 'x'", "kind"),
        ("kind = 'corpus'", "sources with different names"),
    ],
)
def test_wrong_files_are_refused(text, message, tmp_path):
    path = tmp_path / "base.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_recipe(path)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="segment_tokens"):
        recipe_from_dict({"kind": "corpus", "budget": 1, "source": [{"name": "a", "uri": "x"}]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "wiki"}, "corpus, chat, mathlib, security, not 'wiki'"),
        ({"sources": ()}, "sources with different names"),
        ({"sources": (Source("a", "x"), Source("a", "y"))}, "'a', 'a'"),
        ({"keys": ("text", "words")}, "'words' is not one of"),
        ({"keys": ("path",), "dense_keys": ("path",)}, "must include 'text', not only path"),
        ({"dense_keys": ("sentence",)}, "sentence.*not all among"),
        ({"segment_tokens": 15}, "at least 16, not 15"),
        ({"compress_rate": 0.0}, "at most 1, not 0.0"),
        ({"compress_rate": 1.1}, "at most 1, not 1.1"),
        ({"near_duplicate": 0.0}, "near_duplicate is over 0 and at most 1, not 0.0"),
        ({"dims": 4}, "multiple of 8, not 4"),
        ({"dims": 130}, "multiple of 8, not 130"),
        ({"dims": -8}, "multiple of 8, not -8"),
        ({"dtype": "fp4"}, "f32, int8, bit, not 'fp4'"),
        ({"max_error_rate": -0.1}, "between 0 and 1, not -0.1"),
    ],
)
def test_wrong_values_are_refused_with_their_value(change, message):
    with pytest.raises(ValueError, match=message):
        replace(RECIPE, **change)


def test_wrong_sources_are_refused():
    with pytest.raises(ValueError, match="'a' has no uri"):
        Source("a", "")
    with pytest.raises(ValueError, match="'docx' is not one of auto"):
        Source("a", "x", "docx")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment_tokens", "512"),
        ("dims", "128"),
        ("dtype", 8),
        ("max_error_rate", "0.1"),
        ("keys", 5),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_name(name, value):
    data = {"kind": "corpus", "source": [{"name": "a", "uri": "x"}], name: value}
    with pytest.raises(ValueError, match=name):
        recipe_from_dict(data)


def test_a_column_written_without_a_list_is_not_taken_for_its_letters():
    data = {"kind": "corpus", "source": [{"name": "a", "uri": "x", "text_columns": "body"}]}
    try:
        made = recipe_from_dict(data)
    except ValueError as error:
        assert "text_columns" in str(error)  # noqa: PT017 - refusing is right as well
    else:
        assert made.sources[0].text_columns == ("body",)


def test_the_fingerprint_ignores_where_sources_lie_and_the_error_budget():
    moved = replace(RECIPE, sources=(Source("a", "/new"), Source("b", "/else", "jsonl", "id")))
    assert moved.fingerprint == RECIPE.fingerprint
    assert replace(RECIPE, max_error_rate=0.1).fingerprint == RECIPE.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"segment_tokens": 256},
        {"keys": ("text", "path", "sentence")},
        {"encoder": "other"},
        {"near_duplicate": 0.9},
        {"kind": "chat"},
        {"compress_rate": 0.5},
        {"sources": (Source("a", "/in/a"), Source("b", "/in/b", "jsonl", "other"))},
        {"sources": (Source("a", "/in/a"), Source("c", "/in/b", "jsonl", "id"))},
    ],
)
def test_the_fingerprint_sees_what_decides_results(change):
    assert replace(RECIPE, **change).fingerprint != RECIPE.fingerprint
