"""Looking after builds: what differs between two, whether one is whole, and removing old ones."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import tantivy

from stillroom import store
from stillroom.errors import StillroomError
from stillroom.schemas.lexical import ROW
from stillroom.schemas.manifest import TABLES, DerivedFiles, Manifest
from stillroom.store import Build, current_build, read_manifest
from stillroom.transforms.parts import ParentBuild
from stillroom.transforms.publish import INDEXED, lexical_fields, tag_of
from stillroom.transforms.serving import DERIVED_PREFIX, Sorted, checksums, write_derived
from stillroom.transforms.write import check_spans
from stillroom.versions import build_lock, is_held, list_builds

# What Lance, Arrow and numpy raise for files that are not what they should be.
UNREADABLE = (ValueError, KeyError, OSError, RuntimeError, IndexError)
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


def diff_builds(root: Path, first: str, second: str) -> Difference:
    """Documents by source key, entries by number: added, changed and removed."""
    a, b = (
        _rows(root, name, "documents", ("digest", "metadata_digest")) for name in (first, second)
    )
    names = {
        **_rows(root, first, "documents", ("source", "source_key")),
        **_rows(root, second, "documents", ("source", "source_key")),
    }
    x, y = (
        _rows(root, name, "entries", ("digest", "facets", "path", "title"))
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


def collect_garbage(root: Path, keep: int) -> list[str]:
    """Remove all but the `keep` newest builds, the live one and those that readers hold; then whatever
    no kept build refers to. The ids of the removed builds. Raises Locked.

    The manifest goes first: what a crash leaves behind belongs to no build, and goes the next time.
    """
    removed: list[str] = []
    with build_lock(root):
        made = list_builds(root)
        spared = {current_build(root), *(m.build for m in made[max(0, len(made) - keep) :])}
        for manifest in made:
            if manifest.build not in spared and not is_held(root, manifest.build):
                folder = store.manifest_path(root, manifest.build).parent
                (folder / "manifest.json").unlink()
                shutil.rmtree(folder)
                removed.append(manifest.build)
        kept = list_builds(root)
        _remove_tables(root, kept)
        for name, digests in (
            ("serve", {m.serve.digest for m in kept}),
            ("lexical", {m.lexical.digest for m in kept}),
            ("builds", {m.build for m in kept}),
        ):
            for folder in (root / name).glob("*"):
                if folder.name not in digests:
                    shutil.rmtree(folder)
        for folder in root.glob(f"{DERIVED_PREFIX}*"):
            shutil.rmtree(folder)
    return removed


def _remove_tables(root: Path, kept: list[Manifest]) -> None:
    tags = {tag_of(manifest.build) for manifest in kept}
    for name in TABLES:
        path = root / f"{name}.lance"
        if not path.exists():
            continue
        dataset = lance.dataset(str(path))
        for tag in dataset.tags.list():
            if tag not in tags:
                dataset.tags.delete(tag)
        # No build is in flight while the lock is held, so files of no version are nobody's.
        lance.dataset(str(path)).cleanup_old_versions(
            older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
        )


def verify_build(
    root: Path, name: str = "", progress: Callable[[str], None] = lambda step: None
) -> list[str]:
    """What is wrong with a build (the live one by default), in words; an empty list if nothing is."""
    manifest = read_manifest(root, name or current_build(root))
    problems: list[str] = []
    for check in (_files, _tables, _parts, _serving, _postings, _counts):
        progress(check.__name__.strip("_"))
        try:
            problems.extend(check(root, manifest))
        except (*UNREADABLE, StillroomError) as error:  # a damaged base: that is an answer too
            problems.append(f"{check.__name__.strip('_')}: {type(error).__name__}: {error}")
    return problems


def _files(root: Path, manifest: Manifest) -> Iterator[str]:
    for folder, files in (("serve", manifest.serve), ("lexical", manifest.lexical)):
        yield from _damaged(root / folder / files.digest, files)


def _damaged(folder: Path, files: DerivedFiles) -> Iterator[str]:
    found = checksums(folder)
    for name in sorted(set(files.files) | set(found)):
        if name not in found:
            yield f"{folder / name} is missing"
        elif name not in files.files:
            yield f"{folder / name} belongs to no build"
        elif tuple(files.files[name]) != found[name]:
            yield f"{folder / name} is not what its checksum says"


def _tables(root: Path, manifest: Manifest) -> Iterator[str]:
    datasets = {name: _dataset(root, manifest, name) for name in TABLES}
    for name, dataset in datasets.items():
        table = manifest.tables[name]
        if dataset.count_rows() != table.rows:
            yield f"{name} has {dataset.count_rows()} rows, the manifest says {table.rows}"
        if dataset.tags.list().get(tag_of(manifest.build), {}).get("version") != table.version:
            yield f"{name} has no tag {tag_of(manifest.build)} at version {table.version}"
        if name in INDEXED:
            for index in dataset.list_indices():
                rows = dataset.index_statistics(index["name"])["num_unindexed_rows"]
                if rows:
                    yield f"{name} has {rows} rows that its index {index['name']} misses"


def _parts(root: Path, manifest: Manifest) -> Iterator[str]:
    parent = ParentBuild(str(root), manifest.build)
    for part in parent.parts:
        try:
            check_spans(parent.read(part, "documents"), parent.read(part, "entries"))
        except ValueError as error:
            yield str(error)
    for table in ("documents", "entries", "keys"):
        rows = sum(part.rows[table] for part in parent.parts.values())
        if rows != manifest.tables[table].rows:
            yield f"the parts have {rows} rows of {table}, the table {manifest.tables[table].rows}"


def _serving(root: Path, manifest: Manifest) -> Iterator[str]:
    """Everything derived, made once more from the tables: entry by entry, vector by vector, link by
    link it must be what is served."""
    datasets = {name: _dataset(root, manifest, name) for name in TABLES}
    with tempfile.TemporaryDirectory(prefix="stillroom-verify-") as scratch:
        fields = lexical_fields(manifest.plan)
        made = write_derived(Path(scratch), datasets, fields, manifest.encoder.dims)
    for name, content in made.contents.items():
        if content != manifest.tables[name].content:
            yield f"the rows of {name} are not what was published"
    for file, sum_ in made.serve.files.items():
        if manifest.serve.files.get(file) != sum_:
            yield f"serve/{manifest.serve.digest}/{file} is not what the tables say"


def _postings(root: Path, manifest: Manifest) -> Iterator[str]:
    """The lexical index against the entries' own terms."""
    build = Build(root, manifest)
    schema, searcher = build.searcher
    if searcher.num_docs != build.entries.num_rows:
        yield f"the lexical index has {searcher.num_docs} entries, not {build.entries.num_rows}"
        return
    entries = Sorted(_dataset(root, manifest, "entries"))
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


def _counts(root: Path, manifest: Manifest) -> Iterator[str]:
    accounting = manifest.accounting
    documents = accounting.published + accounting.unchanged + accounting.stale
    if documents != manifest.tables["documents"].rows:
        yield (
            f"{documents} documents were published, unchanged or stale, but "
            f"{manifest.tables['documents'].rows} are there"
        )


def _rows(
    root: Path, build: str, table: str, columns: tuple[str, ...]
) -> dict[str, tuple[Any, ...]]:
    made = _dataset(root, read_manifest(root, build), table).to_table(columns=["id", *columns])
    values = (made.column(name).to_pylist() for name in columns)
    rows = zip(made.column("id").to_pylist(), zip(*values, strict=True), strict=True)
    return {one: tuple(str(v) for v in row) for one, row in rows}


def _dataset(root: Path, manifest: Manifest, name: str) -> Any:
    return lance.dataset(str(root / f"{name}.lance"), version=manifest.tables[name].version)
