"""CPU time of a build of 5,000 documents again: unchanged, and with 1 % of them changed.

Each run is a process of its own, imports and model loading included, as a scheduler starts it.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.common import read_jsonl

DOCUMENTS = 5_000


def main(data: Path) -> None:
    rows = list(
        itertools.islice(
            read_jsonl(data / "retrieval" / "scifact" / "corpus" / "corpus.jsonl"), DOCUMENTS
        )
    )
    with tempfile.TemporaryDirectory() as scratch:
        source, kb = Path(scratch) / "docs.jsonl", Path(scratch) / "kb"
        spent: dict[str, float] = {}
        for what in ("first build", "unchanged", "1 % changed"):
            if what == "1 % changed":
                for row in rows[::100]:
                    row["text"] += " This sentence was added in the night."
            source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            spent[what], outcome = cpu_of(source, kb)
            share = spent[what] / spent["first build"]
            shown = {n: outcome[n] for n in ("changed", "published", "unchanged")}
            print(f"{what:12} {spent[what]:7.1f} CPU s  {share:6.1%}  {shown}", flush=True)


def cpu_of(source: Path, kb: Path) -> tuple[float, dict[str, object]]:
    """User and system seconds of one build command, and its `--json`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "stillroom.pipelines.cli", "build", "corpus", str(source)]
    done = subprocess.run(
        [*command, "--kb", str(kb), "--json"], check=True, capture_output=True, env=os.environ
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, json.loads(done.stdout)
