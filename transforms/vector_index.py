"""The IVF_RQ index of a build's vectors, which Lance keeps beside the keys table (RaBitQ,
arXiv:2405.12497; `query/approximate.py` reads it).

Left alone, Lance draws its training sample, first centroids and rotation at random, and no two indexes
are alike. Here the centroids come from the vectors with the smallest ids, which are digests, and the
rotation from a fixed text: the same vectors give the same proposals. Centroids are STICKY: carried from the
parent build while their number still suits, which saves their fit, or fitted anew with `--refit`.
"""

import hashlib
import json
from typing import Any

import lance
import numpy as np
from lance.lance import indices

from stillroom.schemas.manifest import Manifest
from stillroom.store import table_uri
from stillroom.transforms.centroids import centroids_of

# Vectors from which the index is quicker than the scan. p50 of one query in one thread, 1000 proposed:
# at 100,000 the scan takes 3.3 ms and the index 7.2, at 200,000 5.7 and 6.8, at 1,000,000 22.9 and 7.4
# (`tests/benchmarks/scale.py`); the crossing itself is interpolated.
CROSS_OVER = 250_000
SAMPLED = 64  # vectors for each centroid
SUITS = 2.0  # factor by which the number of carried centroids may differ from what would be fitted
COLUMN = "vector"


def index_vectors(keys: Any, centroids: np.ndarray | None = None) -> None:
    """IVF_RQ over the vectors of an open keys dataset, which moves to the next version. `centroids`
    float32 [partitions, dims] are used where they suit the number of vectors, else fitted."""
    count = keys.count_rows(f"{COLUMN} IS NOT NULL")
    parts = max(1, int(count**0.5))
    if centroids is None or not 1 / SUITS <= len(centroids) / parts <= SUITS:
        centroids = centroids_of(_sample(keys, SAMPLED * parts), parts)
    keys.create_index(
        COLUMN, "IVF_RQ", metric="dot", num_partitions=len(centroids), num_bits=1,
        ivf_centroids=centroids, rabitq_model=_rotation(centroids.shape[1]),
    )  # fmt: skip


def has_vector_index(keys: Any) -> bool:
    return any(index["fields"] == [COLUMN] for index in keys.list_indices())


def centroids_in(kb: str, manifest: Manifest) -> np.ndarray | None:
    """float32 [partitions, dims]: what the index of a build was made with; None where it has none."""
    if manifest.plan.tier == "scan":
        return None
    uri = table_uri(kb, "keys")
    keys = lance.dataset(uri, version=manifest.tables["keys"].version)
    (name,) = (index["name"] for index in keys.list_indices() if index["fields"] == [COLUMN])
    return np.array(keys.stats.index_stats(name)["indices"][0]["centroids"], np.float32)


def _sample(keys: Any, count: int) -> np.ndarray:
    """float32 [count, dims]: the vectors of the keys with the smallest ids, in that order."""
    table = keys.to_table(columns=["id", "dense"], scan_in_order=True)
    rows = np.flatnonzero(table.column("dense").to_numpy())
    order = np.argsort(np.array(table.column("id").take(rows).to_pylist(), "S32"), kind="stable")
    column = keys.take(rows[order[:count]].tolist(), columns=[COLUMN]).column(COLUMN)
    made: np.ndarray = column.combine_chunks().flatten().to_numpy()
    return made.reshape(-1, column.type.list_size)


def _rotation(dims: int) -> str:
    """Lance's description of a rotation, its signs drawn from a fixed text."""
    model = json.loads(indices.build_rq_model(dims, 1))
    signs = hashlib.shake_256(b"stillroom vector index").digest(len(model["fast_rotation_signs"]))
    return json.dumps({**model, "fast_rotation_signs": list(signs)})
