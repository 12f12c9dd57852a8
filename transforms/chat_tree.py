"""Messages that form a tree, since a prompt that is edited or an answer that is made again starts a
branch: the active chain, then the branches that were left.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from stillroom.transforms.chat_values import UniqueKeys
from stillroom.transforms.conversations import Turn
from stillroom.transforms.parsed import Refused

# What a node's message gave; None where nothing was said that people see.
Made = Turn | Refused | None


def tree_turns(
    made: Mapping[str, Made],
    parents: Mapping[str, str | None],
    current: str,
    begun: datetime | None,
) -> list[Turn | Refused]:
    """The turns of the chain from a root to `current`, then the others, marked as alternative.

    `made` and `parents` (None for a root) have each node, in the order of the file. Where `current` is
    none of them, the newest leaf is. Each turn gets the nearest turn above it to reply to, and,
    if it has no time, its time, or `begun`.
    """
    if current not in parents:
        current = _newest_leaf(made, parents)
    active, left = _tree_order(parents, current)
    above: dict[str, tuple[str, datetime | None]] = {}
    turns: list[Turn | Refused] = []
    ids = UniqueKeys()
    for alternative, order in ((False, active), (True, left)):
        for node in order:
            reply_to, earlier = above.get(parents[node] or "", ("", begun))
            turn = made[node]
            if isinstance(turn, Turn):
                turn = replace(
                    turn,
                    id=ids(turn.id),
                    at=turn.at or earlier,
                    inferred=turn.at is None and earlier is not None,
                    alternative=alternative,
                    reply_to=reply_to,
                )
                above[node] = turn.id, turn.at
            else:
                above[node] = reply_to, earlier
            if turn:
                turns.append(turn)
    return turns


def _newest_leaf(made: Mapping[str, Made], parents: Mapping[str, str | None]) -> str:
    """The leaf with the latest time; the last one of those without."""
    inner = set(parents.values())
    latest, newest = 0.0, ""
    for node, turn in made.items():
        time = turn.at.timestamp() if isinstance(turn, Turn) and turn.at else 0.0
        if node not in inner and time >= latest:
            latest, newest = time, node
    return newest


def _tree_order(
    parents: Mapping[str, str | None], current: str
) -> tuple[Sequence[str], Sequence[str]]:
    """The ids from the root to `current`, and the others, branch by branch. Cycles are cut."""
    active: dict[str, None] = {}
    node: str | None = current
    while node is not None and node in parents and node not in active:
        active[node] = None
        node = parents[node]
    children = defaultdict[str, list[str]](list)
    roots: list[str] = []
    for name, parent in parents.items():
        (roots if parent is None else children[parent]).append(name)
    seen: dict[str, None] = {}
    for start in (*roots, *parents):  # what hangs on a cycle has no root
        stack = [start]
        while stack:
            name = stack.pop()
            if name not in seen:
                seen[name] = None
                stack += reversed(children[name])
    return list(reversed(active)), [name for name in seen if name not in active]
