"""Publish: written fragments to one immutable build, then one pointer swap.

Order: commit the tables, index and tag them, make the GLOBAL files, fit what is fitted, write
`manifest.json` if absent, swap `CURRENT`. A crash before the swap leaves the old build served; what
it left behind is private and is replaced by the next run. Publishing twice is harmless: the second
finds the manifest and only swaps the pointer.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from stillroom.analyzers import analyzer_spec
from stillroom.encoders import Encoder, load_for
from stillroom.errors import StillroomError
from stillroom.schemas.arrow import DOCUMENTS, ENTRIES, LINKS, keys_schema, links_to_table
from stillroom.schemas.ids import canonical_json
from stillroom.schemas.lexical import INDEX_FORMAT
from stillroom.schemas.manifest import (
    TABLES,
    Manifest,
    TableVersion,
    build_id,
    manifest_to_json,
)
from stillroom.schemas.plan import SearchPlan
from stillroom.schemas.recipe import Recipe
from stillroom.schemas.rejects import Accounting, Reject
from stillroom.schemas.specs import EncoderSpec
from stillroom.store import CURRENT, Build, current_build, manifest_path, read_manifest
from stillroom.transforms.calibrate import fit_dense_weight
from stillroom.transforms.links import near_duplicate_links
from stillroom.transforms.near_duplicates import PERMUTATIONS
from stillroom.transforms.serving import Derived, write_derived
from stillroom.transforms.write import Fragment, WrittenPart, write_fragment

COMMIT_TRIES = 5
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


def publish(
    plan: BuildPlan, parts: Sequence[WrittenPart], rejects: Sequence[Reject], duplicates: int,
    inputs: str,
    progress: Callable[[str], None] = lambda step: None,
) -> Outcome:  # fmt: skip
    """Make these fragments the live build. Raises NotPublished where nothing may be published."""
    root = Path(plan.kb)
    parts = sorted(parts, key=lambda part: part.part)
    accounting = account(parts, rejects, duplicates)
    check_budget(accounting, plan.recipe.max_error_rate)
    build = build_id(plan.parent, inputs, plan.recipe.fingerprint, plan.code_version, plan.refit)
    repairs = dict(sorted(Counter(name for part in parts for name in part.repaired).items()))
    counts = {
        "documents": sum(p.documents for p in parts),
        "keys": sum(p.keys for p in parts),
        "truncated": sum(p.truncated for p in parts),
    }
    if not manifest_path(root, build).exists():
        progress("tables")
        datasets, versions = _commit_tables(plan, build, [f for p in parts for f in p.fragments])
        progress("lexical index and serving files")
        fields = tuple(k for k, weight in plan.search.field_weights.items() if weight > 0)
        try:
            derived = write_derived(root, datasets, fields, plan.encoder.dims)
        except ValueError as error:
            raise NotPublished(f"the build is not consistent: {error}") from error
        manifest = _manifest(plan, build, inputs, derived, versions, accounting, counts)
        progress("fusion weight")
        fitted = _fitted(root, manifest, load_for(plan.encoder, exact=True))
        progress("manifest")
        _write_build(root, replace(manifest, plan=fitted), rejects, repairs)
    _swap_current(root, plan.parent, build)
    manifest = read_manifest(root, build)
    return Outcome(build, True, accounting, manifest.counts, repairs, manifest.plan)


def account(parts: Sequence[WrittenPart], rejects: Sequence[Reject], duplicates: int) -> Accounting:
    """The accounting of a build from scratch."""
    reasons = Counter(reject.reason.value for reject in rejects)
    return Accounting(
        published=sum(part.documents for part in parts),
        duplicate=duplicates,
        rejected=len(rejects),
        reasons=dict(sorted(reasons.items())),
    )


def check_budget(accounting: Accounting, max_error_rate: float) -> None:
    """Raises NotPublished over the error budget, or with nothing to publish."""
    if accounting.error_rate > max_error_rate:
        reasons = ", ".join(f"{count} {name}" for name, count in accounting.reasons.items())
        raise NotPublished(
            f"{accounting.rejected} of {accounting.read} inputs were rejected ({reasons}): "
            f"{accounting.error_rate:.1%} is over the error budget of {max_error_rate:.1%}"
        )
    if not accounting.published:
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
        dataset = _commit(plan, build, name, schemas[name], some)
        if name in INDEXED and dataset.count_rows():
            dataset.create_scalar_index(INDEXED[name], "BTREE")
        tag = f"build-{build}"
        if tag in dataset.tags.list():
            dataset.tags.update(tag, dataset.version)
        else:
            dataset.tags.create(tag, dataset.version)
        datasets[name], versions[name] = dataset, dataset.version
    return datasets, versions


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
    """One commit that replaces the table's rows; asserted, and tried again where another came
    between. The rows do not depend on the version below, so a repeated commit doubles nothing."""
    uri = str(Path(plan.kb) / f"{name}.lance")
    files = [lance.fragment.FragmentMetadata.from_json(made) for f in fragments for made in f.files]
    rows = sum(fragment.rows for fragment in fragments)
    operation = lance.LanceOperation.Overwrite(schema, files)
    properties = {"build": build, "attempt": plan.attempt}
    for _ in range(COMMIT_TRIES):
        below = _latest_version(uri)
        try:
            if below:
                transaction = lance.Transaction(
                    read_version=below, operation=operation, transaction_properties=properties
                )
                dataset = lance.LanceDataset.commit(uri, transaction, max_retries=0)
            else:
                dataset = lance.LanceDataset.commit(uri, operation)
        except OSError as error:
            if "conflict" not in str(error).lower():
                raise
            continue
        if dataset.version == below + 1 and dataset.count_rows() == rows:
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
        counts={**counts, **derived.counts, "links": rows["links"]},
        lexical_format=INDEX_FORMAT,
    )


def _fitted(root: Path, manifest: Manifest, encoder: Encoder) -> SearchPlan:
    return fit_dense_weight(Build(root, manifest), encoder.encode_queries, encoder.encode_documents)


def _write_build(
    root: Path, manifest: Manifest, rejects: Sequence[Reject], repairs: Mapping[str, int]
) -> None:
    """Rejects and receipt first, the manifest last: its presence says that the build is whole."""
    folder = manifest_path(root, manifest.build).parent
    folder.mkdir(parents=True, exist_ok=True)
    ordered = sorted(rejects, key=lambda reject: (reject.uri, reject.stage, reject.detail))
    lines = [canonical_json(asdict(reject)) + "\n" for reject in ordered]
    _write_whole(folder / "rejects.jsonl", "".join(lines))
    receipt = {
        "build": manifest.build,
        "content": manifest.content,
        "accounting": {**asdict(manifest.accounting), "read": manifest.accounting.read},
        "counts": dict(manifest.counts),
        "repairs": dict(repairs),
    }
    _write_whole(folder / "receipt.json", json.dumps(receipt, indent=1, sort_keys=True) + "\n")
    _write_whole(folder / "manifest.json", manifest_to_json(manifest))


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
    _write_whole(root / CURRENT, build + "\n")


def _write_whole(path: Path, text: str) -> None:
    """Durable and atomic: readers see the old file or the new one."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
