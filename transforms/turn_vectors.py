"""Vectors of turns for segmenting, kept for the keys of equal texts: each turn is encoded once."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from stillroom.encoders import Encoder
from stillroom.models import load_for
from stillroom.schemas.ids import digest
from stillroom.schemas.specs import EncoderSpec


class TurnVectors:
    """Encodes turns with the encoder of the build. The model is loaded for the first of them."""

    def __init__(self, spec: EncoderSpec) -> None:
        self._spec = spec
        self._made: dict[str, np.ndarray] = {}

    @cached_property
    def _encoder(self) -> Encoder:
        return load_for(self._spec, exact=True)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [texts, dims], unit rows; zeros where the model gave none. A long text is cut where
        the encoder stops reading."""
        made = self._encoder.encode_documents(texts)
        for text, vector in zip(texts, made, strict=True):
            if np.isfinite(vector).all():
                self._made[digest("text", text)] = vector
        return np.nan_to_num(made)

    def take(self) -> dict[str, np.ndarray]:
        """What was encoded since this was last asked, by digest of the text."""
        made, self._made = self._made, {}
        return made
