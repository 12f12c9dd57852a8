"""Looking after builds: what differs between two, whether one is whole, and removing old ones."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any

import lance
import tantivy

from stillroom.errors import StillroomError
from stillroom.folders import SCRATCH, Folder, PathLike, open_folder
from stillroom.schemas.lexical import ROW
from stillroom.schemas.manifest import TABLES, DerivedFiles, Manifest
from stillroom.store import (
    Build,
    build_folder,
    current_build,
    manifest_name,
    read_manifest,
    table_uri,
)
from stillroom.transforms.parts import ParentBuild
from stillroom.transforms.pca import table_axes
from stillroom.transforms.publish import basis_for, lexical_fields
from stillroom.transforms.serving import Sorted, write_derived
from stillroom.transforms.staging import STAGING
from stillroom.transforms.tables import tag_of
from stillroom.transforms.write import check_spans
from stillroom.versions import list_builds

# What Lance, Arrow and numpy raise for files that are not what they should be.
UNREADABLE = (ValueError, KeyError, OSError, RuntimeError, IndexError)
STORE_AGE = timedelta(days=7)  # how long a reader or a build on an object store may take
MAX_TERMS = 50_000  # terms whose postings `verify` compares, those with the smallest hash


@dataclass(frozen=True, slots=True)
class Difference:
    """What changed from one build to another: names of documents, and counts of entries."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    entries_added: int
    entries_changed: int
    entries_removed: int


def diff_builds(kb: PathLike, first: str, second: str) -> Difference:
    """Documents by source key, entries by number: added, changed and removed."""
    a, b = (_rows(kb, name, "documents", ("digest", "metadata_digest")) for name in (first, second))
    names = {
        **_rows(kb, first, "documents", ("source", "source_key")),
        **_rows(kb, second, "documents", ("source", "source_key")),
    }
    x, y = (
        _rows(kb, name, "entries", ("digest", "facets", "path", "title"))
        for name in (first, second)
    )

    def named(ids: set[str]) -> tuple[str, ...]:
        return tuple(sorted(": ".join(names[one]) for one in ids))

    return Difference(
        added=named(b.keys() - a.keys()),
        changed=named({one for one in a.keys() & b.keys() if a[one] != b[one]}),
        removed=named(a.keys() - b.keys()),
        entries_added=len(y.keys() - x.keys()),
        entries_changed=sum(x[one] != y[one] for one in x.keys() & y.keys()),
        entries_removed=len(x.keys() - y.keys()),
    )


def collect_garbage(kb: PathLike, keep: int, min_age: timedelta | None = None) -> list[str]:
    """Remove all but the `keep` newest builds, the live one and those that readers hold; then whatever
    no kept build refers to. The ids of the removed builds. Raises Locked.

    Nothing younger than `min_age` is removed. Where there are locks it is 0; on an object store
    STORE_AGE, since nobody can tell there what a reader or another build still needs.

    The manifest goes first: what a crash leaves behind belongs to no build, and goes the next time.
    """
    folder = open_folder(kb)
    age = min_age if min_age is not None else timedelta(0) if folder.local else STORE_AGE
    removed: list[str] = []
    with folder.lock():
        made = list_builds(kb)
        spared = {current_build(kb), *(m.build for m in made[max(0, len(made) - keep) :])}
        written = {file.name: file.age for file in folder.files("builds")}
        # A build may be read since its successor went live, not only since it was made itself.
        for manifest, after in zip(made, [*made[1:], None], strict=True):
            last = (after or manifest).build
            if (
                manifest.build not in spared
                and written[manifest_name(last)] >= age.total_seconds()
                and not folder.is_held(manifest_name(manifest.build))
            ):
                folder.remove(manifest_name(manifest.build))
                folder.remove(build_folder(manifest.build))
                removed.append(manifest.build)
        kept = list_builds(kb)
        _remove_tables(kb, kept, age)
        _remove_folders(folder, kept, age)
    return removed


def _remove_folders(folder: Folder, kept: list[Manifest], age: timedelta) -> None:
    """What no kept build names, and what killed builds left."""
    named = {
        *(f"serve/{m.serve.digest}" for m in kept),
        *(f"lexical/{m.lexical.digest}" for m in kept),
        *(f"encoders/{m.light.files.digest}" for m in kept if m.light is not None),
        *(build_folder(m.build) for m in kept),
    }
    places = [
        *(f"{top}/{name}" for top in ("serve", "lexical", "encoders", "builds", STAGING)
          for name in folder.folders(top)),
        *(name for name in folder.folders("") if name.startswith(SCRATCH)),
    ]  # fmt: skip
    files = folder.files()
    for place in places:
        if place not in named:
            inside = (file.age for file in files if file.name.startswith(f"{place}/"))
            if min(inside, default=inf) >= age.total_seconds():
                folder.remove(place)


def _remove_tables(kb: PathLike, kept: list[Manifest], age: timedelta) -> None:
    tags = {tag_of(manifest.build) for manifest in kept}
    for name in TABLES:
        try:
            dataset = lance.dataset(table_uri(kb, name))
        except (ValueError, FileNotFoundError):  # no build got so far
            continue
        for tag, known in dataset.tags.list().items():
            made = known["created_at"] or datetime.min.replace(tzinfo=UTC)
            if tag not in tags and datetime.now(UTC) - made >= age:
                dataset.tags.delete(tag)
        # Under the lock no build is in flight, and files of no version are nobody's; without one,
        # Lance keeps them for a week.
        lance.dataset(table_uri(kb, name)).cleanup_old_versions(
            older_than=age, delete_unverified=not age, error_if_tagged_old_versions=False
        )


