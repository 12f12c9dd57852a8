"""Which encoder makes a query's vector: the light one where it is good enough, else the full model."""

import importlib.util
from dataclasses import dataclass

import numpy as np

from stillroom.errors import BadInput, MissingExtra
from stillroom.models import PACKAGED, load_for
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import Build

ENCODERS = ("light", "full")
MIN_COVERAGE = 0.5  # share of a query, by weight of its tokens, that the light encoder must know


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector (float32 [dims], unit), which encoder made it, and what to say of that."""

    vector: np.ndarray
    encoder: str
    note: str = ""


class Encode:
    """Makes query vectors, by the encoder that was asked for (None: what each base offers)."""

    def __init__(self, asked: str | None) -> None:
        if asked not in (None, *ENCODERS):
            raise BadInput(f"encoder is 'light', 'full' or None, not {asked!r}")
        self.asked = asked

    def __call__(self, build: Build, text: str) -> QueryVector | None:
        """The query's vector in the space of a build's; None where nothing here can make one. Raises
        BadInput, MissingExtra, VersionSkew."""
        light = build.light
        if self.asked == "light":
            if light is None:
                raise BadInput(f"{build.kb} has no light query encoder; encoder='full' or None")
            return _light(build, text)
        full = is_installed(build.manifest.encoder)
        if self.asked == "full" or light is None:
            if self.asked == "full" and not full:
                raise MissingExtra("encoding a query with the full model", "build,models")
            return _full(build, text) if full else None
        if not build.manifest.light_is_default:
            if full:
                return _full(build, text)
            return _light(build, text, "the full model is not installed: the light encoder answers")
        known = light.coverage(text)
        if known >= MIN_COVERAGE:
            return _light(build, text)
        words = f"the light encoder knows {known:.0%} of this query"
        if full:
            return _full(build, text, f"{words}: the full model encoded it")
        return _light(build, text, f"{words}, and the full model is not installed")


def is_installed(spec: EncoderSpec) -> bool:
    """Whether the full model of a base could be loaded; without importing anything."""
    wanted = ["sentence_transformers", *([PACKAGED[spec.name]] if spec.name in PACKAGED else [])]
    return all(importlib.util.find_spec(name) is not None for name in wanted)


def _light(build: Build, text: str, note: str = "") -> QueryVector | None:
    vector = build.light.encode(text) if build.light is not None else None
    return None if vector is None else QueryVector(vector, "light", note)


def _full(build: Build, text: str, note: str = "") -> QueryVector:
    encoder = load_for(build.manifest.encoder, exact=False)
    vector: np.ndarray = encoder.encode_queries([text])[0]
    if not np.isfinite(vector).all():
        raise BadInput(f"the encoder {encoder.spec.name!r} gave no vector for this query")
    return QueryVector(vector, "full", note)
