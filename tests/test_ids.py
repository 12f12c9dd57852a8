"""Identifiers: stable, unambiguous, and the same in every process."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.schemas.ids import (
    canonical_json,
    digest,
    document_id,
    entry_id,
    facets_digest,
    key_id,
)

PARTS = st.lists(st.one_of(st.text(), st.binary()), max_size=4)


def _encoded(parts):
    return [p if isinstance(p, bytes) else p.encode("utf-8", "surrogatepass") for p in parts]


@given(PARTS, PARTS)
def test_digests_differ_where_the_parts_do(a, b):
    assert (digest(*a) == digest(*b)) == (_encoded(a) == _encoded(b))


def test_borders_between_parts_matter():
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4


def test_ids_are_32_hexadecimal_characters_and_never_change():
    # Written down: published knowledge bases hold these.
    assert digest() == "cae66941d9efbd404e4d88758ea67670"
    made = document_id("corpus", "a/b.md", "", "7")
    assert len(made) == 32
    assert int(made, 16) >= 0
    assert made == digest("document", "corpus", "a/b.md", "", "7")


def test_every_part_of_an_id_matters():
    documents = {
        document_id("s", "p", "m", "r"),
        document_id("t", "p", "m", "r"),
        document_id("s", "q", "m", "r"),
        document_id("s", "p", "n", "r"),
        document_id("s", "p", "m", "u"),
        document_id("s", "p", "mr", ""),
        document_id("s", "p"),
    }
    entries = {entry_id("d", "k", "v", 0), entry_id("d", "k", "v", 1), entry_id("d", "k", "w", 0)}
    keys = {key_id("d", "k", "v", 0), key_id("d", "k", "v", 1), key_id("d", "j", "v", 0)}
    assert len(documents | entries | keys) == 7 + 3 + 3


def test_another_process_with_another_hash_seed_agrees():
    code = "from stillroom.schemas.ids import *; print(facets_digest({'b': 1, 'a': ('x', 'y')}))"
    for seed in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed},
            check=True,
        )
        assert made.stdout.strip() == facets_digest({"a": ("x", "y"), "b": 1})


def test_lone_surrogates_have_a_digest():
    assert digest("\ud800") != digest("\udc00")


def test_canonical_json_ignores_order_and_refuses_nan():
    assert canonical_json({"b": 1, "a": [True, "é"]}) == '{"a":[true,"é"],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(float("nan"))


def test_facets_that_differ_in_type_have_different_digests():
    assert len({facets_digest({"a": v}) for v in (1, 1.5, "1", True, ("1",))}) == 5
