r"""The build pipeline: sources to one published knowledge base. Every kind shares all but its shaper.

    sources -> Read -> Shape -> Encode -> Write -> Publish
                 \-> every stage rejects to one place, and Publish counts it

`plan_build` decides everything (files, shards, encoder, plan) before Beam runs; `build_graph` only
wires; `run_build` runs it and reads the outcome.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton
from apache_beam.transforms.combiners import Count

import stillroom
from stillroom.analyzers import analyzer_spec
from stillroom.errors import BadInput, NotPublished
from stillroom.folders import Folder, open_folder
from stillroom.models import describe, spec_for
from stillroom.pipelines.corpus import CorpusShaper, corpus_plan
from stillroom.pipelines.options import pipeline_options
from stillroom.pipelines.workers import failures_reported, workers_log_to
from stillroom.schemas.ids import DIGEST_BYTES, digest
from stillroom.schemas.manifest import TIMINGS, Manifest
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.rejects import Reject
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import build_folder, current_build, read_manifest
from stillroom.transforms.carry import FATES, SHAPE, CarryVectors, Fate, JoinParent, Rules
from stillroom.transforms.coders import noun_from_bytes, noun_to_bytes
from stillroom.transforms.encode import GROUP_TEXTS, EncodeTexts
from stillroom.transforms.files import is_complete, list_source
from stillroom.transforms.load import (
    DUPLICATES,
    REJECTS,
    DocumentRef,
    ReadDocuments,
    Shard,
    plan_shards,
)
from stillroom.transforms.parts import ParentBuild, Part
from stillroom.transforms.pca import Axes, FitAxes
from stillroom.transforms.publish import (
    BuildPlan,
    Made,
    Outcome,
    account,
    publish,
)
from stillroom.transforms.shape import TEXTS, ShapeDocuments, Shaper
from stillroom.transforms.stages import STEP, stage_seconds, timed
from stillroom.transforms.staging import STAGING, Staging
from stillroom.transforms.vocabulary import (
    EncodeVocabulary,
    cached_vocabulary,
    vocabulary_vectors,
)
from stillroom.transforms.write import WriteParts

# A knowledge base's kind is its shaper and its search plan; all else is shared.
MakeShaper = Callable[[Recipe, EncoderSpec], Shaper]
KINDS: dict[str, tuple[MakeShaper, Callable[[Recipe], SearchPlan]]] = {
    "corpus": (CorpusShaper, corpus_plan),
}
OUTCOME = "outcome"  # what the publishing worker leaves for the launcher, in the staging area
FAILURE = "last-failure.txt"
MEAN_TEXT_BYTES = 1_000
VOCABULARY_FROM_BYTES = 200_000  # less is mostly too little for a light encoder
# Fields of a recipe on which LOCAL results depend; a change of them shapes every document again.
LOCAL_FIELDS = (
    "kind", "segment", "segment_tokens", "keys", "dense_keys", "compressor", "compress_rate",
    "encoder", "llm",
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
    if recipe.llm != "none":
        raise BadInput(f"a {recipe.kind} build has no step that asks a language model")
    listed = {source: list_source(source) for source in recipe.sources}
    shards = tuple(
        shard for source, files in listed.items() for shard in plan_shards(source, files)
    )
    parent = current_build(kb)
    live = read_manifest(kb, parent) if parent else None
    encoder = spec_for(recipe.encoder, live.encoder if live else None)
    make_shaper, make_plan = KINDS[recipe.kind]
    try:
        shaper, search = make_shaper(recipe, encoder), make_plan(recipe)
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
    return Planned(plan, shards, shaper, rules, changes, live)


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


def run_build(
    planned: Planned,
    workers: int = 1,
    beam_options: Sequence[str] = (),
    watch: Callable[[Staging], Any] = lambda staging: None,
) -> Outcome:
    """Run the pipeline and return its outcome.

    `watch` is called with the staging area before the run (a live view). Raises NotPublished where
    nothing was published, BadInput for options, BuildFailed where a stage raised.
    """
    options = pipeline_options(workers, beam_options)
    kb = planned.build.kb
    folder = open_folder(kb)
    if folder.local:
        Path(kb).mkdir(parents=True, exist_ok=True)
    with folder.lock(), tempfile.TemporaryDirectory(prefix="stillroom-") as scratch:
        if current_build(kb) != planned.build.parent:
            raise NotPublished(f"{kb} moved to another build since this one was planned: run again")
        if folder.local:  # what a killed build left; without a lock it may be another's
            folder.remove(STAGING)
        attempt = Path(scratch).name
        staging = Staging(f"{kb}/{STAGING}/{attempt}", scratch)
        planned = replace(planned, build=replace(planned.build, attempt=attempt))
        try:
            watch(staging)
            with (
                failures_reported(folder, FAILURE),
                workers_log_to(Path(scratch) / "workers.log"),
                beam.Pipeline(options=options) as pipeline,
            ):
                build_graph(pipeline, planned, staging)
            outcome = _outcome(staging)
            if outcome.changed:
                _write_timings(folder, outcome.build, stage_seconds(pipeline.result.metrics()))
            return outcome
        finally:
            folder.remove(f"{STAGING}/{attempt}")


def _write_timings(folder: Folder, build: str, seconds: Mapping[str, float]) -> None:
    """Beside the receipt, which is the same for equal builds; the time they took is not."""
    text = json.dumps({name: round(s, 3) for name, s in seconds.items()}, indent=1, sort_keys=True)
    folder.write(f"{build_folder(build)}/{TIMINGS}", f"{text}\n".encode())


def build_graph(pipeline: beam.Pipeline, planned: Planned, staging: Staging) -> None:
    """Wire the stages. No logic here."""
    plan = planned.build
    parent = ParentBuild(plan.kb, plan.parent)
    read = (
        pipeline
        | "Shards" >> beam.Create(list(planned.shards)).with_output_types(Shard)
        | "SpreadShards" >> beam.Reshuffle()
        | "Read" >> ReadDocuments(staging, plan.recipe.max_document_chars)
    )
    inputs = (
        (
            read["refs"] | "DocumentInput" >> beam.Map(_document_input),
            read[REJECTS] | "RejectInput" >> beam.Map(_reject_input),
            read[DUPLICATES] | "DuplicateInput" >> beam.Map(_duplicate_input),
        )
        | "AllInputs" >> beam.Flatten()
        | "Inputs" >> beam.CombineGlobally(InputsDigest())  # type: ignore[no-untyped-call]
    )
    joined = {"refs": read["refs"], "rejects": read[REJECTS]} | "Join" >> JoinParent(
        staging, parent, planned.rules, plan.kb
    )
    shaped = joined[SHAPE] | "Shape" >> ShapeDocuments(staging, planned.shaper)
    carried = pipeline | "CarryVectors" >> CarryVectors(parent, planned.vectors_carried)
    groups = max(1, planned.bytes // MEAN_TEXT_BYTES // GROUP_TEXTS)
    vectors = {"texts": shaped[TEXTS], "carried": carried} | "EncodeTexts" >> EncodeTexts(
        staging, plan.encoder, groups
    )
    written = {
        "parts": shaped["parts"], "texts": shaped[TEXTS], "vectors": vectors,
    } | "WriteParts" >> WriteParts(staging, plan.kb, plan.encoder.dims, plan.parent)  # fmt: skip
    rejects = (
        (read[REJECTS], shaped[REJECTS], written[REJECTS])
        | "AllRejects" >> beam.Flatten()
        | "TypedRejects" >> beam.Map(_same).with_output_types(Reject)
    )
    fates = (
        joined[FATES]
        | "CountFates" >> Count.PerElement()
        | "TypedFates" >> beam.Map(_same).with_output_types(tuple[Fate, int])
    )
    vocabulary = pipeline | "Vocabulary" >> EncodeVocabulary(
        staging, plan.encoder, planned.vocabulary
    )
    duplicates = read[DUPLICATES] | "Duplicates" >> Count.Globally()
    axes = None
    if plan.search.dims:
        changed = inputs | "Changed" >> beam.Map(_changes, plan, planned.rules.same)
        fit = FitAxes(plan.kb, plan.encoder.dims, AsSingleton(changed))
        parts = (written["written"], joined["parts"]) | "AllParts" >> beam.Flatten()
        axes = AsSingleton(parts | "FitAxes" >> fit)
    _ = (
        pipeline
        | "PublishOnce" >> beam.Create([plan.attempt])
        | "Publish"
        >> beam.Map(
            _publish_once,
            plan,
            planned.rules.same,
            staging,
            AsList(written["written"]),
            AsList(joined["parts"]),
            AsList(rejects),
            AsList(fates),
            AsSingleton(duplicates),
            AsSingleton(inputs),
            axes,
            AsList(vocabulary),
        )
    )


def _publish_once(
    _attempt: str, plan: BuildPlan, same: bool, staging: Staging, written: list[Part],
    carried: list[Part], rejects: list[Reject], fates: list[tuple[Fate, int]], duplicates: int,
    inputs: str, axes: Axes | None, vocabulary: list[str],
) -> None:  # fmt: skip
    """Publish and leave the outcome for the launcher. A refusal is an outcome, not a crash: a runner
    would retry it and bury its words under its own."""
    made = Made(written, carried, rejects, dict(fates), duplicates, inputs, axes)
    steps = _Steps(staging)
    try:
        live = _live_if_equal(plan, same, inputs)
        if live is not None:
            outcome = Outcome(live.build, False, account(made), live.counts, {}, live.plan)
        else:
            outcome = publish(
                plan, made, steps.begin, lambda e: vocabulary_vectors(e, staging, vocabulary)
            )
        raw = noun_to_bytes(outcome)
    except NotPublished as refusal:
        raw = b"!" + str(refusal).encode()
    finally:
        steps.end()
    open_folder(staging.root).write(OUTCOME, raw)


def _live_if_equal(plan: BuildPlan, same: bool, inputs: str) -> Manifest | None:
    """The live build, where this one would be the same."""
    if not plan.parent or not same or plan.refit:
        return None
    live = read_manifest(plan.kb, plan.parent)
    equal = live.inputs == inputs and live.recipe.fingerprint == plan.recipe.fingerprint
    return live if equal else None


def _changes(inputs: str, plan: BuildPlan, same: bool) -> bool:
    return _live_if_equal(plan, same, inputs) is None


class _Steps:
    """The steps of publishing: each is timed as a stage, its name shown in the live view."""

    def __init__(self, staging: Staging) -> None:
        self._scratch, self._step = Path(staging.scratch), ExitStack()

    def begin(self, step: str) -> None:
        self.end()
        self._step.enter_context(timed(f"publish: {step}"))
        if self._scratch.is_dir():  # on the launcher's machine
            (self._scratch / STEP).write_text(step)

    def end(self) -> None:
        self._step.close()


def _outcome(staging: Staging) -> Outcome:
    raw = open_folder(staging.root).read(OUTCOME)
    if raw.startswith(b"!"):
        raise NotPublished(raw[1:].decode())
    outcome: Outcome = noun_from_bytes(Outcome, raw)
    return outcome


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


def _same(element: Any) -> Any:
    return element
