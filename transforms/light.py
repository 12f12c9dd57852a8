"""Fitting the light query encoder: a table of token vectors in the space of the documents' vectors.

LightRetriever (arXiv 2505.12260) trains such a table with its language model. Here it has a closed form.
A query is the weighted sum x W of its tokens' rows. W starts as the centred vectors of single tokens
and is corrected by ridge regression on texts whose vectors are known:

    W = W0 + X' (X X' + L)^-1 (Y - X W0)

where a row of X is a text's tokens weighted by inverse document frequency, at unit length. Most texts
cost nothing, since they are pieces of keys and their target is the key's own vector: its first words,
one of its sentences, all of it. Some sentences are encoded by the full model, which is what a query would
be. No query is seen by a fit; the constants below were chosen on the sets of `tests/benchmarks/light.py`. The
more keys take part the better: on SciFact's 10,116, a sample of 1,250 kept 86 % of the dense leg's nDCG@10,
all of them 99 %.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from stillroom.light import SEEN, TABLE, TOKENIZER, WEIGHTS
from stillroom.schemas.ids import digest
from stillroom.store import Build
from stillroom.tokens import TokenCounter
from stillroom.transforms.retention import whole_vectors
from stillroom.transforms.sampling import smallest
from stillroom.transforms.sentences import sentence_spans

SAMPLE = 20_000  # keys, those with the smallest hash
ENCODED = 2_000  # of them, how many have a sentence encoded by the full model
WHOLE = 1_000  # of them, how many take part as a whole: what helps small corpora
OPENING_WORDS = 16
MIN_KEYS = 64  # under it there is too little to fit on, and to measure with
RIDGE = 3.0
TOLERANCE = 1e-3  # of the residual, relative to the start: well under what float16 rounds away
MAX_STEPS = 100

Encode = Callable[[list[str]], np.ndarray]


@dataclass(frozen=True, slots=True)
class LightTable:
    """What is fitted: float32 [vocabulary, dims], float32 [vocabulary] and bool [vocabulary]."""

    table: np.ndarray
    weights: np.ndarray
    seen: np.ndarray


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts with the vectors that they should have. `owners` are the entry rows they come from."""

    texts: tuple[str, ...]
    targets: np.ndarray  # float32 [texts, dims]
    owners: np.ndarray  # int64 [texts]

    def __add__(self, other: "Rows") -> "Rows":
        targets = np.concatenate([self.targets, other.targets])
        return Rows(self.texts + other.texts, targets, np.append(self.owners, other.owners))

    def without(self, entries: Collection[int]) -> "Rows":
        """Only texts of other entries."""
        keep = np.flatnonzero(~np.isin(self.owners, list(entries)))
        texts = tuple(self.texts[i] for i in keep.tolist())
        return Rows(texts, self.targets[keep], self.owners[keep])


def sample_rows(build: Build, dataset: Any, encode: Encode) -> Rows:
    """Texts from the sampled keys of a build: pieces whose target is the key's vector, and sentences as
    the full model encodes them. `dataset` is the Lance table of the keys, with whole vectors."""
    sample = np.array(_sample(build), np.int64)
    keys = build.keys.column("text")
    texts = [keys[row].as_py() for row in sample.tolist()]
    owners = build.key_entry[sample].astype(np.int64)
    asked = [(s[1], n) for n, text in enumerate(texts[:ENCODED]) if len(s := _sentences(text)) > 1]
    vectors = encode([text for text, _ in asked])
    good = [n for n in range(len(asked)) if np.isfinite(vectors[n]).all()]
    encoded = Rows(
        tuple(asked[n][0] for n in good), vectors[good], owners[[asked[n][1] for n in good]]
    )
    return pieces(texts, whole_vectors(build, dataset, sample), owners) + encoded


def pieces(texts: Sequence[str], vectors: np.ndarray, owners: np.ndarray) -> Rows:
    """The first words of each text, one of its sentences and (of WHOLE texts) all of it, each with the
    text's vector."""
    made = [(text, n) for n, text in enumerate(texts[:WHOLE])]
    for n, text in enumerate(texts):
        made.append((" ".join(text.split(maxsplit=OPENING_WORDS)[:OPENING_WORDS]), n))
        sentences = _sentences(text)
        if len(sentences) > 1:
            made.append((sentences[0], n))
    at = np.array([n for _, n in made], np.int64)
    return Rows(tuple(text for text, _ in made), vectors[at], owners[at])


