"""Topical segments of a conversation without a language model: where cohesion is lowest, all cuts at once.

Turns are compared with the next two before and after a place: by the encoder's vectors, and a little by
the words that they share. A cut is worth what it severs less than a threshold, which adapts to how alike
the turns of this conversation are; a question that answers no question speaks for it, a word that points
back ("it", "those") against it. The cuts that are worth most together are taken (a dynamic
programme over all of them, where TextTiling takes each dip by itself). SeCom has a language model do
this. Constants were chosen on TIAGE's training dialogues.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.schemas.specs import EncoderSpec
from stillroom.transforms.turn_vectors import TurnVectors
from stillroom.transforms.turns import Runs, Said, runs_between

REACH = 2  # turns on each side of a cut that are compared across it
MIN_TURNS = 2  # of a segment: a question belongs with its answer
LEXICAL = 0.15  # weight of shared words beside the vectors' cosine
BASE, ADAPTIVE = 0.105, 0.5  # threshold: a constant, and a share of the mean similarity
QUESTION, POINTING = 0.3, 0.1  # what the two cues are worth

_QUESTION = re.compile("[?？؟]")
_POINTING = re.compile(  # English; in other languages the cue is silent
    r"\b(?:it|that|this|they|them|those|these|he|she|him|her|his|ones?|too|also)\b", re.IGNORECASE
)


@dataclass
class TopicalSegmenter:
    """Segments by vectors of the base's own encoder, which are kept for its keys."""

    encoder: EncoderSpec

    def __post_init__(self) -> None:
        self.vectors = TurnVectors(self.encoder)

    def setup(self) -> None:
        """The model is loaded for the first conversation."""

    def runs(self, turns: Sequence[Said]) -> Runs:
        """Every turn is in exactly one run."""
        if len(turns) < 2 * MIN_TURNS:
            return [(0, len(turns))]
        texts = [turn.text for turn in turns]
        spaces = ((1.0, self.vectors.of(texts)), (LEXICAL, word_vectors(texts)))
        worth = cut_worths(spaces) + cues(texts)
        return runs_between([0, *best_cuts(worth)], len(turns))


def cut_worths(spaces: Sequence[tuple[float, np.ndarray]]) -> np.ndarray:
    """float64 [turns + 1]: what a cut before each turn is worth. `spaces` are weights and unit vectors
    [turns, dims]; similarities are the weighted sum of their products."""
    total = len(spaces[0][1])
    worth = np.zeros(total + 1)
    mean = sum(weight * _mean_product(vectors) for weight, vectors in spaces)
    threshold = BASE + ADAPTIVE * mean
    for distance in range(1, REACH + 1):
        alike = sum(
            weight * np.einsum("ij,ij->i", vectors[:-distance], vectors[distance:])
            for weight, vectors in spaces
        )
        for first, value in enumerate(np.asarray(alike, np.float64)):
            worth[first + 1 : first + distance + 1] += threshold - value
    return worth


def cues(texts: Sequence[str]) -> np.ndarray:
    """float64 [texts + 1]: what the words of a turn say for or against a cut before it."""
    made = np.zeros(len(texts) + 1)
    asks = [bool(_QUESTION.search(text)) for text in texts]
    for place in range(1, len(texts)):
        made[place] = QUESTION * (asks[place] and not asks[place - 1])
        made[place] -= POINTING * bool(_POINTING.search(texts[place]))
    return made


def best_cuts(worth: np.ndarray) -> list[int]:
    """Cuts (before these turns) that are worth most together, MIN_TURNS apart and from both ends; of
    equal ones the fewest."""
    total = len(worth) - 1
    best = np.zeros(total + 1)  # by the last place a cut may be
    taken = np.zeros(total + 1, bool)
    for place in range(1, total - MIN_TURNS + 1):
        best[place] = best[place - 1]
        if place >= MIN_TURNS:
            with_cut = worth[place] + best[place - MIN_TURNS]
            if with_cut > best[place] + 1e-9:
                best[place], taken[place] = with_cut, True
    cuts: list[int] = []
    place = total - MIN_TURNS
    while place > 0:
        if taken[place]:
            cuts.append(place)
            place -= MIN_TURNS
        else:
            place -= 1
    return cuts[::-1]


def word_vectors(texts: Sequence[str]) -> np.ndarray:
    """float64 [texts, words]: unit vectors of log frequency times inverse document frequency."""
    analyzer = standard_analyzer()
    bags = [Counter(term.text for term in analyzer.words(text)) for text in texts]
    spread = Counter(word for bag in bags for word in bag)
    column = {word: i for i, word in enumerate(sorted(spread))}
    made = np.zeros((len(texts), max(1, len(column))))
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            made[row, column[word]] = (1 + np.log(count)) * np.log(len(texts) / spread[word])
    norms = np.linalg.norm(made, axis=1, keepdims=True)
    return made / np.where(norms > 0, norms, 1)


def _mean_product(vectors: np.ndarray) -> float:
    """The mean product of two different rows."""
    total = len(vectors)
    if total < 2:
        return 0.0
    all_pairs = float(np.square(vectors.sum(axis=0, dtype=np.float64)).sum())
    own = float(np.square(vectors, dtype=np.float64).sum())
    return (all_pairs - own) / (total * (total - 1))
