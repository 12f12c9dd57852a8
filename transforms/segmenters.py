"""The segmenters of conversations, by name."""

from stillroom.errors import BadInput
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.specs import EncoderSpec
from stillroom.transforms.language_models import language_model
from stillroom.transforms.llm_segmenter import LlmSegmenter
from stillroom.transforms.surprise import SurpriseSegmenter
from stillroom.transforms.topical import TopicalSegmenter
from stillroom.transforms.turns import FixedSegmenter, Segmenter

FIXED = ("turn", "round", "session", "window")
SEGMENTERS = (*FIXED, "topical", "surprise", "llm")


def make_segmenter(recipe: Recipe, encoder: EncoderSpec) -> Segmenter:
    """The recipe's segmenter, nothing loaded yet. Raises BadInput for `llm` without a model."""
    if recipe.segment in FIXED:
        return FixedSegmenter(recipe.segment)
    topical = TopicalSegmenter(encoder)
    if recipe.segment == "topical":
        return topical
    if recipe.segment == "surprise":
        return SurpriseSegmenter(encoder, recipe.surprise_model)
    model = language_model(recipe.llm)
    if model is None:
        raise BadInput("segment 'llm' needs a language model: --llm openai:MODEL")
    return LlmSegmenter(model, topical)
