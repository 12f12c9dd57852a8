"""Event boundaries by surprise, refined by how turns hang together (EM-LLM, arXiv 2407.09450).

A boundary stands where a turn's surprise is over mean + GAMMA deviations of the turns before it. With a
causal language model, a turn's surprise is the mean of -log p of its tokens; without one, how far its
vector is from the mean of the last few. Then each boundary may move back within its event, to where
modularity of the similarity graph is highest (or conductance lowest).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stillroom.models import load_language_model
from stillroom.schemas.specs import EncoderSpec
from stillroom.transforms.turn_vectors import TurnVectors
from stillroom.transforms.turns import Runs, Said, runs_between

GAMMA = 1.0
WINDOW = 64  # turns over which mean and deviation are taken
RECENT = 3  # turns that a turn is compared with
MIN_TURNS = 2
CONTEXT_TOKENS = 512  # that a language model reads before a turn
REFINEMENTS = ("modularity", "conductance")


@dataclass
class SurpriseSegmenter:
    """Events of a conversation; `model` is a transformers causal language model, or "" for vectors."""

    encoder: EncoderSpec
    model: str = ""
    refinement: str = "modularity"

    def __post_init__(self) -> None:
        if self.refinement not in REFINEMENTS:
            raise ValueError(
                f"refinement is one of {', '.join(REFINEMENTS)}, not {self.refinement!r}"
            )
        self.vectors = TurnVectors(self.encoder)

    def setup(self) -> None:
        """Models are loaded for the first conversation."""

    @cached_property
    def _language_model(self) -> tuple[Any, Any]:
        return load_language_model(self.model)

    def runs(self, turns: Sequence[Said]) -> Runs:
        """Every turn is in exactly one run."""
        vectors = self.vectors.of([turn.text for turn in turns])
        if self.model:
            surprise = token_surprise(turns, *self._language_model)
        else:
            surprise = vector_surprise(vectors)
        starts = boundaries(surprise)
        return runs_between([0, *refined(starts, vectors, self.refinement)], len(turns))


def vector_surprise(vectors: np.ndarray) -> np.ndarray:
    """float64 [turns]: 1 minus the cosine to the mean of the turns just before; 0 for the first."""
    made = np.zeros(len(vectors))
    for i in range(1, len(vectors)):
        recent = vectors[max(0, i - RECENT) : i].mean(axis=0)
        norm = float(np.linalg.norm(recent) * np.linalg.norm(vectors[i]))
        made[i] = 1 - float(recent @ vectors[i]) / norm if norm > 0 else 1.0
    return made


def token_surprise(turns: Sequence[Said], model: Any, tokenizer: Any) -> np.ndarray:
    """float64 [turns]: the mean of -log p of a turn's tokens (nats), given the tokens before it."""
    import torch

    before: list[int] = []
    made = np.zeros(len(turns))
    for i, turn in enumerate(turns):
        own = tokenizer.encode(turn.text + "\n", add_special_tokens=False)[:CONTEXT_TOKENS]
        context = before[-CONTEXT_TOKENS:]
        ids = torch.tensor([[*context, *own]])
        if own and ids.shape[1] > 1:
            with torch.inference_mode():
                logits = model(input_ids=ids).logits[0, :-1].float()
            loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")
            made[i] = float(loss[-len(own) :].mean())
        before = [*context, *own]
    return made


def boundaries(surprise: np.ndarray) -> list[int]:
    """Turns that are surprising: over mean + GAMMA deviations of those before, MIN_TURNS apart."""
    found: list[int] = []
    last = 0
    for i in range(MIN_TURNS, len(surprise) - MIN_TURNS + 1):
        window = surprise[max(1, i - WINDOW) : i] if i > MIN_TURNS else surprise[1:]
        limit = window.mean() + GAMMA * window.std()
        if surprise[i] > limit and i - last >= MIN_TURNS:
            found.append(i)
            last = i
    return found


def refined(starts: Sequence[int], vectors: np.ndarray, measure: str) -> list[int]:
    """The same number of boundaries, each moved back to where it parts the turns around it best."""
    made: list[int] = []
    for start in starts:
        before = made[-1] if made else 0
        half = (start - before) // 2
        low, high = before, min(len(vectors), start + max(half, MIN_TURNS))
        alike = np.clip(vectors[low:high] @ vectors[low:high].T, 0, None).astype(np.float64)
        np.fill_diagonal(alike, 0)
        places = range(before + MIN_TURNS, start + 1)
        scores = [_parted(alike, place - low, measure) for place in places]
        made.append(places[int(np.argmax(scores))] if scores else start)
    return made


def _parted(alike: np.ndarray, place: int, measure: str) -> float:
    """How well a cut before `place` parts a graph in two communities; higher is better."""
    degrees = alike.sum(axis=1)
    total = degrees.sum()
    if total <= 0:
        return 0.0
    first, second = degrees[:place].sum(), degrees[place:].sum()
    severed = alike[:place, place:].sum()
    if measure == "conductance":
        smaller = min(first, second)
        return -float(severed / smaller) if smaller > 0 else -np.inf
    inside = total - 2 * severed
    return float(inside / total - (first**2 + second**2) / total**2)
