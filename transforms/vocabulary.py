"""The vocabulary pass: every token through the full model once, for the light query encoder.

It depends on the model alone, so it is kept in this machine's cache by the encoder's fingerprint; where it
is not there yet, workers share it beside their other encoding.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from stillroom.encoders import Encoder
from stillroom.errors import BadInput
from stillroom.folders import cache_folder, replacing
from stillroom.models import load_for, tokens_for
from stillroom.schemas.specs import EncoderSpec
from stillroom.transforms.stages import timed
from stillroom.transforms.staging import Staging

BLOCK = 2_048  # tokens that one element encodes: about a second of one core


@dataclass
class EncodeVocabulary(beam.PTransform[Any, Any]):
    """A pipeline to the names of staged blocks of token vectors; none where the pass is not `wanted`."""

    staging: Staging
    spec: EncoderSpec
    wanted: bool

    def expand(self, pipeline: Any) -> Any:
        size = tokens_for(self.spec.name).tokenizer.get_vocab_size() if self.wanted else 0
        return (
            pipeline
            | "Blocks" >> beam.Create(list(range(0, size, BLOCK))).with_output_types(int)
            | "SpreadBlocks" >> beam.Reshuffle()
            | "Tokens"
            >> beam.Map(_encode_block, size, self.spec, self.staging).with_output_types(str)
        )


def _encode_block(first: int, size: int, spec: EncoderSpec, staging: Staging) -> str:
    name = f"{first:08d}"
    with timed("vocabulary"):
        vectors = load_for(spec, exact=True).encode_vocabulary(first, min(size, first + BLOCK))
        flat = pa.array(vectors.reshape(-1))
        column = pa.FixedSizeListArray.from_arrays(flat, spec.dims)
        staging.write("vocabulary", name, pa.table({"vector": column}))
    return name


def vocabulary_vectors(encoder: Encoder, staging: Staging, blocks: Sequence[str]) -> np.ndarray:
    """float32 [vocabulary, dims]: from the cache, the staged blocks, or the model itself (in that
    order), and in the cache afterwards. As float16 in any case, so that all three are the same."""
    cached = cached_vocabulary(encoder.spec)
    if cached is not None and cached.exists():
        with suppress(ValueError, OSError):  # cut short by a full disk: made again
            return np.load(cached).astype(np.float32)
    if blocks:
        columns = [staging.read("vocabulary", name).column("vector") for name in sorted(blocks)]
        parts = [column.combine_chunks().values.to_numpy() for column in columns]
        vectors = np.concatenate(parts).reshape(-1, encoder.spec.dims)
    else:
        vectors = encoder.encode_vocabulary(0, encoder.vocabulary_size)
    half = vectors.astype(np.float16)
    if cached is not None:
        with suppress(OSError), replacing(cached) as aside, aside.open("wb") as sink:
            np.save(sink, half)
    return half.astype(np.float32)


def cached_vocabulary(spec: EncoderSpec) -> Path | None:
    """Where this machine keeps the pass of an encoder, or None where nothing can be kept."""
    try:
        return cache_folder() / f"vocabulary-{spec.fingerprint}.npy"
    except BadInput:
        return None
