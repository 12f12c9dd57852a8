"""Content-derived identifiers: equal on every runner, for every number of workers.

Every id is a 128-bit BLAKE2b digest over length-prefixed parts, so that ("ab", "c") and ("a", "bc")
differ. Nothing here depends on `hash()`, a clock or a random source.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGEST_BYTES = 16
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def digest(*parts: str | bytes | int) -> str:
    """The 32 hexadecimal characters that name these parts, in this order.

    Lone surrogates are legal in parts (`surrogatepass`), though readers repair them before this.
    """
    state = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "little"))
        state.update(raw)
    return state.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text. NaN is refused."""
    return _CANONICAL.encode(value)


def document_id(source: str, path: str, member: str = "", row_key: str = "") -> str:
    """Id of a document: where it came from, never what it says, so an edit keeps the id.

    `path` is relative to the source's root; `member` is the archive member; `row_key` the row's id.
    """
    return digest("document", source, path, member, row_key)


def entry_id(document: str, kind: str, value_digest: str, ordinal: int) -> str:
    """Id of an entry; `ordinal` counts equal values of one kind inside one document."""
    return digest("entry", document, kind, value_digest, ordinal)


def key_id(entry: str, kind: str, text_digest: str, ordinal: int) -> str:
    """Id of a key; `ordinal` counts equal texts of one kind inside one entry."""
    return digest("key", entry, kind, text_digest, ordinal)


def facets_digest(facets: Mapping[str, Any]) -> str:
    """Digest of a facet mapping, whatever its order."""
    return digest("facets", canonical_json(facets))
