"""Expansions: facts, keyphrases, summaries and dated events, with and without a language model."""

from datetime import UTC, datetime

import pytest

from stillroom.schemas.entries import KeyKind
from stillroom.transforms.expansions import Expander, Utterance, in_third_person
from stillroom.transforms.language_models import language_model
from tests.test_language_models import endpoint

AT = datetime(2023, 5, 8, 12, tzinfo=UTC)  # a Monday
TURNS = [
    Utterance("Ann", "I went to a support group yesterday. It was so powerful, you know.", AT),
    Utterance("Bob", "How did my sister like it there?", AT),
    Utterance("Bob", "I'm moving to Lisbon in June 2024 with my red bicycle.", AT),
]


def texts(kind, turns=TURNS, model=None):
    return [one.text for one in Expander(model).expand(kind, turns)]


def test_facts_are_statements_with_a_name_in_place_of_i():
    assert texts(KeyKind.FACT) == [
        "Ann went to a support group yesterday.",
        "Bob is moving to Lisbon in June 2024 with Bob's red bicycle.",
    ]


def test_events_carry_the_date_that_it_was():
    first, second = Expander().expand(KeyKind.EVENT, TURNS)
    assert first.text == "7 May 2023: Ann went to a support group yesterday."
    assert (first.starts_at.day, first.ends_at.day) == (7, 7)
    assert second.text.startswith("1 June 2024 to 30 June 2024: Bob is moving")


def test_an_event_needs_to_know_when_it_was_said():
    assert texts(KeyKind.EVENT, [Utterance("Ann", "I went there yesterday evening.")]) == []


def test_a_summary_is_what_is_most_central():
    (made,) = texts(KeyKind.SUMMARY)
    assert made in "\n".join([*texts(KeyKind.FACT), TURNS[0].text, TURNS[1].text])
    assert texts(KeyKind.SUMMARY, [Utterance("Ann", "Ok.", AT)]) == []


def test_keyphrases_are_nouns_without_articles():
    (made,) = texts(KeyKind.KEYPHRASE)
    phrases = made.split("; ")
    assert {"support group", "red bicycle", "lisbon"} <= set(phrases)
    assert not {"i", "it", "a"} & set(phrases)


@pytest.mark.parametrize("name", ["Ann", "A\\1 {x}", "李"])
def test_any_name_may_stand_for_i(name):
    assert in_third_person("I love my cat", name) == f"{name} love {name}'s cat"


def test_a_model_is_asked_where_there_is_one(monkeypatch, tmp_path):
    answers = [
        '["Ann attends a support group", "Bob moves to Lisbon", "Bob moves to Lisbon"]',
        '["2023-05-07: Ann went to a group", "soon: nothing", "2023-02-31: never"]',
        "I cannot", "{}",
    ]  # fmt: skip
    with endpoint(answers, monkeypatch, tmp_path) as asked:
        model = language_model("openai:m")
        assert len(texts(KeyKind.FACT, model=model)) == 2
        assert texts(KeyKind.EVENT, model=model) == ["7 May 2023: Ann went to a group"]
        assert texts(KeyKind.SUMMARY, model=model) == []  # absent, and nothing else is lost
    assert "said on 2023-05-08, a Monday" in asked[0]["messages"][0]["content"]
