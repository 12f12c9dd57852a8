"""What each form of the vectors would keep of this base's own quality: measured, not promised.

The pseudo-queries of the fusion weight are asked once more, over a sample of the stored vectors: at
which rank does the rest of a query's own entry come, with vectors whole and in each other form?
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from stillroom.dense import hamming, sign_bits
from stillroom.elastic import bytes_per_vector, quantise, rotate, scale_of
from stillroom.folders import open_folder
from stillroom.schemas.plan import DTYPES, SearchPlan
from stillroom.store import Build, table_uri
from stillroom.transforms.calibrate import Asked
from stillroom.transforms.pca import axes_of, basis_of, moments_of
from stillroom.transforms.sampling import smallest

SAMPLE = 20_000  # vectors, those with the smallest hash of their key's id
DIMS = (256, 128, 64, 32)
DEPTH = 10  # of nDCG and recall
PROBED = 100  # stored vectors that an index is asked for
TIE = 1e-6  # two products this close are equal

Point = Mapping[str, float]


def measure_forms(build: Build, keys: Any, asked: Asked) -> dict[str, Point]:
    """By form ("128/int8"): `retention`, its nDCG@10 as a share of that of whole vectors, and `bytes` of
    one vector. `keys` is the build's open Lance dataset, which has the vectors whole. Empty where
    there is nothing to ask or to find."""
    rows = sampled_rows(build)
    if not len(rows) or not asked.queries:
        return {}
    vectors = whole_vectors(build, keys, rows)
    group = build.group[build.key_entry[rows]]
    own = build.group[[query.row for query in asked.queries]]
    others = group[None, :] != own[:, None]
    usable = np.isfinite(asked.rest).all(axis=1) & np.isfinite(asked.vectors).all(axis=1)
    queries, rest, others = asked.vectors[usable], asked.rest[usable], others[usable]
    found = {
        name: float(gains.mean()) if len(gains) else 0.0
        for name, gains in forms(vectors, queries, rest, others, build.manifest.plan)
    }
    whole = found[f"{vectors.shape[1]}/f32"]
    if not whole:
        return {}
    return {
        name: {
            "retention": round(value / whole, 4),
            "bytes": bytes_per_vector(int(name.split("/")[0]), name.split("/")[1]),
        }
        for name, value in found.items()
    }


def forms(
    vectors: np.ndarray, queries: np.ndarray, rest: np.ndarray, others: np.ndarray, plan: SearchPlan
) -> Iterator[tuple[str, np.ndarray]]:
    """(form, float64 [queries] nDCG@10) with float32 `vectors` [n, dims], `queries` and what is to be
    found, `rest` [queries, dims]; `others` bool [queries, n]: vectors that may stand before it."""
    full = vectors.shape[1]
    axes = axes_of(moments_of(vectors))
    for dims in (full, *(d for d in DIMS if d < full)):
        basis = basis_of(axes, dims) if dims < full else None
        stored, asked, own = (
            (x if basis is None else rotate(x, basis)) for x in (vectors, queries, rest)
        )
        for dtype in DTYPES:
            yield f"{dims}/{dtype}", _gains(stored, asked, own, others, dtype, plan.rescore)


def _gains(
    stored: np.ndarray, asked: np.ndarray, own: np.ndarray, others: np.ndarray, dtype: str,
    proposed: int,
) -> np.ndarray:  # fmt: skip
    """float64 [queries]: nDCG@10 of one right answer a query, its `own` row. With `bit` only as many
    rows as are `proposed` by their signs count."""
    bits, own_bits, query_bits = sign_bits(stored), sign_bits(own), sign_bits(asked)
    if dtype != "f32":
        scale = scale_of(np.maximum(np.abs(stored).max(axis=0), np.abs(own).max(axis=0)))
        stored, own = (quantise(x, scale).astype(np.float32) for x in (stored, own))
        asked = asked * scale
    gains = np.zeros(len(asked))
    scores, reached = stored @ asked.T, (own * asked).sum(axis=1)
    for n in range(len(asked)):
        before = others[n] & (scores[:, n] > reached[n])
        if dtype == "bit":
            distance = hamming(bits, query_bits[:, n])
            near = distance < hamming(own_bits[:, n : n + 1], query_bits[:, n])[0]
            if (others[n] & near).sum() >= proposed:
                continue  # its own row is not proposed
            cut = (
                np.partition(distance, proposed - 1)[proposed - 1] if proposed < len(near) else 999
            )
            before &= distance <= cut
        rank = 1 + int(before.sum())
        gains[n] = 1 / np.log2(1 + rank) if rank <= DEPTH else 0.0
    return gains


def measure_index(build: Build, keys: Any) -> dict[str, float]:
    """`recall`@10 of the build's vector index against all products, over PROBED stored vectors, and the
    `bytes` of the index."""
    rows = sampled_rows(build, PROBED)
    shares = []
    for query in whole_vectors(build, keys, rows):
        best = build.dense.exact(query, DEPTH)[1]
        found = build.dense.nearest(query, build.manifest.plan.depth)[1][:DEPTH]
        shares.append(float((found >= best[-1] - TIE).sum()) / len(best))
    (index,) = (one for one in keys.list_indices() if one["fields"] == ["vector"])
    folder = open_folder(f"{table_uri(build.kb, 'keys')}/_indices/{index['uuid']}")
    size = sum(file.size for file in folder.files())
    return {"recall": round(float(np.mean(shares)), 4), "bytes": size}


def sampled_rows(build: Build, count: int = SAMPLE) -> np.ndarray:
    """int64: rows of the `count` vectors with the smallest hash of their key's id, ascending."""
    return np.sort(
        np.array(smallest("vector", build.keys.column("id").to_pylist(), count), np.int64)
    )


def whole_vectors(build: Build, keys: Any, rows: np.ndarray) -> np.ndarray:
    """float32 [rows, dims]: vectors as the encoder gave them, of these rows of the build."""
    wanted = build.keys.column("id").take(pa.array(rows))
    ids = keys.to_table(columns=["id"], scan_in_order=True).column("id").combine_chunks()
    places = pa.compute.index_in(wanted.combine_chunks(), value_set=ids)
    column = keys.take(places.to_pylist(), columns=["vector"]).column("vector").combine_chunks()
    made: np.ndarray = column.flatten().to_numpy().reshape(len(rows), -1)
    return made
