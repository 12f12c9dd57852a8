"""What is carried over from the parent build, and what is not."""

import pytest

from stillroom.transforms.carry import OldDocument, Rules, decide, inputs_of
from stillroom.transforms.load import DocumentRef

NEW = DocumentRef("id", "d1", "m1", "part", 0, "/in/a.zip!b.jsonl#7")
OLD = OldDocument("d1", "m1", "docs", "/in/a.zip!b.jsonl#7", "part")
SAME = Rules(same=True)
OTHER = Rules(same=False)
NOTHING: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("old", "rules", "fate"),
    [
        (None, SAME, "new"),
        (OLD, SAME, "unchanged"),
        (OLD, OTHER, "changed"),
        (OldDocument("d2", "m1", "docs", "", "p"), SAME, "changed"),
        (OldDocument("d1", "m2", "docs", "", "p"), SAME, "changed"),
    ],
)
def test_a_document_that_was_read(old, rules, fate):
    assert decide(NEW, old, rules, NOTHING) == (fate, "")


@pytest.mark.parametrize(
    ("failed", "incomplete", "expected"),
    [
        (set(), (), ("removed", "")),
        ({"/in/other"}, (), ("removed", "")),
        ({"/in/a.zip!b.jsonl#7"}, (), ("stale", "/in/a.zip!b.jsonl#7")),
        ({"/in/a.zip!b.jsonl"}, (), ("stale", "/in/a.zip!b.jsonl")),
        ({"/in/a.zip"}, (), ("stale", "/in/a.zip")),
        ({"/in/a"}, (), ("removed", "")),
        (set(), ("docs",), ("stale", "")),
        (set(), ("elsewhere",), ("removed", "")),
    ],
)
def test_a_document_that_is_absent(failed, incomplete, expected):
    rules = Rules(True, incomplete)
    assert decide(None, OLD, rules, frozenset(failed)) == expected


def test_inputs_of_a_uri_are_itself_and_all_that_holds_it():
    assert list(inputs_of("/in/a#b.zip!c.jsonl#7")) == [
        "/in/a#b.zip!c.jsonl#7",
        "/in/a#b.zip!c.jsonl",
        "/in/a#b.zip",
        "/in/a",
    ]