def verify_build(
    kb: PathLike, name: str = "", progress: Callable[[str], None] = lambda step: None
) -> list[str]:
    """What is wrong with a build (the live one by default), in words; an empty list if nothing is."""
    manifest = read_manifest(kb, name or current_build(kb))
    problems: list[str] = []
    for check in (_files, _tables, _parts, _serving, _postings, _counts):
        progress(check.__name__.strip("_"))
        try:
            problems.extend(check(kb, manifest))
        except (*UNREADABLE, StillroomError) as error:  # a damaged base: that is an answer too
            problems.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
    return problems


def _files(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    folder = open_folder(kb)
    light = [("encoders", manifest.light.files)] if manifest.light is not None else []
    for place, files in (("serve", manifest.serve), ("lexical", manifest.lexical), *light):
        yield from _damaged(folder, f"{place}/{files.digest}", files)


def _damaged(folder: Folder, place: str, files: DerivedFiles) -> Iterator[str]:
    found = {file.name.removeprefix(f"{place}/") for file in folder.files(place)}
    for name in sorted(set(files.files) | found):
        if name not in found:
            yield f"{folder.uri}/{place}/{name} is missing"
        elif name not in files.files:
            yield f"{folder.uri}/{place}/{name} belongs to no build"
        elif folder.checksum(f"{place}/{name}") != files.files[name][1]:
            yield f"{folder.uri}/{place}/{name} is not what its checksum says"


def _tables(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    datasets = {name: _dataset(kb, manifest, name) for name in TABLES}
    for name, dataset in datasets.items():
        table = manifest.tables[name]
        if dataset.count_rows() != table.rows:
            yield f"{name} has {dataset.count_rows()} rows, the manifest says {table.rows}"
        if dataset.tags.list().get(tag_of(manifest.build), {}).get("version") != table.version:
            yield f"{name} has no tag {tag_of(manifest.build)} at version {table.version}"
        for index in dataset.list_indices():
            rows = dataset.index_statistics(index["name"])["num_unindexed_rows"]
            if rows:
                yield f"{name} has {rows} rows that its index {index['name']} misses"


def _parts(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    parent = ParentBuild(str(kb), manifest.build)
    for part in parent.parts:
        try:
            check_spans(parent.read(part, "documents"), parent.read(part, "entries"))
        except ValueError as error:
            yield str(error)
    for table in ("documents", "entries", "keys"):
        rows = sum(part.rows[table] for part in parent.parts.values())
        if rows != manifest.tables[table].rows:
            yield f"the parts have {rows} rows of {table}, the table {manifest.tables[table].rows}"


def _serving(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    """Everything derived, made once more from the tables: entry by entry, vector by vector, link by
    link it must be what is served."""
    datasets = {name: _dataset(kb, manifest, name) for name in TABLES}
    with tempfile.TemporaryDirectory(prefix="stillroom-verify-") as scratch:
        plan, dims = manifest.plan, manifest.encoder.dims
        axes = table_axes(datasets["keys"], dims) if plan.dims else None
        basis = basis_for(plan, axes)
        fields = lexical_fields(plan)
        made = write_derived(Path(scratch), datasets, fields, dims, plan.dtype, basis, plan.tier)
    for name, content in made.contents.items():
        if content != manifest.tables[name].content:
            yield f"the rows of {name} are not what was published"
    for file, sum_ in made.serve.files.items():
        if manifest.serve.files.get(file) != sum_:
            yield f"serve/{manifest.serve.digest}/{file} is not what the tables say"


def _postings(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    """The lexical index against the entries' own terms."""
    build = Build(kb, manifest)
    schema, searcher = build.searcher
    if searcher.num_docs != build.entries.num_rows:
        yield f"the lexical index has {searcher.num_docs} entries, not {build.entries.num_rows}"
        return
    entries = Sorted(_dataset(kb, manifest, "entries"))
    expected: dict[tuple[str, str], list[int]] = {}
    for start, table in entries.batches(["terms"]):
        for row, terms in enumerate(table.column("terms").to_pylist(), start):
            for item in terms:
                for term in set(item["terms"].split(" ")):
                    expected.setdefault((item["field"], term), []).append(row)
    searched = set(lexical_fields(manifest.plan))
    pairs = sorted(pair for pair in expected if pair[0] in searched)
    for field, term in pairs[:: max(1, len(pairs) // MAX_TERMS)]:
        rows = expected[field, term]
        query = tantivy.Query.term_query(schema, field, term, "basic")
        hits = searcher.search(query, len(rows) + 1, count=False).hits
        found = searcher.fast_field_values(ROW, [address for _, address in hits])
        if sorted(map(int, found)) != rows:  # type: ignore[arg-type]
            yield f"the term {term!r} of field {field} leads to {len(found)} entries, not {len(rows)}"


def _counts(kb: PathLike, manifest: Manifest) -> Iterator[str]:
    accounting = manifest.accounting
    documents = accounting.published + accounting.unchanged + accounting.stale
    if documents != manifest.tables["documents"].rows:
        yield (
            f"{documents} documents were published, unchanged or stale, but "
            f"{manifest.tables['documents'].rows} are there"
        )


def _rows(
    kb: PathLike, build: str, table: str, columns: tuple[str, ...]
) -> dict[str, tuple[Any, ...]]:
    made = _dataset(kb, read_manifest(kb, build), table).to_table(columns=["id", *columns])
    values = (made.column(name).to_pylist() for name in columns)
    rows = zip(made.column("id").to_pylist(), zip(*values, strict=True), strict=True)
    return {one: tuple(str(v) for v in row) for one, row in rows}


def _dataset(kb: PathLike, manifest: Manifest, name: str) -> Any:
    return lance.dataset(table_uri(kb, name), version=manifest.tables[name].version)
