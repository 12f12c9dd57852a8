"""Imported once by a fork server, so that each child of the crash tests starts with the model loaded."""

from stillroom.models import load_encoder
from stillroom.pipelines import build as _build  # noqa: F401 - imports every stage

load_encoder("minilm")
