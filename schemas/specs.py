"""Fingerprints of what made the vectors and the terms. A reader that cannot reproduce them refuses."""

from dataclasses import dataclass, field

from stillroom.schemas.ids import canonical_json, digest


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Which encoder made a base's vectors; chosen once by the launcher, the same on every worker.

    `weights` and `tokenizer` are digests of the files' bytes, `dims` the vector width (float32, unit
    length), `max_tokens` the longest input including special tokens, `lengths` the padded lengths
    that are used and `rows` the batch rows for each of them: every text is encoded in a batch of
    exactly one of these shapes, so that its vector never depends on its neighbours. `special_tokens`
    are added to each text by the tokenizer. `name` is for people and for loading it again;
    `backend` runs its layers (`stillroom.backends`).
    """

    name: str
    weights: str
    tokenizer: str
    dims: int
    max_tokens: int
    special_tokens: int = 2
    query_prefix: str = ""
    document_prefix: str = ""
    dtype: str = "float32"
    backend: str = "torch"
    lengths: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()
    files: str = field(default="", compare=False)

    @property
    def fingerprint(self) -> str:
        """Digest of all that decides a document vector, to the bit."""
        return digest(
            "encoder", self.model_fingerprint, self.dtype, self.backend,
            canonical_json([self.lengths, self.rows]),
        )  # fmt: skip

    @property
    def model_fingerprint(self) -> str:
        """Digest of what a query vector must share with the documents' (not dtype, backend or shapes)."""
        return digest(
            "model", self.weights, self.tokenizer, self.dims, self.max_tokens,
            self.query_prefix, self.document_prefix,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AnalyzerSpec:
    """Which analyzer made a base's terms. `probe` is the digest of what it makes of a fixed text.

    A probe rather than a version number: what decides the terms is this module, the stemmer inside
    tantivy and the Unicode tables of the running Python together.
    """

    name: str
    probe: str

    @property
    def fingerprint(self) -> str:
        return digest("analyzer", self.name, self.probe)
