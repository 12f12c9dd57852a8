"""What a build will do, decided before Beam runs: files, shards, encoder, search plan, and what of the
live build is carried over. `--dry-run` shows it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import stillroom
from stillroom.analyzers import analyzer_spec
from stillroom.errors import BadInput
from stillroom.folders import open_folder
from stillroom.models import describe, spec_for
from stillroom.pipelines.chat import ChatShaper, chat_plan
from stillroom.pipelines.corpus import CorpusShaper, corpus_plan
from stillroom.schemas.manifest import Manifest
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe, Source
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import current_build, read_manifest
from stillroom.transforms.carry import Rules
from stillroom.transforms.exports import plan_exports
from stillroom.transforms.files import InputFile, is_complete, list_source
from stillroom.transforms.load import Read, Shard, plan_shards
from stillroom.transforms.publish import BuildPlan
from stillroom.transforms.read import read_files
from stillroom.transforms.read_chat import read_chats
from stillroom.transforms.shape import Shaper
from stillroom.transforms.vocabulary import cached_vocabulary


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes one kind of knowledge base its own; all else is shared."""

    shaper: Callable[[Recipe, EncoderSpec], Shaper]
    search: Callable[[Recipe], SearchPlan]
    shards: Callable[[Source, Sequence[InputFile]], list[Shard]] = plan_shards
    read: Read = read_files


KINDS = {
    "corpus": Kind(CorpusShaper, corpus_plan),
    "chat": Kind(ChatShaper, chat_plan, plan_exports, read_chats),
}
VOCABULARY_FROM_BYTES = 200_000  # less is mostly too little for a light encoder
# Fields of a recipe on which LOCAL results depend; a change of them shapes every document again.
LOCAL_FIELDS = (
    "kind", "segment", "segment_tokens", "keys", "dense_keys", "compressor", "compress_rate",
    "encoder", "llm", "surprise_model",
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """A build, decided but not begun: what `--dry-run` shows.

    `rules.same` says that unchanged documents are carried over; `changes` are the reasons why they
    would be shaped again instead.
    """

    build: BuildPlan
    shards: tuple[Shard, ...]
    shaper: Shaper
    read: Read
    rules: Rules
    changes: tuple[str, ...] = ()
    live: Manifest | None = None

    @property
    def files(self) -> int:
        return sum(len(shard.files) for shard in self.shards)

    @property
    def bytes(self) -> int:
        return sum(file.size for shard in self.shards for file in shard.files)

    @property
    def vocabulary(self) -> bool:
        """Whether workers should run the vocabulary pass: a light encoder will be fitted, for all that
        is known now, and this machine has not run it for this model before."""
        cached = cached_vocabulary(self.build.encoder)
        new = self.live is None or self.build.refit or not self.vectors_carried
        large = self.bytes >= VOCABULARY_FROM_BYTES and bool(self.build.encoder.lengths)
        return new and large and (cached is None or not cached.exists())

    @property
    def vectors_carried(self) -> bool:
        """Whether vectors of equal texts are carried over."""
        return (
            self.live is not None
            and self.live.encoder.fingerprint == self.build.encoder.fingerprint
        )


def plan_build(recipe: Recipe, kb: str, refit: bool = False) -> Planned:
    """List the sources and choose the encoder. Raises BadInput, MissingExtra."""
    if recipe.kind not in KINDS:
        raise BadInput(f"this version builds {', '.join(KINDS)}, not {recipe.kind}")
    kind = KINDS[recipe.kind]
    listed = {source: list_source(source) for source in recipe.sources}
    shards = tuple(
        shard for source, files in listed.items() for shard in kind.shards(source, files)
    )
    parent = current_build(kb)
    live = read_manifest(kb, parent) if parent else None
    encoder = spec_for(recipe.encoder, recipe.backend, live.encoder if live else None)
    try:
        shaper, search = kind.shaper(recipe, encoder), kind.search(recipe)
        search = replace(search, dims=kept_dims(recipe, encoder), dtype=recipe.dtype)
    except ValueError as error:
        raise BadInput(str(error)) from error
    uri = open_folder(kb).uri
    plan = BuildPlan(uri, recipe, encoder, search, stillroom.__version__, parent, refit=refit)
    changes = tuple(local_changes(live, plan)) if live else ()
    rules = Rules(
        same=live is not None and not changes,
        incomplete=tuple(s.name for s, files in listed.items() if not is_complete(files)),
    )
    return Planned(plan, shards, shaper, kind.read, rules, changes, live)


def kept_dims(recipe: Recipe, encoder: EncoderSpec) -> int:
    """Rotated dimensions that the recipe asks for, 0 for all. Raises ValueError for too many."""
    if recipe.dims > encoder.dims:
        raise ValueError(f"{encoder.name} has {encoder.dims} dimensions, not {recipe.dims}")
    return recipe.dims if recipe.dims < encoder.dims else 0


def local_changes(live: Manifest, plan: BuildPlan) -> Iterator[str]:
    """Why documents of the live build would be shaped again: what LOCAL results depend on."""
    old, new = asdict(live.recipe), asdict(plan.recipe)
    for name in LOCAL_FIELDS:
        if old[name] != new[name]:
            yield f"{name.replace('_', ' ')}: {_shown(old[name])} is now {_shown(new[name])}"
    if live.encoder != plan.encoder and old["encoder"] == new["encoder"]:
        yield f"encoder: {describe(live.encoder)} is now {describe(plan.encoder)}"
    if live.analyzer != analyzer_spec():
        yield "analyzer: this Python or tantivy makes other terms"
    if live.code_version != plan.code_version:
        yield f"stillroom: {live.code_version} is now {plan.code_version}"


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
