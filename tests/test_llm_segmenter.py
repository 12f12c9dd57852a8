"""Segments from a language model: a true partition or the fallback, never a lost turn."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms import llm_segmenter
from stillroom.transforms.language_models import language_model
from stillroom.transforms.llm_segmenter import LlmSegmenter, partition
from stillroom.transforms.turns import FixedSegmenter, Said
from tests.test_language_models import endpoint


def groups(*ends, **more):
    return json.dumps([{"end": end, **more} for end in ends])


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        (groups(2, 5), [(0, 3), (3, 6)]),
        (groups(5), [(0, 6)]),
        (groups(2, 4), [(0, 3), (3, 6)]),  # the last turn was forgotten
        (groups(2, 9), [(0, 3), (3, 6)]),  # and here an end is beyond it
        ('{"segments": [{"start": 0, "end": 1}, {"start": 1, "end": 5}]}', [(0, 2), (2, 6)]),
    ],
)
def test_answers_that_are_partitions(answer, runs):
    assert partition(answer, 6) == runs


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", "[1]", groups(3, 1), groups("2"), groups(7, 8, 9), groups(True, 5), "[{"],
)
def test_answers_that_are_none(answer):
    with pytest.raises(ValueError, match=r"."):
        partition(answer, 6)


@given(st.lists(st.integers(-2, 12), max_size=6), st.integers(2, 9))
def test_whatever_the_ends_every_turn_is_in_one_run(ends, total):
    try:
        runs = partition(groups(*ends), total)
    except ValueError:
        return
    assert [i for a, b in runs for i in range(a, b)] == list(range(total))


def test_the_model_is_asked_in_pieces_and_the_fallback_steps_in(monkeypatch, tmp_path):
    monkeypatch.setattr(llm_segmenter, "MAX_TURNS", 4)
    turns = [Said(f"Ann: turn {i}", "Ann", "person") for i in range(9)]
    with endpoint([groups(1, 3), "no idea", "still none"], monkeypatch, tmp_path) as asked:
        segmenter = LlmSegmenter(language_model("openai:m"), FixedSegmenter("turn"))
        runs = segmenter.runs(turns)
    assert runs == [(0, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)]
    assert len(asked) == 3
    assert "[3] Ann: turn 3" in asked[0]["messages"][0]["content"]
