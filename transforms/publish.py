"""Publish: written fragments to one immutable build, then one pointer swap.

Order: commit the tables, index and tag them, make the GLOBAL files, fit what is fitted, write
`manifest.json` if absent, swap `CURRENT`. A crash before the swap leaves the old build served; what
it left behind is private and is replaced by the next run. Publishing twice is harmless: the second
finds the manifest and only swaps the pointer.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from stillroom.analyzers import analyzer_spec
from stillroom.encoders import load_for
from stillroom.errors import StillroomError
from stillroom.schemas.arrow import DOCUMENTS, ENTRIES, LINKS, keys_schema, links_to_table
from stillroom.schemas.ids import canonical_json, digest
from stillroom.schemas.lexical import INDEX_FORMAT
from stillroom.schemas.manifest import (
    TABLES,
    Fit,
    Manifest,
    TableVersion,
    build_id,
    manifest_to_json,
)
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.rejects import Accounting, Reject
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import Build, current_build, manifest_path, read_manifest
from stillroom.transforms import faults
from stillroom.transforms.calibrate import MAX_DRIFT, drift_between, fit_dense_weight, sample_of
from stillroom.transforms.carry import Fate
from stillroom.transforms.links import near_duplicate_links
from stillroom.transforms.near_duplicates import PERMUTATIONS
from stillroom.transforms.parts import PARTS, Fragment, Part, parts_to_jsonl, write_fragment
from stillroom.transforms.serving import Derived, write_derived
from stillroom.versions import point_current, write_once, write_whole

COMMIT_TRIES = 10
INDEXED = {"documents": "id", "entries": "id"}


class NotPublished(StillroomError):
    """The build ended without a new version, and why; what was served before still is."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """All that the launcher decided before the pipeline ran."""

    kb: str
    recipe: Recipe
    encoder: EncoderSpec
    search: SearchPlan
    code_version: str
    parent: str = ""
    attempt: str = ""
    refit: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a build ended: the build that is live now, whether it is new, and the counts."""

    build: str
    changed: bool
    accounting: Accounting
    counts: Mapping[str, int]
    repairs: Mapping[str, int]
    plan: SearchPlan


@dataclass(frozen=True, slots=True)
class Made:
    """All that the pipeline hands over. `fates` counts documents."""

    written: Sequence[Part]
    carried: Sequence[Part]
    rejects: Sequence[Reject]
    fates: Mapping[Fate, int]
    duplicates: int
    inputs: str


def publish(
    plan: BuildPlan, made: Made, progress: Callable[[str], None] = lambda step: None
) -> Outcome:
    """Make these parts the live build. Raises NotPublished where nothing may be published."""
    root = Path(plan.kb)
    parts = sorted((*made.written, *made.carried), key=lambda part: part.name)
    accounting = account(made)
    counts = {
        "documents": sum(part.documents for part in parts),
        "keys": sum(part.rows["keys"] for part in parts),
        "truncated": sum(part.truncated for part in parts),
        "removed": sum(n for fate, n in made.fates.items() if fate.kind == "removed"),
    }
    check_budget(accounting, counts["documents"], plan.recipe.max_error_rate)
    tools = digest(
        plan.recipe.fingerprint, plan.encoder.fingerprint, analyzer_spec().fingerprint
    )  # one recipe with another model or analyzer is another build
    build = build_id(plan.parent, made.inputs, tools, plan.code_version, plan.refit)
    repairs: Counter[str] = Counter()
    for part in parts:
        repairs.update(part.repairs)
    if not manifest_path(root, build).exists():
        progress("tables")
        datasets, versions = _commit_tables(plan, build, [f for p in parts for f in p.fragments])
        progress("lexical index and serving files")
        fields = lexical_fields(plan.search)
        try:
            derived = write_derived(root, datasets, fields, plan.encoder.dims)
        except ValueError as error:
            raise NotPublished(f"the build is not consistent: {error}") from error
        manifest = _manifest(plan, build, made.inputs, derived, versions, accounting, counts)
        faults.point("after-derived")
        progress("fusion weight")
        manifest = _fitted(root, manifest, plan)
        progress("manifest")
        _write_build(root, manifest, parts, made.rejects, repairs)
    _pin_tables(root, read_manifest(root, build))
    faults.point("before-current")
    _swap_current(root, plan.parent, build)
    faults.point("after-current")
    manifest = read_manifest(root, build)
    return Outcome(
        build, True, accounting, manifest.counts, dict(sorted(repairs.items())), manifest.plan
    )


def tag_of(build: str) -> str:
    """The Lance tag that pins a build's version of a table."""
    return f"build-{build}"


