"""The Lance tables of a build: one commit a table, indexed, then pinned by a tag.

Lance checks that versions follow each other, on a local disk as on an object store; that a commit is
ours, with our rows and no other's between, is checked here.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import pyarrow as pa

from stillroom.errors import NotPublished
from stillroom.schemas.arrow import DOCUMENTS, ENTRIES, LINKS, keys_schema, links_to_table
from stillroom.schemas.manifest import TABLES, Manifest
from stillroom.store import table_uri
from stillroom.transforms import faults
from stillroom.transforms.links import near_duplicate_links
from stillroom.transforms.near_duplicates import PERMUTATIONS
from stillroom.transforms.parts import Fragment, write_fragment
from stillroom.transforms.vector_index import CROSS_OVER, index_vectors

COMMIT_TRIES = 20
PAUSE = 0.1  # seconds that a commit which was overtaken waits at most, longer each time
# How Lance says that another writer came between; "was not found" while that one creates the table.
OVERTAKEN = ("conflict", "already exists", "incompatible", "was not found")
INDEXED = {"documents": "id", "entries": "id"}


@dataclass(frozen=True, slots=True)
class Commits:
    """What the commits of one build share: `attempt` tells two runs of it apart in their properties,
    `near_duplicate` is the threshold of the links that are found here, `centroids` float32 [n, dims] are
    the parent's, for the index of vectors (None: fitted)."""

    kb: str
    build: str
    attempt: str
    dims: int
    near_duplicate: float
    centroids: np.ndarray | None = None


def tag_of(build: str) -> str:
    """The Lance tag that pins a build's version of a table."""
    return f"build-{build}"


def commit_tables(commits: Commits, fragments: Sequence[Fragment]) -> dict[str, Any]:
    """The four tables with these rows, committed, indexed and tagged, as open Lance datasets by name.
    Raises NotPublished where other writers never leave a gap."""
    schemas = {
        "documents": DOCUMENTS,
        "entries": ENTRIES,
        "keys": keys_schema(commits.dims),
        "links": LINKS,
    }
    datasets: dict[str, Any] = {}
    for name in TABLES:
        some = [fragment for fragment in fragments if fragment.table == name]
        if name == "links":  # last: near-duplicates are found among all entries
            some.append(_near_duplicates(commits, datasets["entries"]))
        faults.point(f"before-commit-{name}")
        dataset = _commit(commits, name, schemas[name], some)
        faults.point(f"after-commit-{name}")
        _tag(dataset, commits.build, dataset.version)
        faults.point(f"after-tag-{name}")
        datasets[name] = dataset
    return datasets


def pin_tables(kb: str, manifest: Manifest) -> None:
    """Tags as the manifest has them: of two publishes at once, one has written it, and both have
    tagged a version of their own."""
    for name, table in manifest.tables.items():
        _tag(lance.dataset(table_uri(kb, name)), manifest.build, table.version)


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


def _near_duplicates(commits: Commits, entries: Any) -> Fragment:
    table = entries.to_table(columns=["id", "digest", "signature"], filter="signature IS NOT NULL")
    table = table.sort_by("id")
    raw = b"".join(table.column("signature").to_pylist())
    signatures = np.frombuffer(raw, np.uint32).reshape(-1, PERMUTATIONS)
    links = near_duplicate_links(
        table.column("id").to_pylist(),
        table.column("digest").to_pylist(),
        signatures,
        commits.near_duplicate,
    )
    return write_fragment(commits.kb, "links", links_to_table(links))


def _commit(commits: Commits, name: str, schema: pa.Schema, fragments: Sequence[Fragment]) -> Any:
    """One commit that replaces the table's rows, then its index; tried again as a whole where another
    writer came between. The rows do not depend on the version below, so a repeated commit doubles
    nothing."""
    uri = table_uri(commits.kb, name)
    files = [lance.fragment.FragmentMetadata.from_json(made) for f in fragments for made in f.files]
    rows = sum(fragment.rows for fragment in fragments)
    operation = lance.LanceOperation.Overwrite(schema, files)
    properties = {"build": commits.build, "attempt": commits.attempt}
    indexed = name in INDEXED and rows > 0
    approximate = name == "keys" and rows >= CROSS_OVER
    for tries in range(COMMIT_TRIES):
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
            if approximate:
                index_vectors(dataset, commits.centroids)
        except (OSError, ValueError) as error:  # a CommitConflictError is one of these
            if all(word not in str(error).lower() for word in OVERTAKEN):
                raise
            # Writers that start again at once would overtake each other for ever.
            time.sleep(random.uniform(0, PAUSE * (tries + 1)))
            continue
        if dataset.version == below + 1 + indexed + approximate and dataset.count_rows() == rows:
            return dataset
    raise NotPublished(f"{uri}: {COMMIT_TRIES} commits were overtaken by another writer's")


def _latest_version(uri: str) -> int:
    try:
        return int(lance.dataset(uri).version)
    except (ValueError, FileNotFoundError):
        return 0
