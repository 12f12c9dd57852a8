"""Stillroom: query a knowledge base that a build has published.

    kb = stillroom.open("my.kb")
    for hit in kb.search("how are sessions invalidated?", k=5):
        print(hit.score, hit.source_key, hit.value)

Nothing here imports Beam or torch; a query encoder is loaded when the first dense query needs it.
"""

from stillroom.errors import (
    BadInput,
    Damaged,
    MissingExtra,
    NotAKnowledgeBase,
    StillroomError,
    Unreachable,
    VersionSkew,
)
from stillroom.folders import PathLike
from stillroom.hits import Hit, Hits, Reason
from stillroom.knowledge_base import KnowledgeBase, Neighbour, Why

__version__ = "0.1.0"
__all__ = [
    "BadInput",
    "Damaged",
    "Hit",
    "Hits",
    "KnowledgeBase",
    "MissingExtra",
    "Neighbour",
    "NotAKnowledgeBase",
    "Reason",
    "StillroomError",
    "Unreachable",
    "VersionSkew",
    "Why",
    "open",
]


def open(*paths: PathLike | list[PathLike]) -> KnowledgeBase:
    """Open the knowledge base at a path, or several as one federated view.

    Raises NotAKnowledgeBase, Damaged, VersionSkew, BadInput.
    """
    flat: list[PathLike] = []
    for path in paths:
        flat.extend(path if isinstance(path, list | tuple) else [path])
    if not flat:
        raise BadInput("stillroom.open needs at least one path")
    return KnowledgeBase(flat)
