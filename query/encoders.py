"""Sentence encoders: texts to unit vectors, the same bits whatever the batch, order or process.

A transformer's row can differ in its last bits with the shape of the batch around it, so every
document text is run in one of a few fixed shapes: its own length rounded up, and a fixed number of
rows, unused rows being dummies. `stillroom.models` loads them.
"""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from stillroom.errors import StillroomError
from stillroom.schemas.specs import EncoderSpec
from stillroom.tokens import TokenCounter, without_surrogates

BATCH_ROWS = 8  # of 2 to 32 rows, quickest or within 4 % of it on AVX-512 bf16, one thread
VOCABULARY_ROWS = 64  # single tokens are all of one length: no padding, larger batches

_threads = threading.local()


class EncoderFailure(StillroomError):
    """The model gave vectors of a wrong width."""


class Encoder:
    """A loaded sentence-transformers model with its spec. One for each process and dtype."""

    def __init__(self, model: Any, spec: EncoderSpec, tokens: TokenCounter, fixed: bool) -> None:
        self._model, self.spec, self.tokens, self._fixed = model, spec, tokens, fixed

    def encode_documents(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dims], unit rows, in the order given; a row of NaN where the model
        gave no finite vector. Texts over `max_tokens` are cut there: callers count them first."""
        return self._encode([self.spec.document_prefix + text for text in texts], BATCH_ROWS)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dims]; one row a batch, so that a query alone and in a list agree."""
        return self._encode([self.spec.query_prefix + text for text in texts], 1)

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
        encoding = self.tokens.tokenizer.encode("a")
        mask = encoding.special_tokens_mask
        first = mask.index(0)
        last = len(mask) - mask[::-1].index(0)
        prefix = self.tokens.tokenizer.encode(self.spec.query_prefix, add_special_tokens=False)
        return [*encoding.ids[:first], *prefix.ids], list(encoding.ids[last:])

    def padded_length(self, tokens: int) -> int:
        """The padded length of a text of this many tokens, special tokens apart."""
        if not self.spec.lengths:
            return self.spec.max_tokens
        wanted = min(tokens + self.spec.special_tokens, self.spec.max_tokens)
        return next(length for length in self.spec.lengths if length >= wanted)

    def _encode(self, texts: Sequence[str], rows: int) -> np.ndarray:
        texts = [without_surrogates(text) for text in texts]
        out = np.empty((len(texts), self.spec.dims), np.float32)
        if not self._fixed:  # a static or otherwise unpadded model: rows do not see each other
            for start in range(0, len(texts), 256):
                made = self._model.encode(
                    texts[start : start + 256],
                    prompt="",  # ours is in front already
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
                out[start : start + 256] = self._checked(np.asarray(made, np.float32))
            return out
        by_length: dict[int, list[tuple[int, list[int]]]] = {}
        for index, ids in enumerate(self._ids(texts)):
            length = self.padded_length(len(ids) - self.spec.special_tokens)
            by_length.setdefault(length, []).append((index, ids))
        for length in sorted(by_length):
            group = by_length[length]
            for start in range(0, len(group), rows):
                batch = group[start : start + rows]
                made = self._forward([ids for _, ids in batch], length, rows)
                out[[index for index, _ in batch]] = self._checked(made[: len(batch)])
        return out

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

        one_thread()
        pad = self._model.tokenizer.pad_token_id or 0
        ids = np.full((rows, length), pad, np.int64)
        mask = np.zeros((rows, length), np.int64)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        mask[len(batch) :, 0] = 1  # a dummy row attends to one pad token, so that it stays finite
        device = self._model.device
        features = {
            "input_ids": torch.from_numpy(ids).to(device),
            "attention_mask": torch.from_numpy(mask).to(device),
        }
        with torch.inference_mode():
            for position, module in enumerate(self._model):
                features = module(features)
                if position == 0:  # pool in float32: bf16 sums lose what the layers kept
                    features["token_embeddings"] = features["token_embeddings"].float()
            return features["sentence_embedding"].float().cpu().numpy()

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
