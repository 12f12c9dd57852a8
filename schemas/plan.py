"""The search plan: how one knowledge base is searched, as data that one engine runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stillroom.schemas.entries import KeyKind

TIERS = ("scan", "ivf_rq")
DTYPES = ("f32", "int8", "bit")
EXACT_FIELD = "exact"  # the lexical field of identifiers, beside one field for each key kind


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Legs, field weights, fusion and collapse of one knowledge base.

    `field_weights` multiply BM25 by lexical field. `dense_kinds` are the key kinds that have vectors.
    `dense_weight` is the dense leg's share (0 to 1) of the fused score; `calibration` says what it
    was fitted on, `dense_most` what it may be at most. `depth` is how many entries each leg contributes, `rescore` how many vectors of
    the sign-bit scan get exact products. `dims` are the rotated dimensions that are searched (0: all
    of the encoder's, unrotated), `dtype` how they are stored (`stillroom.elastic`). `tier` is what
    proposes vectors, the scan or an index of which `probes` partitions are read. `prior_weight` scales `Entry.prior`.
    `time_weight` is added to the score of what lies in a time that the query names. `contiguity` is the
    share of a token budget that neighbours of hits may take, `context_weight` the share of the lexical
    scores of the entries beside it that an entry is given. `same_statement` is the cosine from which two
    statements of a speaker are versions of one, the newer going first (0: never). `collapse` folds near-duplicates into one hit.
    """

    legs: tuple[str, ...] = ("lexical", "dense")
    field_weights: Mapping[str, float] = field(
        default_factory=lambda: {KeyKind.TEXT.value: 1.0, EXACT_FIELD: 0.5}
    )
    dense_kinds: tuple[str, ...] = (KeyKind.TEXT.value,)
    dense_weight: float = 0.5
    dense_most: float = 1.0
    depth: int = 1000
    rescore: int = 400
    dims: int = 0
    dtype: str = "f32"
    tier: str = "scan"
    probes: int = 40
    prior_weight: float = 0.0
    time_weight: float = 0.0
    contiguity: float = 0.0
    context_weight: float = 0.0
    same_statement: float = 0.0
    collapse: bool = True
    calibration: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = set(self.legs) - {"lexical", "dense"}
        if unknown or not self.legs:
            raise ValueError(f"legs are 'lexical' and 'dense', not {self.legs}")
        if not 0.0 <= self.dense_weight <= 1.0:
            raise ValueError(f"dense_weight is between 0 and 1, not {self.dense_weight}")
        if min(self.time_weight, self.context_weight) < 0 or not 0.0 <= self.contiguity < 1.0:
            raise ValueError(
                "time_weight and context_weight are 0 or more, contiguity between 0 and 1, not "
                f"{self.time_weight}, {self.context_weight}, {self.contiguity}"
            )
        if self.depth < 1 or self.rescore < 1:
            raise ValueError(f"depth and rescore are positive, not {self.depth}, {self.rescore}")
        if self.dims < 0 or self.dtype not in DTYPES:
            raise ValueError(
                f"dims is 0 or more, dtype one of {', '.join(DTYPES)}, not {self.dims}, {self.dtype!r}"
            )
        if self.tier not in TIERS or self.probes < 1:
            raise ValueError(
                f"tier is one of {', '.join(TIERS)}, probes positive, not {self.tier!r}, {self.probes}"
            )
