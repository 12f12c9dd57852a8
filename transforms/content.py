"""Digests of what tables say, whatever files or batches they lie in."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stillroom.schemas.ids import DIGEST_BYTES


class ContentDigest:
    """Digest of a sequence of rows, fed in batches; equal rows give equal digests however they are
    batched, since each column has a state of its own."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}

    def update(self, table: pa.Table) -> None:
        """Feed the next rows."""
        for name in table.column_names:
            for chunk in table.column(name).chunks:
                self._feed(name, chunk)

    def hexdigest(self) -> str:
        total = blake2b(digest_size=DIGEST_BYTES)
        for name, state in sorted(self._columns.items()):
            total.update(name.encode() + state.digest())
        return total.hexdigest()

    def _feed(self, name: str, array: pa.Array) -> None:
        kind = array.type
        self._state(name + "?", array.is_null().to_numpy(zero_copy_only=False).tobytes())
        if pa.types.is_struct(kind):
            for field, child in zip(kind, array.flatten(), strict=True):
                self._feed(f"{name}.{field.name}", child)
        elif pa.types.is_fixed_size_list(kind):
            self._feed(name + "[]", array.flatten())
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            self._state(name + "#", _numbers(pc.list_value_length(array)))
            self._feed(name + "[]", array.flatten())
        elif pa.types.is_primitive(kind):
            if pa.types.is_timestamp(kind):
                array = array.cast(pa.int64())
            self._state(name, _numbers(array))
        else:
            data = array.cast(pa.large_binary())
            self._state(name + "#", _numbers(pc.binary_length(data)))
            self._state(name, b"".join(v for v in data.to_pylist() if v))

    def _state(self, name: str, raw: bytes) -> None:
        if name not in self._columns:
            self._columns[name] = blake2b(digest_size=DIGEST_BYTES)
        self._columns[name].update(raw)


def content_digest(tables: Iterable[pa.Table]) -> str:
    """Digest of the rows of these tables in this order."""
    state = ContentDigest()
    for table in tables:
        state.update(table)
    return state.hexdigest()


def _numbers(array: pa.Array) -> bytes:
    zero = False if pa.types.is_boolean(array.type) else 0
    return np.ascontiguousarray(pc.fill_null(array, zero).to_numpy(zero_copy_only=False)).tobytes()