def lexical_fields(plan: SearchPlan) -> tuple[str, ...]:
    """Fields of the lexical index: those that the plan gives a weight."""
    return tuple(sorted(name for name, weight in plan.field_weights.items() if weight > 0))


def account(made: Made) -> Accounting:
    """Where each input went. An input whose documents are kept from the parent is stale, not
    rejected; what a new recipe made of stale documents is stale, not published."""
    kinds: Counter[str] = Counter()
    for fate, count in made.fates.items():
        kinds[fate.kind] += count
    kept = {fate.uri for fate in made.fates if fate.kind == "stale"}
    rejects = [reject for reject in made.rejects if reject.uri not in kept]
    documents = sum(part.documents for part in (*made.written, *made.carried))
    reasons = Counter(reject.reason.value for reject in rejects)
    return Accounting(
        published=documents - kinds["unchanged"] - kinds["stale"],
        unchanged=kinds["unchanged"],
        duplicate=made.duplicates,
        rejected=len(rejects),
        stale=kinds["stale"],
        reasons=dict(sorted(reasons.items())),
    )


def check_budget(accounting: Accounting, documents: int, max_error_rate: float) -> None:
    """Raises NotPublished over the error budget, or with nothing to publish."""
    if accounting.error_rate > max_error_rate:
        reasons = ", ".join(f"{count} {name}" for name, count in accounting.reasons.items())
        stale = f", {accounting.stale} could not be read again" if accounting.stale else ""
        raise NotPublished(
            f"{accounting.rejected} of {accounting.read} inputs were rejected ({reasons}){stale}: "
            f"{accounting.error_rate:.1%} is over the error budget of {max_error_rate:.1%}"
        )
    if not documents:
        raise NotPublished(f"none of {accounting.read} inputs can be published")


def _commit_tables(
    plan: BuildPlan, build: str, fragments: Sequence[Fragment]
) -> tuple[dict[str, Any], dict[str, int]]:
    schemas = {
        "documents": DOCUMENTS,
        "entries": ENTRIES,
        "keys": keys_schema(plan.encoder.dims),
        "links": LINKS,
    }
    datasets: dict[str, Any] = {}
    versions: dict[str, int] = {}
    for name in TABLES:
        some = [fragment for fragment in fragments if fragment.table == name]
        if name == "links":  # last: near-duplicates are found among all entries
            some.append(_near_duplicates(plan, datasets["entries"]))
        faults.point(f"before-commit-{name}")
        dataset = _commit(plan, build, name, schemas[name], some)
        faults.point(f"after-commit-{name}")
        _tag(dataset, build, dataset.version)
        faults.point(f"after-tag-{name}")
        datasets[name], versions[name] = dataset, dataset.version
    return datasets, versions


def _pin_tables(root: Path, manifest: Manifest) -> None:
    """Tags as the manifest has them: of two publishes at once, one has written it, and both have
    tagged a version of their own."""
    for name, table in manifest.tables.items():
        _tag(lance.dataset(str(root / f"{name}.lance")), manifest.build, table.version)


def _tag(dataset: Any, build: str, version: int) -> None:
    tag = tag_of(build)
    known = dataset.tags.list()
    if tag not in known:
        try:
            dataset.tags.create(tag, version)
            return
        except (OSError, ValueError):  # another publish was first
            known = dataset.tags.list()
    if known[tag]["version"] != version:
        dataset.tags.update(tag, version)


def _near_duplicates(plan: BuildPlan, entries: Any) -> Fragment:
    table = entries.to_table(columns=["id", "digest", "signature"], filter="signature IS NOT NULL")
    table = table.sort_by("id")
    raw = b"".join(table.column("signature").to_pylist())
    signatures = np.frombuffer(raw, np.uint32).reshape(-1, PERMUTATIONS)
    links = near_duplicate_links(
        table.column("id").to_pylist(),
        table.column("digest").to_pylist(),
        signatures,
        plan.recipe.near_duplicate,
    )
    return write_fragment(plan.kb, "links", links_to_table(links))


