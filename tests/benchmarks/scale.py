"""The dense leg at 100,000 and 1,000,000 vectors: each form's files and Lance's IVF_RQ, side by side.

Vectors are those of SciFact's sentences with noise, as unit rows; queries are stored vectors with
half the noise. Build seconds, recall@10 against all products, p50 and p99 of one query, bytes of a
vector, anonymous memory while building. One thread, as far as numpy goes.
"""

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
import lancedb
import numpy as np
import pyarrow as pa

from stillroom import store
from stillroom.approximate import Proposals
from stillroom.elastic import Dense
from stillroom.models import load_encoder
from stillroom.schemas.ids import digest
from stillroom.schemas.plan import DTYPES
from stillroom.transforms.pca import axes_of, basis_of, moments_of
from stillroom.transforms.vector_index import index_vectors
from stillroom.transforms.vectors import VectorWriter
from tests.benchmarks.common import PeakMemory, folder_bytes, sentences

SIZES = (100_000, 1_000_000)
SEEDS = 4_000  # sentences that are encoded
NOISE = 0.03  # standard deviation of a component; a real one has .05
ASKED = 100
COUNT = 1000  # vectors that the sign bits or the index propose: `SearchPlan.depth`
PROBES = (8, 20, 40, 80)  # partitions that a query reads


def main(data: Path) -> None:
    texts = list(itertools.islice(sentences(data), SEEDS))
    seeds = load_encoder("minilm").encode_documents(texts)
    for size in SIZES:
        with tempfile.TemporaryDirectory() as scratch:
            compare(seeds, size, Path(scratch))


def noisy(seeds: np.ndarray, rows: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """float32 unit rows near these seeds."""
    chance = np.random.default_rng(seed)
    made = seeds[rows] + noise * chance.standard_normal((len(rows), seeds.shape[1]), np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def compare(seeds: np.ndarray, size: int, scratch: Path) -> None:
    dims = seeds.shape[1]
    vectors = np.lib.format.open_memmap(
        scratch / "all.npy", mode="w+", dtype=np.float32, shape=(size, dims)
    )
    for start in range(0, size, 50_000):
        rows = np.random.default_rng(start).integers(0, len(seeds), min(50_000, size - start))
        vectors[start : start + len(rows)] = noisy(seeds, rows, NOISE, start)
    chosen = np.random.default_rng(1).choice(size, ASKED, replace=False)
    queries = noisy(vectors, chosen, NOISE / 2, 2)
    exact = [np.argsort(-(vectors @ one), kind="stable")[:10] for one in queries]
    print(f"{size:,} vectors")
    began = time.perf_counter()
    axes = axes_of(moments_of(vectors))
    print(f"  principal axes {time.perf_counter() - began:.1f} s")
    for kept, dtype in itertools.product((dims, 128), DTYPES):
        serve = scratch / f"{kept}-{dtype}" / "serve"
        serve.mkdir(parents=True)
        basis = basis_of(axes, kept) if kept < dims else None
        with PeakMemory() as memory:
            began = time.perf_counter()
            writer = VectorWriter(serve, size, dims, dtype, basis)
            for start in range(0, size, 8192):
                writer.put(start, vectors[start : start + 8192])
            writer.close()
            seconds = time.perf_counter() - began
        dense = opened(serve)
        what = f"{kept}/{dtype}"
        weight = folder_bytes(serve) / size
        measure(
            what, seconds, weight, memory, queries, exact, lambda q, d=dense: d.nearest(q, COUNT)[0]
        )
    lance_index(vectors, queries, exact, scratch / "lance")


def opened(serve: Path) -> Dense:
    names = (store.VECTORS, store.BITS, store.BASIS, store.SCALE)
    parts = (np.load(serve / n, mmap_mode="r") if (serve / n).exists() else None for n in names)
    return Dense(*parts)  # type: ignore[arg-type]


def lance_index(
    vectors: np.ndarray, queries: np.ndarray, exact: list[np.ndarray], folder: Path
) -> None:
    size, dims = vectors.shape

    def batches():
        for start in range(0, size, 50_000):
            some = np.ascontiguousarray(vectors[start : start + 50_000])
            column = pa.FixedSizeListArray.from_arrays(pa.array(some.reshape(-1)), dims)
            rows = range(start, start + len(some))
            ids = [digest("row", str(row)) for row in rows]
            columns = [pa.array(rows), pa.array(ids), pa.array([True] * len(some)), column]
            yield pa.record_batch(columns, schema=schema)

    schema = pa.schema(
        [
            ("row", pa.int64()), ("id", pa.string()), ("dense", pa.bool_()),
            ("vector", pa.list_(pa.float32(), dims)),
        ]
    )  # fmt: skip
    dataset = lance.write_dataset(batches(), str(folder / "keys.lance"), schema=schema)
    plain = folder_bytes(folder)
    with PeakMemory() as memory:
        began = time.perf_counter()
        index_vectors(dataset)
        seconds = time.perf_counter() - began
    weight = (folder_bytes(folder) - plain) / size
    table = lancedb.connect(str(folder)).open_table("keys")
    addresses = dataset.to_table(columns=["row"], with_row_id=True).column("_rowid").to_numpy()
    for probes in PROBES:
        dense = Dense(vectors, propose=Proposals(table, addresses, probes))
        what = f"IVF_RQ {probes}"
        measure(
            what, seconds, weight, memory, queries, exact, lambda q, d=dense: d.nearest(q, COUNT)[0]
        )


def measure(
    what: str, seconds: float, weight: float, memory: PeakMemory, queries: np.ndarray,
    exact: list[np.ndarray], ask: Callable[[np.ndarray], np.ndarray],
) -> None:  # fmt: skip
    for query in queries[:5]:
        ask(query)
    times, shares = [], []
    for query, best in zip(queries, exact, strict=True):
        began = time.perf_counter()
        found = ask(query)
        times.append(1e3 * (time.perf_counter() - began))
        shares.append(len(set(best) & set(found[:10])) / 10)
    print(
        f"  {what:12} build {seconds:6.1f} s  {weight:6.0f} bytes  recall@10 {np.mean(shares):.3f}  "
        f"p50 {np.median(times):6.2f} ms  p99 {np.percentile(times, 99):6.2f} ms  "
        f"memory +{(memory.peak - memory.start) / 1e6:,.0f} MB",
        flush=True,
    )
