"""The digest of all that a build read, rejects and duplicates too: a build is new where it differs."""

from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from stillroom.schemas.ids import DIGEST_BYTES, digest
from stillroom.schemas.rejects import Reject
from stillroom.transforms.load import DUPLICATES, REJECTS, DocumentRef


@dataclass
class DigestInputs(beam.PTransform[Any, Any]):
    """{refs, rejects, duplicates} of ReadDocuments to one digest, whatever their order."""

    def expand(self, read: Any) -> Any:  # Beam only understands hints of single PCollections
        return (
            (
                read["refs"] | "DocumentInput" >> beam.Map(_document_input),
                read[REJECTS] | "RejectInput" >> beam.Map(_reject_input),
                read[DUPLICATES] | "DuplicateInput" >> beam.Map(_duplicate_input),
            )
            | "AllInputs" >> beam.Flatten()
            | "Combined" >> beam.CombineGlobally(InputsDigest())  # type: ignore[no-untyped-call]
        )


class InputsDigest(beam.CombineFn):
    """Digest of all that was read, rejects too, whatever its order: a count and a sum of digests."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], one: str) -> tuple[int, int]:
        return accumulator[0] + 1, (accumulator[1] + int(one, 16)) % (1 << 8 * DIGEST_BYTES)

    def merge_accumulators(self, accumulators: Any) -> tuple[int, int]:
        counts, sums = zip(*accumulators, strict=True)
        return sum(counts), sum(sums) % (1 << 8 * DIGEST_BYTES)

    def extract_output(self, accumulator: tuple[int, int]) -> str:
        return digest("inputs", accumulator[0], accumulator[1])


def _document_input(ref: DocumentRef) -> str:
    return digest("document", ref.id, ref.digest, ref.metadata_digest)


def _reject_input(reject: Reject) -> str:
    return digest("reject", reject.uri, reject.reason.value, reject.detail)


def _duplicate_input(document_id: str) -> str:
    return digest("duplicate", document_id)
