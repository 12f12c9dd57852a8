"""Chat logs: conversations cut into runs of turns, each found by its turns, its words and its time."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.models import tokens_for
from stillroom.pipelines.corpus import check_choices, lexical_terms
from stillroom.schemas.documents import Document
from stillroom.schemas.entries import Entry, KeyKind
from stillroom.schemas.plan import EXACT_FIELD, SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.specs import EncoderSpec
from stillroom.tokens import TokenCounter
from stillroom.transforms.chat_keys import KINDS, make_chat_keys
from stillroom.transforms.compress import make_compressor
from stillroom.transforms.expansions import KINDS as EXPANSIONS
from stillroom.transforms.expansions import Expander
from stillroom.transforms.language_models import language_model
from stillroom.transforms.segmenters import SEGMENTERS, make_segmenter
from stillroom.transforms.shape import Shaped
from stillroom.transforms.turn_vectors import TurnVectors
from stillroom.transforms.turns import segment_turns, turns_of

# Chosen on three of LoCoMo's conversations (tests/benchmarks/chat.py).
CONTEXT_WEIGHT = 0.5
CONTIGUITY = 0.2
EXPANSION_WEIGHT = 0.3  # of the words of facts and the like, beside those of the text
TIME_WEIGHT = 0.3
SAME_STATEMENT = 0.7
# A run of turns is too short to be asked about without its own words: what is fitted on such questions
# says when an encoder is of no use, but not how much it is worth.
DENSE_MOST = 0.45
FIELD_WEIGHTS = {KeyKind.TEXT.value: 1.0, KeyKind.PATH.value: 0.3, EXACT_FIELD: 0.3}


@dataclass
class ChatShaper:
    """Runs of turns under a token budget, each with the recipe's keys."""

    recipe: Recipe
    encoder: EncoderSpec

    def __post_init__(self) -> None:
        check_choices(self.recipe, SEGMENTERS, KINDS)
        language_model(self.recipe.llm)
        make_segmenter(self.recipe, self.encoder)

    def setup(self) -> None:
        """Load what workers need: the tokenizer, the segmenter's model, the compressor."""
        self._tokens = tokens_for(self.recipe.encoder)
        self._segmenter = make_segmenter(self.recipe, self.encoder)
        self._segmenter.setup()
        self._expander = Expander(language_model(self.recipe.llm))
        compressed = KeyKind.COMPRESSED.value in self.recipe.keys
        self._compressor = make_compressor(self.recipe.compressor) if compressed else None

    @property
    def tokens(self) -> TokenCounter:
        return self._tokens

    def take_vectors(self) -> Mapping[str, np.ndarray]:
        """Vectors of turns that segmenting made, by text digest: the keys of equal texts take them."""
        vectors = getattr(self._segmenter, "vectors", None)
        return vectors.take() if isinstance(vectors, TurnVectors) else {}

    def shape(self, document: Document) -> list[Shaped]:
        """Entries of one session, in the order of its turns."""
        made: list[Shaped] = []
        turns = turns_of(document)
        segments = segment_turns(
            document, self._segmenter, self.recipe.segment_tokens, self._tokens
        )
        for segment in segments:
            keyed = make_chat_keys(
                segment,
                document,
                turns,
                kinds=[KeyKind(kind) for kind in self.recipe.keys],
                dense={KeyKind(kind) for kind in self.recipe.dense_keys},
                max_tokens=self.encoder.max_tokens,
                tokens=self._tokens,
                compressor=self._compressor,
                rate=self.recipe.compress_rate,
                expander=self._expander,
            )
            if keyed.entry.keys:
                terms = {**lexical_terms(keyed), **_expansion_terms(keyed.entry)}
                made.append(Shaped(keyed.entry, document, terms, keyed.truncated))
        return made


def _expansion_terms(entry: Entry) -> dict[str, tuple[str, ...]]:
    """Terms of expansions, each kind a field of its own."""
    analyzer = standard_analyzer()
    made: dict[str, tuple[str, ...]] = {}
    for key in entry.keys:
        if key.kind in EXPANSIONS:
            terms = tuple(term.text for term in analyzer.words(key.text))
            made[key.kind.value] = made.get(key.kind.value, ()) + terms
    return made


def chat_plan(recipe: Recipe) -> SearchPlan:
    """How a chat memory is searched, before its fusion weight is fitted."""
    expanded = [kind for kind in recipe.keys if KeyKind(kind) in EXPANSIONS]
    return SearchPlan(
        field_weights={**FIELD_WEIGHTS, **dict.fromkeys(expanded, EXPANSION_WEIGHT)},
        dense_kinds=recipe.dense_keys,
        dense_most=DENSE_MOST,
        time_weight=TIME_WEIGHT,
        contiguity=CONTIGUITY,
        context_weight=CONTEXT_WEIGHT,
        same_statement=SAME_STATEMENT,
    )