def _sentences(text: str) -> list[str]:
    """The sentences of a text, in the order of their hashes."""
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    return sorted(sentences, key=lambda sentence: digest("light", sentence))


def token_weights(build: Build, tokens: TokenCounter) -> tuple[np.ndarray, np.ndarray]:
    """Inverse document frequencies over the sampled keys, float32 [vocabulary], and which tokens
    occur at all, bool [vocabulary]."""
    size = tokens.tokenizer.get_vocab_size()
    frequency = np.zeros(size, np.int64)
    keys = build.keys.column("text")
    rows = _sample(build)
    for start in range(0, len(rows), 256):
        texts = [keys[row].as_py() for row in rows[start : start + 256]]
        for ids in _ids(tokens.tokenizer, texts):
            frequency[np.unique(ids)] += 1
    idf = np.log1p((len(rows) - frequency + 0.5) / (frequency + 0.5))
    seen = frequency > 0
    for token in _unknown(tokens.tokenizer):
        seen[token] = False
    return idf.astype(np.float32), seen


def fit_table(
    vocabulary: np.ndarray, rows: Rows, weights: np.ndarray, tokenizer: Tokenizer
) -> np.ndarray:
    """float32 [vocabulary, dims]: the table, from the vectors of single tokens and the rows.

    Conjugate gradients over all dims at once; every sum has one order, so the bits are the same for any
    number of cores.
    """
    bags = _bags(_ids(tokenizer, rows.texts), weights)
    base = vocabulary - vocabulary.mean(axis=0)
    for token in _unknown(tokenizer):
        base[token] = 0
    start = bags @ base
    # The scale at which single tokens' vectors explain the targets best.
    base *= float((start * rows.targets).sum() / max((start * start).sum(), 1e-12))
    across = bags.T.tocsr()
    table: np.ndarray = base + across @ _solved(bags, across, rows.targets - bags @ base)
    return table


def _solved(bags: Any, across: Any, rest: np.ndarray) -> np.ndarray:
    """float32 [rows, dims]: A of (X X' + RIDGE) A = rest."""
    solved = np.zeros_like(rest)
    residual, direction = rest.copy(), rest.copy()
    norms = (residual * residual).sum(axis=0)
    enough = TOLERANCE**2 * norms.max()
    for _ in range(MAX_STEPS):
        if norms.max() <= enough:
            break
        image = bags @ (across @ direction) + RIDGE * direction
        step = norms / np.maximum((direction * image).sum(axis=0), 1e-30)
        solved += step * direction
        residual -= step * image
        before, norms = norms, (residual * residual).sum(axis=0)
        direction = residual + (norms / np.maximum(before, 1e-30)) * direction
    return solved


def write_light(folder: Path, made: LightTable, tokenizer: Tokenizer) -> None:
    """The files of a light encoder, in a new folder (see `stillroom.light`)."""
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / TOKENIZER), pretty=False)
    np.save(folder / TABLE, made.table.astype(np.float16))
    np.save(folder / WEIGHTS, made.weights)
    np.save(folder / SEEN, made.seen)


def _bags(ids: Sequence[Sequence[int]], weights: np.ndarray) -> Any:
    """float32 [texts, vocabulary], sparse: each row's tokens by weight, at unit length."""
    from scipy.sparse import csr_matrix

    columns: list[np.ndarray] = []
    values: list[np.ndarray] = []
    ends = [0]
    for some in ids:
        tokens, counts = np.unique(np.array(some, np.int64), return_counts=True)
        row = counts * weights[tokens]
        norm = np.linalg.norm(row)
        columns.append(tokens)
        values.append(row / norm if norm else row)
        ends.append(ends[-1] + len(tokens))
    data = np.concatenate(values).astype(np.float32)
    return csr_matrix((data, np.concatenate(columns), ends), shape=(len(ids), len(weights)))


def _sample(build: Build) -> list[int]:
    return smallest("light", build.keys.column("id").to_pylist(), SAMPLE)


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def _unknown(tokenizer: Tokenizer) -> list[int]:
    """The id of the token that stands for what the vocabulary lacks, if there is one."""
    names = ("[UNK]", "<unk>", "<|unk|>")
    return [found for name in names if (found := tokenizer.token_to_id(name)) is not None]
