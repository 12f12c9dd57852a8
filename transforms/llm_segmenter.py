"""Topical segments from a language model, zero-shot (SeCom): asked for exchanges that belong together.

Turns are numbered in the prompt; the answer must be a true partition of them. Small slips (an overlap,
a gap, an end that is off) are mended by the ends alone; what cannot be mended falls back to another
segmenter. Only the open end of a conversation is asked about again, since answers are cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from stillroom.transforms.language_models import LanguageModel, json_in
from stillroom.transforms.turns import Runs, Said, Segmenter, runs_between

MAX_TURNS = 60  # of one question; longer sessions are asked about in pieces
MAX_CHARS = 600  # of one turn in the prompt
PROMPT = """\
Below are the turns of a conversation, numbered from 0 to {last}. Group consecutive turns that speak \
of the same topic. Every turn belongs to exactly one group, groups are in order, and a group should \
be as long as its topic lasts: begin a new one only where the topic clearly changes.

Answer with a JSON array and nothing else, one object for each group: \
[{{"start": 0, "end": 3, "topic": "a few words"}}, ...], where start and end are the numbers of its \
first and last turn.

{turns}"""


@dataclass
class LlmSegmenter:
    """Groups of turns as the model sees them; `fallback` where its answer is no partition."""

    model: LanguageModel
    fallback: Segmenter

    def setup(self) -> None:
        """Load what the fallback needs."""
        self.fallback.setup()

    @property
    def vectors(self) -> Any:
        """What the fallback encoded."""
        return getattr(self.fallback, "vectors", None)

    def runs(self, turns: Sequence[Said]) -> Runs:
        """Every turn is in exactly one run."""
        made: Runs = []
        for start in range(0, len(turns), MAX_TURNS):
            some = turns[start : start + MAX_TURNS]
            found = self._ask(some) if len(some) > 1 else [(0, len(some))]
            if found is None:
                found = self.fallback.runs(some)
            made.extend((start + a, start + b) for a, b in found)
        return made

    def _ask(self, turns: Sequence[Said]) -> Runs | None:
        lines = [f"[{i}] {turn.text[:MAX_CHARS]}" for i, turn in enumerate(turns)]
        prompt = PROMPT.format(last=len(turns) - 1, turns="\n".join(lines))
        return self.model.ask(prompt, lambda answer: partition(answer, len(turns)))


def partition(answer: str, total: int) -> Runs:
    """The runs in a model's answer. Ends decide: a group begins where the one before it ended, and the
    last one ends with the last turn. Raises ValueError where that is no reading of the answer."""
    groups = json_in(answer)
    if isinstance(groups, dict):  # {"segments": [...]}
        groups = next((value for value in groups.values() if isinstance(value, list)), None)
    if not isinstance(groups, list) or not groups:
        raise ValueError("the answer holds no list of groups")
    ends: list[int] = []
    for group in groups:
        end = group.get("end") if isinstance(group, dict) else None
        if not isinstance(end, int) or isinstance(end, bool):
            raise ValueError(f"a group without an end: {group!r}")
        ends.append(end)
    inside = [end for end in ends if 0 <= end < total]
    if len(inside) < len(ends) - 1 or any(b <= a for a, b in pairwise(ends)):
        raise ValueError(f"ends {ends} are not those of a partition of {total} turns")
    starts = [0, *(end + 1 for end in ends[:-1])]
    return runs_between(starts, total)