def _commit(
    plan: BuildPlan, build: str, name: str, schema: pa.Schema, fragments: Sequence[Fragment]
) -> Any:
    """One commit that replaces the table's rows, then its index; tried again as a whole where another
    writer came between. The rows do not depend on the version below, so a repeated commit doubles
    nothing."""
    uri = str(Path(plan.kb) / f"{name}.lance")
    files = [lance.fragment.FragmentMetadata.from_json(made) for f in fragments for made in f.files]
    rows = sum(fragment.rows for fragment in fragments)
    operation = lance.LanceOperation.Overwrite(schema, files)
    properties = {"build": build, "attempt": plan.attempt}
    indexed = name in INDEXED and rows > 0
    for _ in range(COMMIT_TRIES):
        below = _latest_version(uri)
        transaction = lance.Transaction(
            read_version=below, operation=operation, transaction_properties=properties
        )
        try:
            dataset = lance.LanceDataset.commit(
                uri, transaction if below else operation, max_retries=0
            )
            if indexed:
                dataset.create_scalar_index(INDEXED[name], "BTREE")
        except (OSError, ValueError) as error:  # a CommitConflictError is one of these
            text = str(error).lower()
            if all(word not in text for word in ("conflict", "already exists", "incompatible")):
                raise
            continue
        if dataset.version == below + 1 + indexed and dataset.count_rows() == rows:
            return dataset
    raise NotPublished(f"{uri}: {COMMIT_TRIES} commits were overtaken by another writer's")


def _latest_version(uri: str) -> int:
    try:
        return int(lance.dataset(uri).version)
    except (ValueError, FileNotFoundError):
        return 0


def _manifest(
    plan: BuildPlan, build: str, inputs: str, derived: Derived, versions: Mapping[str, int],
    accounting: Accounting, counts: Mapping[str, int],
) -> Manifest:  # fmt: skip
    rows = {
        name: lance.dataset(str(Path(plan.kb) / f"{name}.lance"), version=version).count_rows()
        for name, version in versions.items()
    }
    return Manifest(
        build=build,
        parent=plan.parent,
        code_version=plan.code_version,
        inputs=inputs,
        recipe=plan.recipe,
        encoder=plan.encoder,
        analyzer=analyzer_spec(),
        plan=plan.search,
        tables={
            name: TableVersion(version, rows[name], derived.contents[name])
            for name, version in versions.items()
        },
        lexical=derived.lexical,
        serve=derived.serve,
        accounting=accounting,
        fit=Fit(build),
        counts={**counts, **derived.counts, "links": rows["links"]},
        lexical_format=INDEX_FORMAT,
    )


def _fitted(root: Path, manifest: Manifest, plan: BuildPlan) -> Manifest:
    """With the STICKY parts: the parent's, unless it has none that fit, or they drifted too far."""
    build = Build(root, manifest)
    sample = sample_of(build)
    parent = read_manifest(root, plan.parent) if plan.parent else None
    if parent is not None and not plan.refit and parent.encoder == plan.encoder:
        drift = drift_between(parent.fit.sample, sample)
        fields = parent.plan.field_weights == plan.search.field_weights
        if fields and parent.plan.dense_kinds == plan.search.dense_kinds and drift <= MAX_DRIFT:
            carried = replace(
                plan.search,
                dense_weight=parent.plan.dense_weight,
                calibration=parent.plan.calibration,
            )
            return replace(manifest, plan=carried, fit=replace(parent.fit, drift=drift))
    encoder = load_for(plan.encoder, exact=True)
    fitted = fit_dense_weight(build, encoder.encode_queries, encoder.encode_documents)
    return replace(manifest, plan=fitted, fit=Fit(manifest.build, sample))


def _write_build(
    root: Path, manifest: Manifest, parts: Sequence[Part], rejects: Sequence[Reject],
    repairs: Mapping[str, int],
) -> None:  # fmt: skip
    """Parts, rejects and receipt first, the manifest last: its presence says that the build is whole."""
    folder = manifest_path(root, manifest.build).parent
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(rejects, key=lambda reject: (reject.uri, reject.stage, reject.detail))
    lines = [canonical_json(asdict(reject)) + "\n" for reject in ordered]
    write_whole(folder / "rejects.jsonl", "".join(lines))
    write_whole(folder / PARTS, parts_to_jsonl(parts))
    receipt = {
        "build": manifest.build,
        "content": manifest.content,
        "accounting": {**asdict(manifest.accounting), "read": manifest.accounting.read},
        "counts": dict(manifest.counts),
        "repairs": dict(repairs),
    }
    write_whole(folder / "receipt.json", json.dumps(receipt, indent=1, sort_keys=True) + "\n")
    faults.point("before-manifest")
    write_once(folder / "manifest.json", manifest_to_json(manifest))


def _swap_current(root: Path, expected: str, build: str) -> None:
    """Point `CURRENT` at `build` where it still names `expected`. The build lock is held."""
    live = current_build(root)
    if live == build:
        return
    if live != expected:
        raise NotPublished(
            f"{root} moved to build {live} while this one ran (it began from {expected or 'none'}); "
            "run the build again"
        )
    point_current(root, build)
