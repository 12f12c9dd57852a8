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
from typing import Any

import numpy as np

from stillroom.analyzers import analyzer_spec
from stillroom.errors import NotPublished
from stillroom.folders import Folder, open_folder
from stillroom.schemas.ids import canonical_json, digest
from stillroom.schemas.lexical import INDEX_FORMAT
from stillroom.schemas.manifest import Fit, Manifest, TableVersion, build_id, manifest_to_json
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.rejects import Accounting, Reject
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import Build, build_folder, current_build, manifest_name, read_manifest
from stillroom.transforms import faults
from stillroom.transforms.carry import Fate
from stillroom.transforms.parts import PARTS, Part, parts_to_jsonl
from stillroom.transforms.pca import Axes, basis_of
from stillroom.transforms.retention import measure_index
from stillroom.transforms.serving import Derived, write_derived
from stillroom.transforms.sticky import Vocabulary, fitted
from stillroom.transforms.tables import Commits, commit_tables, pin_tables
from stillroom.transforms.vector_index import centroids_in, has_vector_index
from stillroom.versions import swap_current


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
    axes: Axes | None = None  # where the plan wants fewer dimensions


def publish(
    plan: BuildPlan,
    made: Made,
    progress: Callable[[str], None] = lambda step: None,
    vocabulary: Vocabulary = lambda encoder: encoder.encode_vocabulary(0, encoder.vocabulary_size),
) -> Outcome:
    """Make these parts the live build. `vocabulary` gives an encoder's vectors of single tokens, if a
    light encoder is fitted. Raises NotPublished where nothing may be published."""
    folder = open_folder(plan.kb)
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
    if not folder.exists(manifest_name(build)):
        progress("tables")
        dims, alike = plan.encoder.dims, plan.recipe.near_duplicate
        parent = read_manifest(plan.kb, plan.parent) if plan.parent and not plan.refit else None
        centroids = centroids_in(plan.kb, parent) if parent else None
        commits = Commits(plan.kb, build, plan.attempt, dims, alike, centroids)
        datasets = commit_tables(commits, [f for part in parts for f in part.fragments])
        progress("lexical index and serving files")
        fields = lexical_fields(plan.search)
        tier = "ivf_rq" if has_vector_index(datasets["keys"]) else "scan"
        plan = replace(plan, search=replace(plan.search, tier=tier))
        try:
            with folder.scratch() as scratch:
                dtype, basis = plan.search.dtype, basis_for(plan.search, made.axes)
                derived = write_derived(scratch, datasets, fields, dims, dtype, basis, tier)
                folder.place(scratch / "serve", f"serve/{derived.serve.digest}")
                faults.point("between-derived")
                folder.place(scratch / "lexical", f"lexical/{derived.lexical.digest}")
        except ValueError as error:
            raise NotPublished(f"the build is not consistent: {error}") from error
        manifest = _manifest(plan, build, made.inputs, derived, datasets, accounting, counts)
        faults.point("after-derived")
        progress("fits")
        manifest = fitted(manifest, folder, parent, datasets["keys"], vocabulary)
        if tier != "scan":
            index = measure_index(Build(plan.kb, manifest), datasets["keys"])
            manifest = replace(manifest, index=index)
        progress("manifest")
        _write_build(folder, manifest, parts, made.rejects, repairs)
    pin_tables(plan.kb, read_manifest(plan.kb, build))
    faults.point("before-current")
    _go_live(plan, build)
    faults.point("after-current")
    manifest = read_manifest(plan.kb, build)
    return Outcome(
        build, True, accounting, manifest.counts, dict(sorted(repairs.items())), manifest.plan
    )


def lexical_fields(plan: SearchPlan) -> tuple[str, ...]:
    """Fields of the lexical index: those that the plan gives a weight."""
    return tuple(sorted(name for name, weight in plan.field_weights.items() if weight > 0))


def basis_for(plan: SearchPlan, axes: Axes | None) -> np.ndarray | None:
    """float32 [dims, plan.dims]: what a plan with fewer dimensions rotates by; else None."""
    return basis_of(axes, plan.dims) if plan.dims and axes is not None else None


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


def _manifest(
    plan: BuildPlan, build: str, inputs: str, derived: Derived, datasets: Mapping[str, Any],
    accounting: Accounting, counts: Mapping[str, int],
) -> Manifest:  # fmt: skip
    tables = {
        name: TableVersion(dataset.version, dataset.count_rows(), derived.contents[name])
        for name, dataset in datasets.items()
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
        tables=tables,
        lexical=derived.lexical,
        serve=derived.serve,
        accounting=accounting,
        fit=Fit(build),
        counts={**counts, **derived.counts, "links": tables["links"].rows},
        lexical_format=INDEX_FORMAT,
    )


def _write_build(
    folder: Folder, manifest: Manifest, parts: Sequence[Part], rejects: Sequence[Reject],
    repairs: Mapping[str, int],
) -> None:  # fmt: skip
    """Parts, rejects and receipt first, the manifest last: its presence says that the build is whole."""
    place = build_folder(manifest.build)
    ordered = sorted(rejects, key=lambda reject: (reject.uri, reject.stage, reject.detail))
    lines = [canonical_json(asdict(reject)) + "\n" for reject in ordered]
    folder.write(f"{place}/rejects.jsonl", "".join(lines).encode())
    folder.write(f"{place}/{PARTS}", parts_to_jsonl(parts).encode())
    receipt = {
        "build": manifest.build,
        "content": manifest.content,
        "accounting": {**asdict(manifest.accounting), "read": manifest.accounting.read},
        "counts": dict(manifest.counts),
        "repairs": dict(repairs),
    }
    text = json.dumps(receipt, indent=1, sort_keys=True) + "\n"
    folder.write(f"{place}/receipt.json", text.encode())
    faults.point("before-manifest")
    folder.create(manifest_name(manifest.build), manifest_to_json(manifest).encode())


def _go_live(plan: BuildPlan, build: str) -> None:
    """Point `CURRENT` at `build` where it still names the parent."""
    live = current_build(plan.kb)
    if live != build and not swap_current(plan.kb, plan.parent, build):
        raise NotPublished(
            f"{plan.kb} moved to build {current_build(plan.kb)} while this one ran (it began from "
            f"{plan.parent or 'none'}); run the build again"
        )
