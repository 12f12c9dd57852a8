"""The light query encoder: a query's vector by table look-up, after LightRetriever (arXiv 2505.12260).

Documents get a full transformer once; a query is the weighted mean of rows of a table, one row a token,
in the space of the documents' vectors. `stillroom.transforms.light` fits the table in a build. Reading it
takes numpy and tokenizers, nothing else.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from stillroom.tokens import without_surrogates

TOKENIZER, TABLE, WEIGHTS, SEEN = "tokenizer.json", "table.npy", "weights.npy", "seen.npy"


class LightEncoder:
    """Query vectors from the files of `encoders/<digest>/`:

    `tokenizer.json`; `table.npy`, float16 [vocabulary, dims], mapped; `weights.npy`, float32
    [vocabulary], inverse document frequencies; `seen.npy`, bool [vocabulary], tokens of the corpus.
    Safe for many threads.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def encode(self, text: str) -> np.ndarray | None:
        """float32 [dims], a unit vector; None for a text without any token."""
        vector = self.mean(self._ids(text))
        norm = float(np.linalg.norm(vector))
        return vector / norm if norm > 0 else None

    def mean(self, ids: Sequence[int]) -> np.ndarray:
        """float32 [dims]: the weighted sum of the rows of these tokens."""
        rows = np.array(ids, np.intp)
        new = rows[~self._known.take(rows)]
        if len(new):
            # Making float32 of a row costs more than all the rest: rows that were used are kept. Two
            # threads may both do it, with the same result; a row is known once it is there.
            self._rows[new] = self._table[new]
            self._known[new] = True
        made: np.ndarray = self._weights.take(rows) @ self._rows.take(rows, axis=0)
        return made

    def coverage(self, text: str) -> float:
        """The share, by weight, of the text's tokens that the corpus has, 0 to 1. Rows of the others are
        only what a token means by itself."""
        ids = self._ids(text)
        weights = self._weights[ids]
        total = float(weights.sum())
        return float(weights[self._seen[ids]].sum()) / total if total else 0.0

    def count(self, text: str) -> int:
        """Tokens of a text, without special tokens."""
        return len(self._ids(text))

    def _ids(self, text: str) -> list[int]:
        encoding = self._tokenizer.encode(without_surrogates(text), add_special_tokens=False)
        return list(encoding.ids)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer.from_file(str(self._files[TOKENIZER]))

    @cached_property
    def _table(self) -> np.ndarray:
        return np.asarray(np.load(self._files[TABLE], mmap_mode="r"))

    @cached_property
    def _rows(self) -> np.ndarray:
        """float32 [vocabulary, dims]: rows of `_known` tokens; memory is taken by those alone."""
        return np.empty(self._table.shape, np.float32)

    @cached_property
    def _known(self) -> np.ndarray:
        return np.zeros(len(self._table), bool)

    @cached_property
    def _weights(self) -> np.ndarray:
        return np.load(self._files[WEIGHTS])

    @cached_property
    def _seen(self) -> np.ndarray:
        return np.load(self._files[SEEN])
