"""The manifest: what one build is. Immutable once written; `CURRENT` names the live one."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stillroom.schemas.ids import canonical_json, digest
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe, recipe_from_dict
from stillroom.schemas.rejects import Accounting
from stillroom.schemas.specs import AnalyzerSpec, EncoderSpec

MANIFEST_FORMAT = 2
# Retention from which the light encoder is the default. What a build can measure is below what judged
# queries show: .94 and .98 on SciFact, where they keep .998 and .989.
LIGHT_BARS = {"dense": 0.9, "hybrid": 0.95}
TABLES = ("documents", "entries", "keys", "links")
TIMINGS = "timings.json"  # beside the manifest, which is equal for equal builds; times are not


class UnknownFormat(ValueError):
    """A manifest of another format than this version writes."""


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One Lance table of a build: the pinned version, its rows, and the digest of its content."""

    version: int
    rows: int
    content: str


@dataclass(frozen=True, slots=True)
class DerivedFiles:
    """A folder of immutable files, named by `digest`: each file's size in bytes and BLAKE2b.

    `content` is the digest of what they say, in sorted order: equal for equal builds, which names and
    bytes of files that tantivy writes are not.
    """

    digest: str
    content: str
    files: Mapping[str, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Fit:
    """What the STICKY parts were fitted on: the build, and a sample of its entries' ids (those with
    the smallest hash). `drift` is the share of that sample that is gone or displaced since then."""

    build: str
    sample: tuple[str, ...] = ()
    drift: float = 0.0


@dataclass(frozen=True, slots=True)
class Light:
    """A light query encoder: its files, its retention, and the number of texts that it was fitted on.

    `retention` is the share of the full model's mean reciprocal rank that it keeps, by leg (`dense`,
    `hybrid`), on pseudo-queries that were taken out of their entries for a fit of its own.
    """

    files: DerivedFiles
    retention: Mapping[str, float]
    rows: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One build: tables, files, specs, recipe, plan, counts, and the build it came from.

    `elastic` says, for each form that vectors can be served in ("128/int8"), the `retention` of whole
    vectors' nDCG@10 that was measured where the fusion weight was fitted, and the `bytes` of a vector. `index`, with an index of
    vectors, has its `recall` (@10 against exact search, of sampled stored vectors) and `bytes`.
    """

    build: str
    parent: str
    code_version: str
    inputs: str
    recipe: Recipe
    encoder: EncoderSpec
    analyzer: AnalyzerSpec
    plan: SearchPlan
    tables: Mapping[str, TableVersion]
    lexical: DerivedFiles
    serve: DerivedFiles
    accounting: Accounting
    fit: Fit
    light: Light | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    lexical_format: str = ""
    elastic: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    index: Mapping[str, float] = field(default_factory=dict)
    format: int = MANIFEST_FORMAT

    @property
    def light_is_default(self) -> bool:
        """Whether queries are encoded by the light encoder unless another is asked for."""
        kept = self.light.retention if self.light is not None else {}
        return bool(kept) and all(kept[leg] >= bar for leg, bar in LIGHT_BARS.items())

    @property
    def content(self) -> str:
        """Digest of everything a search could see: equal for equal builds on any machine."""
        return digest(
            "build content",
            canonical_json({name: table.content for name, table in self.tables.items()}),
            self.lexical.content,
            self.serve.content,
            canonical_json(asdict(self.plan)),
            self.light.files.content if self.light is not None else "",
        )


def build_id(parent: str, inputs: str, recipe: str, code_version: str, refit: bool) -> str:
    """Id of a build, from what it is made of."""
    return digest("build", parent, inputs, recipe, code_version, int(refit))


def manifest_to_json(manifest: Manifest) -> str:
    """Readable JSON, keys sorted."""
    return json.dumps(asdict(manifest), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def manifest_from_json(text: str) -> Manifest:
    """The manifest of `manifest_to_json`. Raises ValueError for another format or a damaged file."""
    try:
        data: dict[str, Any] = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"the manifest is damaged: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"the manifest is damaged: it is {type(data).__name__}, not an object")
    if data.get("format") != MANIFEST_FORMAT:
        raise UnknownFormat(
            f"the manifest has format {data.get('format')!r}, this version of stillroom reads "
            f"{MANIFEST_FORMAT}: build again, or install the version that built it "
            f"({data.get('code_version', 'unknown')})"
        )
    try:
        return Manifest(
            **{
                **data,
                "recipe": recipe_from_dict(data["recipe"]),
                "encoder": EncoderSpec(**_tuples(data["encoder"])),
                "analyzer": AnalyzerSpec(**data["analyzer"]),
                "plan": SearchPlan(**_tuples(data["plan"])),
                "tables": {name: TableVersion(**table) for name, table in data["tables"].items()},
                "lexical": _files(data["lexical"]),
                "serve": _files(data["serve"]),
                "accounting": Accounting(**data["accounting"]),
                "fit": Fit(**_tuples(data["fit"])),
                "light": _light(data["light"]),
                "index": dict(data["index"]),
                "elastic": {n: dict(point) for n, point in data["elastic"].items()},
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the manifest is damaged: {error}") from error


def _tuples(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}


def _light(data: Mapping[str, Any] | None) -> Light | None:
    return None if data is None else Light(**{**data, "files": _files(data["files"])})


def _files(data: Mapping[str, Any]) -> DerivedFiles:
    files = {name: (int(size), str(sum_)) for name, (size, sum_) in data["files"].items()}
    return DerivedFiles(data["digest"], data["content"], files)
