"""Fusing legs by score: a weighted sum of normalised scores, the weights from the plan.

Lexical scores are divided by the best one, cosines are stretched from the lowest of the leg's list
to the best. An entry that only the lexical leg proposed still gets its true cosine; one that BM25
did not reach scores 0 there, so a hit of both legs at better ranks is never outranked for a
missing side.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Scale:
    """How raw scores of one query become 0 to 1, over all bases that were asked."""

    lexical_best: float
    dense_low: float
    dense_best: float

    def lexical(self, scores: np.ndarray) -> np.ndarray:
        """float64 in 0..1; NaN (not reached) is 0."""
        known = np.nan_to_num(scores.astype(np.float64), nan=0.0)
        return known / self.lexical_best if self.lexical_best > 0 else known * 0.0

    def dense(self, scores: np.ndarray) -> np.ndarray:
        """float64 in 0..1; NaN (no vector) is 0. One candidate alone is 1."""
        known = np.nan_to_num(scores.astype(np.float64), nan=self.dense_low)
        width = self.dense_best - self.dense_low
        if width <= 0:
            return (known >= self.dense_best).astype(np.float64)
        return np.clip((known - self.dense_low) / width, 0.0, 1.0)


def make_scale(lexical: list[np.ndarray], dense: list[np.ndarray]) -> Scale:
    """The scale of these legs' lists (one of each a base)."""
    all_lexical = np.concatenate(lexical) if lexical else np.empty(0)
    all_dense = np.concatenate(dense) if dense else np.empty(0)
    return Scale(
        float(all_lexical.max(initial=0.0)),
        float(all_dense.min()) if len(all_dense) else 0.0,
        float(all_dense.max()) if len(all_dense) else 0.0,
    )


def fuse(lexical: np.ndarray, dense: np.ndarray, weight: float) -> np.ndarray:
    """float64 [n]: the weighted sum of normalised scores, `weight` being the dense leg's share."""
    return weight * dense + (1.0 - weight) * lexical
