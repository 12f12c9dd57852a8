"""Entries, keys and links: digests, defaults and the closed lists."""

from dataclasses import FrozenInstanceError, replace

import pytest

from stillroom.schemas.documents import Span
from stillroom.schemas.entries import Entry, Key, KeyKind, Link, LinkKind
from stillroom.schemas.plan import EXACT_FIELD

ENTRY = Entry("e", "section", "Title", "value", Span("d", 0, 5))


def test_an_entry_s_digest_is_of_its_value_only():
    other = replace(ENTRY, id="f", title="T", span=Span("d2", 3, 8), facets={"a": 1}, prior=2.0)
    assert other.digest == ENTRY.digest
    assert replace(ENTRY, value="value ").digest != ENTRY.digest


def test_equal_texts_of_any_key_share_a_digest():
    text = Key("k", "e", KeyKind.TEXT, "same")
    assert replace(text, id="l", entry_id="f", kind=KeyKind.FACT, dense=True).text_digest == (
        text.text_digest
    )
    assert replace(text, text="Same").text_digest != text.text_digest


def test_the_digests_of_a_value_and_of_a_key_never_meet():
    assert Key("k", "e", KeyKind.TEXT, "value").text_digest != ENTRY.digest


def test_nouns_cannot_be_changed():
    for noun, field in ((ENTRY, "value"), (Link("a", "b", LinkKind.NEXT), "weight")):
        with pytest.raises(FrozenInstanceError):
            setattr(noun, field, None)


def test_kinds_are_words_that_can_be_fields():
    words = [kind.value for kind in (*KeyKind, *LinkKind)]
    assert all(word.isidentifier() and word == word.lower() for word in words)
    assert len({kind.value for kind in KeyKind}) == len(KeyKind)
    assert EXACT_FIELD not in {kind.value for kind in KeyKind}


def test_a_kind_that_is_not_listed_is_refused():
    with pytest.raises(ValueError, match="nonsense"):
        KeyKind("nonsense")
