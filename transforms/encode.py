"""Encode: each different text once, in fixed shapes, by one model a process (Beam RunInference).

Texts are grouped by padded length, so that batches are full, and cut into blocks of about equal
work. A vector does not depend on its block (see `stillroom.encoders`): grouping is only for speed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference
from apache_beam.pvalue import TaggedOutput

from stillroom.encoders import BATCH_ROWS, Encoder
from stillroom.models import load_for
from stillroom.schemas.ids import digest
from stillroom.schemas.specs import EncoderSpec
from stillroom.transforms import faults
from stillroom.transforms.coders import register_nouns
from stillroom.transforms.shape import TextRef, VectorRef, vector_column
from stillroom.transforms.stages import StageCounter, timed
from stillroom.transforms.staging import Staging

BLOCK_TOKENS = 16_384  # padded tokens of one block: one to two seconds of one core
CARRIED_TAG = "carried"
GROUP_TEXTS = 50_000  # texts of one length that one worker sorts in memory


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Texts of one padded length: digests, and where each is staged."""

    name: str
    digests: tuple[str, ...]
    refs: tuple[TextRef, ...]


register_nouns(TextBlock)


class SentenceEncoderHandler(ModelHandler[TextBlock, PredictionResult, "Loading"]):
    """RunInference over blocks of staged texts; results carry float32 [texts, dims].

    The process has one model however many bundles it runs. A worker that cannot give the launcher's
    exact bits (another processor, another model file) refuses with VersionSkew.
    """

    def __init__(self, spec: EncoderSpec, staging: Staging) -> None:
        super().__init__(min_batch_size=1, max_batch_size=1)  # a block is a batch already
        self._spec, self._staging = spec, staging

    def load_model(self) -> "Loading":
        return Loading(self._spec)

    def run_inference(
        self, batch: Sequence[TextBlock], model: "Loading", inference_args: Any = None
    ) -> Iterator[PredictionResult]:
        for block in batch:
            texts = [_text(self._staging, ref) for ref in block.refs]
            faults.point("encode")
            with timed("encode"):
                vectors = model.encoder.encode_documents(texts)
            yield PredictionResult(block, vectors)

    def get_metrics_namespace(self) -> str:
        return "EncodeTexts"


class Loading:
    """The process's encoder, loaded for the first block. RunInference asks for a model even where no
    text needs a vector, and an unchanged nightly build should not start torch."""

    def __init__(self, spec: EncoderSpec) -> None:
        self._spec = spec

    @cached_property
    def encoder(self) -> Encoder:
        return load_for(self._spec, exact=True)


@dataclass
class EncodeTexts(beam.PTransform[Any, Any]):
    """{texts: (text digest, TextRef), carried: (text digest, VectorRef)} to (text digest, VectorRef).

    Each different text is encoded once, unless a vector of it is carried. `groups` spreads the
    texts of one length over that many workers' memories.
    """

    staging: Staging
    spec: EncoderSpec
    groups: int = 1

    def expand(self, inputs: Any) -> Any:  # Beam only understands hints of single PCollections
        known = (
            {"texts": inputs["texts"], "carried": inputs["carried"]}
            | "SameText" >> beam.CoGroupByKey()
            | "Once" >> beam.FlatMap(once).with_outputs(CARRIED_TAG, main="new")
        )
        encoded = (
            known.new
            | "ByLength"
            >> beam.Map(by_length, lengths=self.spec.lengths, special=self.spec.special_tokens,
                        groups=self.groups).with_output_types(tuple[str, tuple[str, TextRef]])
            | "Length" >> beam.GroupByKey()
            | "Blocks" >> beam.FlatMap(make_blocks).with_output_types(TextBlock)
            | "Spread" >> beam.Reshuffle()
            | "Encode" >> RunInference(SentenceEncoderHandler(self.spec, self.staging))
            | "Stage"
            >> beam.ParDo(_StageVectors(self.staging)).with_output_types(tuple[str, VectorRef])
        )  # fmt: skip
        carried = known[CARRIED_TAG] | "Carried" >> beam.Map(_same).with_output_types(
            tuple[str, VectorRef]
        )
        return (encoded, carried) | "AllVectors" >> beam.Flatten()


def once(group: tuple[str, Mapping[str, Iterable[Any]]]) -> Iterator[Any]:
    """A text that needs a vector, at the first of its places; or its carried vector (CARRIED_TAG).
    A carried vector that nothing needs any more is dropped."""
    text_digest, sides = group
    refs = list(sides["texts"])
    carried = min(sides["carried"], key=lambda ref: (ref.block, ref.row), default=None)
    if not refs:
        return
    if carried is not None:
        yield TaggedOutput(CARRIED_TAG, (text_digest, carried))
    else:
        yield first_ref(text_digest, refs)


def first_ref(text_digest: str, refs: Iterable[TextRef]) -> tuple[str, TextRef]:
    """The first of the places where one text stands: whichever worker asks, the same."""
    return text_digest, min(refs, key=lambda ref: (ref.part, ref.row))


def by_length(
    element: tuple[str, TextRef], lengths: tuple[int, ...], special: int, groups: int
) -> tuple[str, tuple[str, TextRef]]:
    """Keyed by padded length and a slice of the digests."""
    text_digest, ref = element
    wanted = ref.tokens + special
    length = next((n for n in lengths if n >= wanted), lengths[-1] if lengths else 256)
    return f"{length:06d}/{int(text_digest[:8], 16) % groups}", (text_digest, ref)


def make_blocks(group: tuple[str, Iterable[tuple[str, TextRef]]]) -> Iterator[TextBlock]:
    """Blocks of about BLOCK_TOKENS padded tokens, whole batches each, in the order of digests."""
    length = int(group[0].partition("/")[0])
    texts = sorted(group[1], key=lambda item: item[0])
    size = max(1, BLOCK_TOKENS // (length * BATCH_ROWS)) * BATCH_ROWS
    for start in range(0, len(texts), size):
        some = texts[start : start + size]
        digests = tuple(text_digest for text_digest, _ in some)
        yield TextBlock(digest("block", *digests)[:24], digests, tuple(ref for _, ref in some))


class _StageVectors(beam.DoFn):
    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def setup(self) -> None:
        self._counter = StageCounter(self._staging.scratch, "encode")

    def process(self, result: PredictionResult) -> Iterator[tuple[str, VectorRef]]:
        block: TextBlock = result.example  # type: ignore[assignment]  # Beam leaves them open
        vectors: np.ndarray = result.inference  # type: ignore[assignment]
        faults.point("vectors")
        table = pa.table({"vector": vector_column(vectors)})
        self._staging.write("vectors", block.name, table)
        finite = np.isfinite(vectors).all(axis=1)
        self._counter.add(len(finite))
        self._counter.flush()
        for row, (text_digest, good) in enumerate(zip(block.digests, finite, strict=True)):
            yield text_digest, VectorRef(block.name if good else "", row)


def _text(staging: Staging, ref: TextRef) -> str:
    return str(staging.read("keys", ref.part).column("text")[ref.row].as_py())


def _same(element: Any) -> Any:
    return element
