"""What `stillroom report KB` says of a knowledge base, as plain data (`--json` prints it).

Everything is read from what builds leave behind: manifests, receipts, rejects, timings, the serving
files and the tables' own statistics. Nothing is measured again, and no clock is read, so one base
gives one report. `stillroom.pipelines.report_page` makes the page of it.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stillroom.errors import Damaged, MissingExtra
from stillroom.folders import FileState, Folder, PathLike, open_folder
from stillroom.schemas.manifest import TABLES, TIMINGS, Manifest
from stillroom.store import Build, build_folder, current_build, read_manifest, table_uri
from stillroom.versions import list_builds

RECEIPT, REJECTS = "receipt.json", "rejects.jsonl"
FATES = ("published", "unchanged", "duplicate", "rejected", "stale")  # they add up to what was read
REJECT = ("uri", "stage", "reason", "detail")  # what is shown of one
SHOWN_REJECTS = 1_000
SMALL_FRAGMENT = 1_024  # rows; many fragments below it make every scan slower
BINS = 40


@dataclass(frozen=True, slots=True)
class Rejects:
    """All rejects of one build: how many by (stage, reason), and the first SHOWN_REJECTS of them."""

    total: int
    groups: tuple[tuple[str, str, int], ...]
    shown: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of all values in code points: counts[i] of them are in [edges[i], edges[i + 1])."""

    values: int
    median: int
    p95: int
    longest: int
    edges: tuple[int, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the base on disk; `build_bytes` is what the reported build itself needs of it."""

    name: str
    files: int
    bytes: int
    build_bytes: int


@dataclass(frozen=True, slots=True)
class BuildRow:
    """One kept build. `seconds` of work by stage, summed over workers; None if not recorded."""

    build: str
    parent: str
    counts: Mapping[str, int]
    inputs: Mapping[str, int]
    fitted_on: str
    drift: float
    seconds: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class TableHealth:
    """A Lance table at the reported build's version. `unindexed` rows by indexed column; `tagged` are
    the versions that some build pins."""

    name: str
    rows: int
    bytes: int
    fragments: int
    small_fragments: int
    version: int
    versions: int
    tagged: tuple[int, ...]
    unindexed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LexicalHealth:
    files: int
    bytes: int
    docs: int


@dataclass(frozen=True, slots=True)
class Report:
    """One build of a knowledge base, and the base around it. `light` is what its light encoder keeps of
    the full one's quality, by leg; empty if it has none."""

    kb: str
    build: str
    live: str
    content: str
    code_version: str
    recipe: Mapping[str, Any]
    encoder: Mapping[str, Any]
    dense_weight: float
    light: Mapping[str, float]
    inputs: Mapping[str, int]
    counts: Mapping[str, int]
    repairs: Mapping[str, int]
    rejects: Rejects
    lengths: Lengths
    parts: tuple[Part, ...]
    builds: tuple[BuildRow, ...]
    tables: tuple[TableHealth, ...]
    lexical: LexicalHealth
    max_drift: float

    @property
    def name(self) -> str:
        """What people call the base: the last part of its address."""
        return self.kb.rstrip("/").rpartition("/")[2]

    @property
    def row(self) -> BuildRow:
        """The reported build among those that are kept."""
        return next(row for row in self.builds if row.build == self.build)


def gather(kb: PathLike, build: str = "") -> Report:
    """The report of a build (the live one by default). Raises NotAKnowledgeBase, Damaged, VersionSkew
    and MissingExtra: the tables' statistics need Lance."""
    try:
        import lance

        from stillroom.transforms.calibrate import MAX_DRIFT
    except ImportError as error:
        raise MissingExtra(f"the report ({error.name} is not installed)", "build") from error
    folder = open_folder(kb)
    opened = Build(kb, read_manifest(kb, build)) if build else Build.open_current(kb)
    manifest = opened.manifest
    pinned = {name: table.version for name, table in manifest.tables.items()}
    tables = tuple(
        table_health(name, lance.dataset(table_uri(kb, name), version=pinned[name]))
        for name in TABLES
    )
    lexical = manifest.lexical.files
    return Report(
        kb=folder.uri,
        build=manifest.build,
        live=current_build(kb),
        content=manifest.content,
        code_version=manifest.code_version,
        recipe=asdict(manifest.recipe),
        encoder=asdict(manifest.encoder),
        dense_weight=manifest.plan.dense_weight,
        light=dict(manifest.light.retention) if manifest.light is not None else {},
        inputs=inputs_of(manifest),
        counts=dict(manifest.counts),
        repairs=_json(folder, manifest.build, RECEIPT)["repairs"],
        rejects=read_rejects(folder, manifest.build),
        lengths=measure(opened.entries.column("value")),
        parts=parts_of(folder.files(), manifest, {table.name: table.bytes for table in tables}),
        builds=tuple(build_row(folder, made) for made in list_builds(kb)),
        tables=tables,
        lexical=LexicalHealth(
            len(lexical), sum(size for size, _ in lexical.values()), opened.searcher[1].num_docs
        ),
        max_drift=MAX_DRIFT,
    )


def inputs_of(manifest: Manifest) -> dict[str, int]:
    """Inputs that were read, and by fate."""
    accounting = manifest.accounting
    return {"read": accounting.read, **{fate: getattr(accounting, fate) for fate in FATES}}


def read_rejects(folder: Folder, build: str) -> Rejects:
    """Rejects are written sorted by uri; nothing else is assumed of the file. Raises Damaged."""
    groups: Counter[tuple[str, str]] = Counter()
    shown: list[Mapping[str, str]] = []
    for line in _read(folder, build, REJECTS).splitlines():
        try:
            data = json.loads(line)
            reject = {name: str(data.get(name, "")) for name in REJECT}
        except (ValueError, AttributeError) as error:
            raise Damaged(f"{folder.uri}/{_name(build, REJECTS)}: {error}") from error
        groups[reject["stage"], reject["reason"]] += 1
        if len(shown) < SHOWN_REJECTS:
            shown.append(reject)
    most = sorted(groups.items(), key=lambda item: (-item[1], item[0]))
    return Rejects(groups.total(), tuple((*group, count) for group, count in most), tuple(shown))


def measure(values: pa.ChunkedArray) -> Lengths:
    """Lengths of texts, of which there is at least one."""
    lengths = pc.utf8_length(values).to_numpy()
    longest = int(lengths.max())
    median, p95 = np.percentile(lengths, (50, 95), method="inverted_cdf")
    width = bin_width(longest)
    edges = np.arange(0, longest + width + 1, width)  # whole numbers, the last above the longest
    counts, _ = np.histogram(lengths, edges)
    return Lengths(
        len(lengths), int(median), int(p95), longest,
        tuple(map(int, edges)), tuple(map(int, counts)),
    )  # fmt: skip


def bin_width(longest: int) -> int:
    """1, 2 or 5 times a power of ten, such that at most about BINS bins hold lengths up to this."""
    width = 1
    while True:
        for step in (1, 2, 5):
            if width * step * BINS >= longest:
                return width * step
        width *= 10


def parts_of(
    files: list[FileState], manifest: Manifest, tables: Mapping[str, int]
) -> tuple[Part, ...]:
    """Sizes of the folders of a base, and of what lies beside them."""
    count: Counter[str] = Counter()
    size: Counter[str] = Counter()
    own = Counter({f"{name}.lance": bytes_ for name, bytes_ in tables.items()})
    ours = {
        "serve": f"serve/{manifest.serve.digest}/",
        "lexical": f"lexical/{manifest.lexical.digest}/",
        "builds": f"{build_folder(manifest.build)}/",
    }
    if manifest.light is not None:
        ours["encoders"] = f"encoders/{manifest.light.files.digest}/"
    for file in files:
        top, inside, _ = file.name.partition("/")
        part = top if inside and not top.startswith(".") else "other"
        count[part] += 1
        size[part] += file.size
        if part in ours and file.name.startswith(ours[part]):
            own[part] += file.size
    return tuple(Part(name, count[name], size[name], own[name]) for name in sorted(count))


def build_row(folder: Folder, manifest: Manifest) -> BuildRow:
    """What a build's manifest says, and how long its stages worked."""
    # A launcher that died after publishing has left none; the build is whole all the same.
    timed = folder.exists(_name(manifest.build, TIMINGS))
    return BuildRow(
        build=manifest.build,
        parent=manifest.parent,
        counts=dict(manifest.counts),
        inputs=inputs_of(manifest),
        fitted_on=manifest.fit.build,
        drift=manifest.fit.drift,
        seconds=_json(folder, manifest.build, TIMINGS) if timed else None,
    )


def table_health(name: str, dataset: Any) -> TableHealth:
    """Statistics that Lance keeps of an open dataset; no row is read."""
    stats, statistics = dataset.stats.dataset_stats(SMALL_FRAGMENT), dataset.index_statistics
    return TableHealth(
        name=name,
        rows=dataset.count_rows(),
        bytes=sum(
            file.file_size_bytes for part in dataset.get_fragments() for file in part.data_files()
        ),
        fragments=stats["num_fragments"],
        small_fragments=stats["num_small_files"],
        version=dataset.version,
        versions=len(dataset.versions()),
        tagged=tuple(sorted(tag["version"] for tag in dataset.tags.list().values())),
        unindexed={
            ", ".join(index["fields"]): statistics(index["name"])["num_unindexed_rows"]
            for index in dataset.list_indices()
        },
    )


def _name(build: str, name: str) -> str:
    return f"{build_folder(build)}/{name}"


def _read(folder: Folder, build: str, name: str) -> bytes:
    try:
        return folder.read(_name(build, name))
    except FileNotFoundError as error:
        raise Damaged(f"{folder.uri}/{_name(build, name)} is missing") from error


def _json(folder: Folder, build: str, name: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(_read(folder, build, name))
    except ValueError as error:
        raise Damaged(f"{folder.uri}/{_name(build, name)}: {error}") from error
    return data
