"""Topical segments: cuts where topics change, the best ones together, every turn in one segment."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillroom.transforms.topical import (
    MIN_TURNS,
    TopicalSegmenter,
    best_cuts,
    cues,
    cut_worths,
    word_vectors,
)
from stillroom.transforms.turns import Said

WHALES = [
    "Did you know that humpback whales sing for hours?",
    "Yes, whale songs travel for miles through the ocean.",
    "Blue whales are even louder than humpbacks.",
    "The ocean must be full of whale songs then.",
]
BREAD = [
    "How long should sourdough bread rest before baking?",
    "I let the bread dough rest overnight in the fridge.",
    "Does cold dough give the bread a better crust?",
    "A hot oven gives sourdough its crust.",
]


def said(texts):
    return [Said(text, "", "person") for text in texts]


def test_two_topics_are_two_segments(minilm):
    segmenter = TopicalSegmenter(minilm.spec)
    assert segmenter.runs(said(WHALES + BREAD)) == [(0, 4), (4, 8)]
    kept = segmenter.vectors.take()
    assert len(kept) == 8
    assert segmenter.vectors.take() == {}


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_few_turns_are_one_segment(minilm, n):
    assert TopicalSegmenter(minilm.spec).runs(said(BREAD[:n])) == [(0, n)]


@given(st.lists(st.floats(-1, 1, width=16), min_size=5, max_size=13))
def test_the_cuts_are_worth_most_of_all_that_may_be(worth):
    made = best_cuts(np.array(worth))
    total = len(worth) - 1
    places = range(MIN_TURNS, total - MIN_TURNS + 1)
    best = 0.0
    for count in range(total):
        for some in itertools.combinations(places, count):
            if all(b - a >= MIN_TURNS for a, b in itertools.pairwise(some)):
                best = max(best, sum(worth[place] for place in some))
    assert sum(worth[place] for place in made) == pytest.approx(best, abs=1e-6)
    assert all(b - a >= MIN_TURNS for a, b in itertools.pairwise([0, *made, total]))


def test_a_cut_is_worth_more_between_what_is_unlike():
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], np.float32)
    worth = cut_worths([(1.0, vectors)])
    assert int(np.argmax(worth)) == 3


def test_cues():
    made = cues(["Hi.", "How are you?", "And you?", "It is late.", "Bread rests."])
    assert made[1] > 0 > made[3]
    assert made[2] == made[4] == 0


def test_words_that_all_share_say_nothing():
    made = word_vectors(["apples pears", "apples plums", "apples"])
    assert made[2].sum() == 0
    np.testing.assert_allclose(np.linalg.norm(made[:2], axis=1), 1)
