"""What a person sees of a build: a live view by stage, and a final table."""

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from stillroom.transforms.publish import Outcome
from stillroom.transforms.stages import STEP, read_progress
from stillroom.transforms.staging import Staging

STAGES = (
    ("read", "documents"),
    ("shape", "documents"),
    ("encode", "texts"),
    ("write", "documents"),
)


class LiveView:
    """Counts and rates by stage while a build runs; nothing at all where output is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._staging: Staging | None = None
        self._first: dict[str, float] = {}
        self._last: dict[str, tuple[int, float]] = {}

    def start(self, staging: Staging) -> None:
        """Begin to show the counters of this staging area."""
        self._staging = staging
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._table, console=self._console, refresh_per_second=4,
                transient=True,
            )  # fmt: skip
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("stage", "done", "", "a second"):
            table.add_column(name, justify="right" if name in ("done", "a second") else "left")
        counts = read_progress(self._staging.scratch) if self._staging else {}
        now = time.monotonic()
        for stage, unit in STAGES:
            count = counts.get(stage, 0)
            if count:
                self._first.setdefault(stage, now)
            if count != self._last.get(stage, (0, 0.0))[0]:
                self._last[stage] = (count, now)
            # The clock of a finished stage stands still: its rate is over the time it took.
            spent = self._last.get(stage, (0, now))[1] - self._first.get(stage, now)
            rate = f"{count / spent:,.0f}" if spent > 0.5 else ""
            table.add_row(stage, f"{count:,}", unit, rate)
        table.add_row("publish", "", self._step(), "")
        return table

    def _step(self) -> str:
        try:
            return (Path(self._staging.scratch) / STEP).read_text() if self._staging else ""
        except OSError:
            return ""


def outcome_dict(outcome: Outcome, seconds: float) -> dict[str, Any]:
    """Plain data of an outcome, for `--json`."""
    accounting = outcome.accounting
    return {
        "build": outcome.build,
        "changed": outcome.changed,
        "seconds": round(seconds, 2),
        "read": accounting.read,
        "published": accounting.published,
        "unchanged": accounting.unchanged,
        "duplicate": accounting.duplicate,
        "rejected": accounting.rejected,
        "stale": accounting.stale,
        "reasons": dict(accounting.reasons),
        "counts": dict(outcome.counts),
        "repairs": dict(outcome.repairs),
        "dense_weight": outcome.plan.dense_weight,
    }


def outcome_table(outcome: Outcome, seconds: float) -> Table:
    """The final table: where each input went."""
    data = outcome_dict(outcome, seconds)
    table = Table()
    table.add_column("inputs")
    table.add_column("count", justify="right")
    for name in ("read", "published", "unchanged", "duplicate", "rejected", "stale"):
        if data[name] or name in ("read", "published", "rejected"):
            table.add_row(name, f"{data[name]:,}")
        if name == "rejected":
            for reason, count in data["reasons"].items():
                table.add_row(f"  {reason}", f"{count:,}")
    table.add_section()
    for name, count in data["counts"].items():
        if name != "documents" and count:
            table.add_row(name, f"{count:,}")
    for name, count in data["repairs"].items():
        table.add_row(f"repaired: {name}", f"{count:,}")
    return table
