r"""The build pipeline: sources to one published knowledge base. Every kind shares all but its shaper.

    sources -> Read -> Shape -> Encode -> Write -> Publish
                 \-> every stage rejects to one place, and Publish counts it

`stillroom.pipelines.plan` decides everything before Beam runs; `build_graph` only wires; `run_build` runs
it and reads the outcome.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton
from apache_beam.transforms.combiners import Count

from stillroom.errors import NotPublished
from stillroom.folders import Folder, open_folder
from stillroom.pipelines.options import pipeline_options
from stillroom.pipelines.plan import Planned
from stillroom.pipelines.workers import failures_reported, workers_log_to
from stillroom.schemas.manifest import TIMINGS, Manifest
from stillroom.schemas.rejects import Reject
from stillroom.store import build_folder, current_build, read_manifest
from stillroom.transforms.carry import FATES, SHAPE, CarryVectors, Fate, JoinParent
from stillroom.transforms.coders import noun_from_bytes, noun_to_bytes
from stillroom.transforms.encode import GROUP_TEXTS, EncodeTexts
from stillroom.transforms.inputs import DigestInputs
from stillroom.transforms.load import (
    DUPLICATES,
    REJECTS,
    ReadDocuments,
    Shard,
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
from stillroom.transforms.shape import TEXTS, VECTORS, ShapeDocuments
from stillroom.transforms.stages import STEP, stage_seconds, timed
from stillroom.transforms.staging import STAGING, Staging
from stillroom.transforms.vocabulary import (
    EncodeVocabulary,
    vocabulary_vectors,
)
from stillroom.transforms.write import WriteParts

OUTCOME = "outcome"  # what the publishing worker leaves for the launcher, in the staging area
FAILURE = "last-failure.txt"
MEAN_TEXT_BYTES = 1_000


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
        | "Read" >> ReadDocuments(staging, plan.recipe.max_document_chars, planned.read)
    )
    inputs = read | "Inputs" >> DigestInputs()
    joined = {"refs": read["refs"], "rejects": read[REJECTS]} | "Join" >> JoinParent(
        staging, parent, planned.rules, plan.kb
    )
    shaped = joined[SHAPE] | "Shape" >> ShapeDocuments(staging, planned.shaper)
    old = pipeline | "CarryVectors" >> CarryVectors(parent, planned.vectors_carried)
    carried = (old, shaped[VECTORS]) | "KnownVectors" >> beam.Flatten()
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


def _same(element: Any) -> Any:
    return element
