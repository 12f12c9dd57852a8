"""Sentence encoders: texts to unit vectors, the same bits whatever the batch, order or process.

A transformer's row can differ in its last bits with the shape of the batch around it, so every
document text is run in one of a few fixed shapes: its own length rounded up, and a fixed number of
rows, unused rows being dummies. `stillroom.models` loads them.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stillroom.backends import Layers
from stillroom.errors import BadInput, StillroomError
from stillroom.schemas.specs import EncoderSpec
from stillroom.tokens import TokenCounter, without_surrogates

BATCH_ROWS = 8  # of 2 to 32 rows, quickest or within 4 % of it on AVX-512 bf16, one thread
VOCABULARY_ROWS = 64  # single tokens are all of one length: no padding, larger batches

_threads = threading.local()


class EncoderFailure(StillroomError):
    """The model gave vectors of a wrong width."""


class Encoder:
    """A loaded sentence-transformers model with its spec. One for each process, dtype and backend.

    `layers` run its transformer in fixed shapes; None for a static or otherwise unpadded model.
    """

    def __init__(
        self, model: Any, spec: EncoderSpec, tokens: TokenCounter, layers: Layers | None
    ) -> None:
        self._model, self.spec, self.tokens, self._layers = model, spec, tokens, layers

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dims], unit rows, in the order given; a row of NaN where the model
        gave no finite vector. Texts over `max_tokens` are cut there: callers count them first."""
        return self._encode([self.spec.document_prefix + text for text in texts], BATCH_ROWS)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dims]; one row a batch, so that a query alone and in a list agree."""
        return self._encode([self.spec.query_prefix + text for text in texts], 1)

    def encode_tokens(self, texts: Sequence[str]) -> list[np.ndarray]:
        """float32 [tokens, width] for each text: unit vectors of its tokens in their context, special
        tokens and prefix apart; the texts as documents, cut at `max_tokens`. For late interaction."""
        if self._layers is None:
            raise BadInput(
                f"{self.spec.name} has no token vectors in context: it is no transformer"
            )
        prefix = self.tokens.count(self.spec.document_prefix) if self.spec.document_prefix else 0
        texts = [self.spec.document_prefix + without_surrogates(text) for text in texts]
        before, after = (len(ids) for ids in self._specials())
        made: list[np.ndarray] = [np.empty((0, 0), np.float32)] * len(texts)
        for length, batch in self._batches(texts, BATCH_ROWS):
            features = self._run_layers([ids for _, ids in batch], length, BATCH_ROWS)
            vectors = features["token_embeddings"].cpu().numpy()
            for row, (index, ids) in enumerate(batch):
                tokens = vectors[row, before + prefix : len(ids) - after]
                norms = np.linalg.norm(tokens, axis=1, keepdims=True)
                made[index] = tokens / np.where(norms > 0, norms, 1)
        return made

    @property
    def vocabulary_size(self) -> int:
        return int(self.tokens.tokenizer.get_vocab_size())

    def encode_vocabulary(self, first: int, last: int) -> np.ndarray:
        """float32 [last - first, dims]: unit vectors of the tokens with these ids, each as a query of
        its own. A row of zeros where the model gave none. Not for models without fixed shapes."""
        before, after = self._around_a_token()
        made = np.zeros((last - first, self.spec.dims), np.float32)
        for start in range(first, last, VOCABULARY_ROWS):
            ids = range(start, min(last, start + VOCABULARY_ROWS))
            batch = [[*before, token, *after] for token in ids]
            vectors = self._checked(self._forward(batch, len(batch[0]), VOCABULARY_ROWS))
            made[start - first : start - first + len(batch)] = vectors[: len(batch)]
        return np.nan_to_num(made)

    def _around_a_token(self) -> tuple[list[int], list[int]]:
        """Ids that stand before and after a query of one token."""
        before, after = self._specials()
        prefix = self.tokens.tokenizer.encode(self.spec.query_prefix, add_special_tokens=False)
        return [*before, *prefix.ids], after

    def _specials(self) -> tuple[list[int], list[int]]:
        """Special ids before and after a text."""
        encoding = self.tokens.tokenizer.encode("a")
        mask = encoding.special_tokens_mask
        return encoding.ids[: mask.index(0)], encoding.ids[len(mask) - mask[::-1].index(0) :]

    def padded_length(self, tokens: int) -> int:
        """The padded length of a text of this many tokens, special tokens apart."""
        if not self.spec.lengths:
            return self.spec.max_tokens
        wanted = min(tokens + self.spec.special_tokens, self.spec.max_tokens)
        return next(length for length in self.spec.lengths if length >= wanted)

    def _encode(self, texts: Sequence[str], rows: int) -> np.ndarray:
        texts = [without_surrogates(text) for text in texts]
        out = np.empty((len(texts), self.spec.dims), np.float32)
        if self._layers is None:  # a static or otherwise unpadded model: rows do not see each other
            for start in range(0, len(texts), 256):
                made = self._model.encode(
                    texts[start : start + 256],
                    prompt="",  # ours is in front already
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
                out[start : start + 256] = self._checked(np.asarray(made, np.float32))
            return out
        for length, batch in self._batches(texts, rows):
            made = self._forward([ids for _, ids in batch], length, rows)
            out[[index for index, _ in batch]] = self._checked(made[: len(batch)])
        return out

    def _batches(
        self, texts: Sequence[str], rows: int
    ) -> Iterator[tuple[int, list[tuple[int, list[int]]]]]:
        """(padded length, up to `rows` of (index, token ids)), shorter ones first."""
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for index, ids in enumerate(self._ids(texts)):
            length = self.padded_length(len(ids) - self.spec.special_tokens)
            by_length.setdefault(length, []).append((index, ids))
        for length in sorted(by_length):
            group = by_length[length]
            for start in range(0, len(group), rows):
                yield length, group[start : start + rows]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids with special tokens, cut to max_tokens with the last special token kept."""
        limit, made = self.spec.max_tokens, []
        for encoding in self.tokens.tokenizer.encode_batch(list(texts)):
            ids = encoding.ids
            if len(ids) > limit:
                ids = [*ids[: limit - 1], ids[-1]]
            made.append(ids)
        return made

    def _forward(self, batch: list[list[int]], length: int, rows: int) -> np.ndarray:
        import torch

        features = self._run_layers(batch, length, rows)
        with torch.inference_mode():
            for module in list(self._model)[1:]:
                features = module(features)
            made: np.ndarray = features["sentence_embedding"].float().cpu().numpy()
            return made

    def _run_layers(self, batch: list[list[int]], length: int, rows: int) -> dict[str, Any]:
        """The transformer's features of token ids, in a batch of exactly this shape."""
        import torch

        one_thread()
        assert self._layers is not None
        pad = self._model.tokenizer.pad_token_id or 0
        ids = np.full((rows, length), pad, np.int64)
        mask = np.zeros((rows, length), np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        mask[len(batch) :, 0] = 1  # a dummy row attends to one pad token, so that it stays finite
        with torch.inference_mode():
            return self._layers(ids, mask)

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        if vectors.ndim != 2 or vectors.shape[1] != self.spec.dims:
            raise EncoderFailure(
                f"{self.spec.name} gave vectors of shape {vectors.shape}, not (n, {self.spec.dims})"
            )
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        bad = ~np.isfinite(norms) | (norms == 0)
        return np.where(bad, np.nan, vectors / np.where(bad, 1, norms)).astype(np.float32)


def one_thread() -> None:
    """One OpenMP thread for the calling thread: Beam runs a worker a core, and spinning pools make each
    other several times slower. The number belongs to a thread, so loading the model in another one
    does not settle it."""
    if not getattr(_threads, "settled", False):
        import torch

        torch.set_num_threads(1)
        _threads.settled = True
