"""The recipe: what to build, as data. One knowledge base has one recipe and any number of sources."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_origin, get_type_hints
from zoneinfo import available_timezones

from stillroom.schemas.entries import KeyKind
from stillroom.schemas.ids import canonical_json, digest
from stillroom.schemas.plan import DTYPES

KINDS = ("corpus", "chat", "mathlib", "security")
BACKENDS = ("auto", "torch", "onnx", "openvino")
FORMATS = ("auto", "text", "markdown", "html", "pdf", "office", "jsonl", "csv", "tsv", "parquet")


@dataclass(frozen=True, slots=True)
class Source:
    """One named place to read from: a file, a folder (read recursively), a glob or a URI of these.

    Columns apply to row formats (JSONL, CSV, TSV, Parquet). Empty ones are found by convention:
    BEIR's `_id,title,text`, Pyserini's `id,contents`. Every column that is not chosen is a facet.
    `created_column` holds when a row was written (ISO 8601 or epoch seconds). `timezone` is that of
    chat logs that write times without one (default UTC).
    """

    name: str
    uri: str
    format: str = "auto"
    id_column: str = ""
    title_column: str = ""
    text_columns: tuple[str, ...] = ()
    created_column: str = ""
    timezone: str = ""

    def __post_init__(self) -> None:
        if self.timezone and self.timezone not in available_timezones():
            raise ValueError(f"{self.timezone!r} is no time zone, such as 'Europe/Berlin'")
        if not self.uri:
            raise ValueError(f"source {self.name!r} has no uri")
        if self.format not in FORMATS:
            raise ValueError(f"source format {self.format!r} is not one of {', '.join(FORMATS)}")


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that decides what a build makes of its inputs.

    `segment_tokens` is the budget of one value, counted with the encoder's tokenizer. `keys` are the
    key kinds to make, `dense_keys` those of them that get vectors. `compressor` is `extractive` or
    `llmlingua2:NAME`; `compress_rate` the share of words it keeps. `near_duplicate` is the estimated
    Jaccard similarity from which two values are linked. `max_error_rate` is the share of inputs that
    may fail before nothing is published. `dims` (0: all) and `dtype` say in which form vectors are
    searched; they are kept whole in any case, so a change of
    either encodes nothing again. `backend` runs the encoder: `auto`, `torch`, `onnx` or `openvino`. `llm` is `none` or a spec such as `openai:MODEL`;
    `surprise_model` a causal language model for the segmenter `surprise` (empty: the encoder's vectors).
    """

    kind: str
    sources: tuple[Source, ...]
    segment: str = "heading"
    segment_tokens: int = 512
    keys: tuple[str, ...] = (KeyKind.TEXT.value, KeyKind.PATH.value)
    dense_keys: tuple[str, ...] = (KeyKind.TEXT.value,)
    compressor: str = "extractive"
    compress_rate: float = 0.75
    encoder: str = "minilm"
    backend: str = "auto"
    dims: int = 0
    dtype: str = "f32"
    llm: str = "none"
    surprise_model: str = ""
    near_duplicate: float = 0.85
    max_error_rate: float = 0.5
    max_document_chars: int = 20_000_000

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a knowledge base is one of {', '.join(KINDS)}, not {self.kind!r}")
        names = [source.name for source in self.sources]
        if not names or len(set(names)) != len(names):
            raise ValueError(f"a recipe needs sources with different names, not {names}")
        known = {kind.value for kind in KeyKind}
        for kind in (*self.keys, *self.dense_keys):
            if kind not in known:
                raise ValueError(f"key kind {kind!r} is not one of {', '.join(sorted(known))}")
        if KeyKind.TEXT.value not in self.keys:
            raise ValueError(f"keys must include 'text', not only {', '.join(self.keys)}")
        if not set(self.dense_keys) <= set(self.keys):
            raise ValueError(f"dense keys {self.dense_keys} are not all among keys {self.keys}")
        if self.segment_tokens < 16:
            raise ValueError(f"segment_tokens is at least 16, not {self.segment_tokens}")
        if not 0.0 < self.compress_rate <= 1.0:
            raise ValueError(f"compress_rate is over 0 and at most 1, not {self.compress_rate}")
        if self.dims and (self.dims < 8 or self.dims % 8):
            raise ValueError(f"dims is 0 (all) or a multiple of 8, not {self.dims}")
        if self.backend not in BACKENDS:
            raise ValueError(f"backend is one of {', '.join(BACKENDS)}, not {self.backend!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype is one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if not 0.0 < self.near_duplicate <= 1.0:
            raise ValueError(f"near_duplicate is over 0 and at most 1, not {self.near_duplicate}")
        if not 0.0 <= self.max_error_rate <= 1.0:
            raise ValueError(f"max_error_rate is between 0 and 1, not {self.max_error_rate}")

    @property
    def fingerprint(self) -> str:
        """Digest of what decides the results of a build: the error budget and where sources are do not."""
        data = recipe_to_dict(self)
        del data["max_error_rate"]
        for source in data["sources"]:
            del source["uri"]
        return digest("recipe", canonical_json(data))


# What a kind takes where a recipe does not say.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "chat": {
        "segment": "topical",
        "segment_tokens": 96,
        "keys": (
            KeyKind.TEXT.value,
            KeyKind.PATH.value,
            KeyKind.TURN.value,
            KeyKind.FACT.value,
        ),
        "dense_keys": (KeyKind.TURN.value, KeyKind.FACT.value),
    },
}


def make_recipe(kind: str, sources: tuple[Source, ...], **chosen: Any) -> Recipe:
    """A recipe with the defaults of its kind."""
    return Recipe(kind, sources, **{**DEFAULTS.get(kind, {}), **chosen})


_Made = TypeVar("_Made", Source, Recipe)


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """Plain data, ready for JSON or TOML."""
    return asdict(recipe)


def recipe_from_dict(data: Mapping[str, Any]) -> Recipe:
    """The recipe of plain data; an unknown name is an error that lists the known ones."""
    sources = data.get("sources") or data.get("source") or ()
    if not isinstance(sources, list | tuple):
        raise ValueError(f"sources is a list of tables, not {sources!r}")
    made = tuple(_build(Source, item) for item in sources)
    rest = {name: value for name, value in data.items() if name not in ("sources", "source")}
    defaults = DEFAULTS.get(str(rest.get("kind")), {})
    return _build(Recipe, {**defaults, **rest, "sources": made})


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe from a TOML file. Relative source uris are relative to the file's folder."""
    path = Path(path)
    with path.open("rb") as stream:
        try:
            data = tomllib.load(stream)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path} is not valid TOML: {error}") from error
    recipe = recipe_from_dict(data)
    return replace(
        recipe,
        sources=tuple(
            source
            if "://" in source.uri
            else replace(source, uri=str(path.parent / Path(source.uri).expanduser()))
            for source in recipe.sources
        ),
    )


def _build(cls: type[_Made], data: Mapping[str, Any]) -> _Made:
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(
            f"{cls.__name__.lower()} has no {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(sorted(known))}"
        )
    hints = get_type_hints(cls)
    values: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in data.items()}
    for name, value in values.items():
        if name != "sources" and not _fits(value, hints[name]):
            kind = "a list of texts" if get_origin(hints[name]) else hints[name].__name__
            raise ValueError(f"{cls.__name__.lower()}: {name} is {kind}, not {value!r}")
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{cls.__name__.lower()}: {error}") from error


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))
