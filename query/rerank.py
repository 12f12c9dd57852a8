"""Reranking the first hits with a slower, closer look: late interaction, or any cross-encoder.

Late interaction (ColBERT's MaxSim) compares each token of the query with each token of the text, both
from the encoder that made the base's vectors. Off unless asked for; at most DEPTH texts are looked at,
each the key that was found (never longer than the encoder reads), so the work is bounded.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from stillroom.errors import BadInput, MissingExtra
from stillroom.legs import Legs
from stillroom.models import load_cross_encoder, load_for
from stillroom.query_vectors import is_installed
from stillroom.store import Build

MAXSIM = "maxsim"
DEPTH = 30  # hits that are looked at again
WEIGHT = 0.5  # the reranker's share of the score: an even one, not tuned

_scoring = threading.Lock()


def rerank(
    name: str, text: str, gathered: Sequence[Legs], chosen: Sequence[tuple[int, int]]
) -> np.ndarray:
    """float64 [chosen]: raw scores of (base, candidate) pairs for a query: the mean over its tokens of
    the best cosine ("maxsim"), or what the cross-encoder of this name or folder says. Raises BadInput,
    MissingExtra."""
    made = np.empty(len(chosen))
    for number, legs in enumerate(gathered):
        mine = [i for i, (base, _) in enumerate(chosen) if base == number]
        texts = [_found_text(legs, chosen[i][1]) for i in mine]
        if texts:
            score = _maxsim if name == MAXSIM else _cross_encoder
            made[mine] = score(name, text, texts, legs.build)
    if not np.isfinite(made).all():
        raise BadInput(f"the reranker {name!r} gave a score that is no number")
    return made


def blend(first: np.ndarray, again: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 scores to order by, and the reranker's share of each. `first` are all scores, best first;
    `again` the reranker's of the leading ones. What was not looked at again stays below what was."""
    looked_at = len(again)
    share = WEIGHT * _unit(again, again)
    score = (1 - WEIGHT) * _unit(first, first[:looked_at])
    score[:looked_at] += share
    return score, share


def _unit(values: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Values on a scale on which those of `over` reach from 0 to 1."""
    low, high = over.min(), over.max()
    return (values - low) / (high - low) if high > low else np.zeros(len(values))


def _found_text(legs: Legs, position: int) -> str:
    """The key that was found, or the value where none has a vector."""
    key = int(legs.vector[position])
    if key >= 0:
        return str(legs.build.keys.column("text")[key].as_py())
    row = int(legs.candidates[position])
    return str(legs.build.entries.column("value")[row].as_py())


def _maxsim(name: str, text: str, texts: list[str], build: Build) -> list[float]:
    spec = build.manifest.encoder
    if not is_installed(spec):
        raise MissingExtra("reranking with maxsim", "build,models")
    encoder = load_for(spec, exact=False)
    query, *found = encoder.encode_tokens([text, *texts])
    if not len(query):
        return [0.0] * len(texts)
    return [
        float((query @ tokens.T).max(axis=1).mean()) if len(tokens) else 0.0 for tokens in found
    ]


def _cross_encoder(name: str, text: str, texts: list[str], build: Build) -> list[float]:
    model: Any = load_cross_encoder(name)
    with _scoring:
        # One pair a batch: padding to a neighbour's length would change the last bits.
        made = model.predict([(text, one) for one in texts], batch_size=1, show_progress_bar=False)
    scores = np.asarray(made, np.float64)
    if scores.shape != (len(texts),):
        raise BadInput(
            f"the cross-encoder {name!r} gives {scores.shape[1:]} scores a pair, not one"
        )
    return [float(score) for score in scores]
