"""The vectors of a build as its plan has them served: rotated, quantised, with or without sign bits.

Rows are put in batches, straight into mapped files. int8 needs each dimension's largest magnitude
before the first row can be written: rotated rows wait in a file beside.
"""

from pathlib import Path
from typing import Any

import numpy as np

from stillroom import store
from stillroom.dense import sign_bits
from stillroom.elastic import quantise, rotate, scale_of

BATCH = 8192


class VectorWriter:
    """Writes `count` vectors of `dims` into the folder `serve`, in the form `dtype`.

    `basis` float32 [dims, kept] rotates them (None: as they are). Use: `put` each batch, `close`.
    """

    def __init__(
        self, serve: Path, count: int, dims: int, dtype: str, basis: np.ndarray | None
    ) -> None:
        kept = dims if basis is None else basis.shape[1]
        self._serve, self._basis, self._dtype = serve, basis, dtype
        self._waiting = serve.parent / "rotated.npy"
        place = serve / store.VECTORS if dtype == "f32" else self._waiting
        self._rows = _mapped(place, np.float32, (count, kept))
        self._peak = np.zeros(kept, np.float32)
        self._bits: np.ndarray | None = None
        if dtype != "int8":
            self._bits = _mapped(serve / store.BITS, np.uint64, (-(-kept // 64), count))

    def put(self, start: int, vectors: np.ndarray) -> None:
        """float32 [n, dims], for the rows from `start` on."""
        made = vectors if self._basis is None else rotate(vectors, self._basis)
        end = start + len(made)
        self._rows[start:end] = made
        if self._bits is not None:
            self._bits[:, start:end] = sign_bits(made)
        if self._dtype != "f32":
            self._peak = np.maximum(self._peak, np.abs(made).max(axis=0, initial=0))

    def close(self) -> None:
        """Complete the files."""
        if self._basis is not None:
            np.save(self._serve / store.BASIS, self._basis)
        if self._dtype != "f32":
            scale = scale_of(self._peak)
            np.save(self._serve / store.SCALE, scale)
            small = _mapped(self._serve / store.VECTORS, np.int8, self._rows.shape)
            for start in range(0, len(small), BATCH):
                small[start : start + BATCH] = quantise(self._rows[start : start + BATCH], scale)
            _flush(small)
        _flush(self._rows, self._bits)
        self._waiting.unlink(missing_ok=True)


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    if 0 in shape:  # an empty file cannot be mapped
        np.save(path, np.empty(shape, dtype))
        return np.empty(shape, dtype)
    return np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)


def _flush(*arrays: np.ndarray | None) -> None:
    for array in arrays:
        if isinstance(array, np.memmap):
            array.flush()
