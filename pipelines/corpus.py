"""Plain corpora: any documents, cut at their headings, searched by text, headings and identifiers."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from stillroom.analyzers import standard_analyzer
from stillroom.models import tokens_for
from stillroom.schemas.documents import Document
from stillroom.schemas.entries import KeyKind, LexicalTerms
from stillroom.schemas.plan import EXACT_FIELD, SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.specs import EncoderSpec
from stillroom.tokens import TokenCounter
from stillroom.transforms.compress import make_compressor
from stillroom.transforms.keys import Keyed, make_keys
from stillroom.transforms.segment import segment_document
from stillroom.transforms.shape import Shaped

SEGMENTERS = ("heading",)
# BM25 weights by field, chosen on SciFact train: headings twice over help, identifiers a little.
FIELD_WEIGHTS = {KeyKind.TEXT.value: 1.0, KeyKind.PATH.value: 0.3, EXACT_FIELD: 0.3}
KINDS = (KeyKind.TEXT, KeyKind.PATH, KeyKind.SENTENCE, KeyKind.COMPRESSED)


@dataclass
class CorpusShaper:
    """Segments under a token budget, each with the recipe's keys."""

    recipe: Recipe
    encoder: EncoderSpec

    def __post_init__(self) -> None:
        check_choices(self.recipe, SEGMENTERS, KINDS)
        if self.recipe.llm != "none":
            raise ValueError("a corpus build has no step that asks a language model")

    def setup(self) -> None:
        """Load what workers need: the tokenizer, and the compressor where keys ask for it."""
        self._tokens = tokens_for(self.recipe.encoder)
        compressed = KeyKind.COMPRESSED.value in self.recipe.keys
        self._compressor = make_compressor(self.recipe.compressor) if compressed else None

    @property
    def tokens(self) -> TokenCounter:
        return self._tokens

    def take_vectors(self) -> Mapping[str, np.ndarray]:
        """Shaping needs no vectors."""
        return {}

    def shape(self, document: Document) -> list[Shaped]:
        """Entries of one document, in the order of the text."""
        kinds = [KeyKind(kind) for kind in self.recipe.keys]
        dense = {KeyKind(kind) for kind in self.recipe.dense_keys}
        made: list[Shaped] = []
        for segment in segment_document(document, self.recipe.segment_tokens, self._tokens):
            keyed = make_keys(
                segment,
                kinds=kinds,
                dense=dense,
                max_tokens=self.encoder.max_tokens,
                tokens=self._tokens,
                compressor=self._compressor,
                rate=self.recipe.compress_rate,
            )
            if keyed.entry.keys:
                made.append(Shaped(keyed.entry, document, lexical_terms(keyed), keyed.truncated))
        return made


def check_choices(recipe: Recipe, segmenters: Collection[str], kinds: Collection[KeyKind]) -> None:
    """Refuse what a kind of knowledge base cannot make: now, and not in a worker. Raises ValueError."""
    if recipe.segment not in segmenters:
        raise ValueError(
            f"a {recipe.kind} is segmented by {', '.join(segmenters)}, not {recipe.segment!r}"
        )
    unknown = sorted(set(recipe.keys) - {kind.value for kind in kinds})
    if unknown:
        raise ValueError(
            f"a {recipe.kind} has the keys {', '.join(kinds)}, not {', '.join(unknown)}"
        )
    if KeyKind.COMPRESSED.value in recipe.keys:
        make_compressor(recipe.compressor)


def lexical_terms(keyed: Keyed) -> LexicalTerms:
    """Terms by field: the value under its headings once, the headings again, the identifiers."""
    analyzer = standard_analyzer()
    entry = keyed.entry
    context = "\n".join(key.text for key in entry.keys if key.kind is KeyKind.PATH)
    headings = tuple(term.text for term in analyzer.words(context))
    own = tuple(term.text for term in analyzer.words(entry.value))
    repeated = own[: len(headings)] == headings
    exact = analyzer.identifiers(entry.value) + analyzer.identifiers(context)
    return {
        KeyKind.TEXT.value: own if repeated else headings + own,
        KeyKind.PATH.value: headings,
        EXACT_FIELD: tuple(term.text for term in exact),
    }


def corpus_plan(recipe: Recipe) -> SearchPlan:
    """How a plain corpus is searched, before its fusion weight is fitted."""
    return SearchPlan(field_weights=FIELD_WEIGHTS, dense_kinds=recipe.dense_keys)
