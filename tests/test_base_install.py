"""`pip install stillroom` alone, in an environment of its own: hybrid queries without torch and Beam."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.test_query_vectors import build, write_corpus

run = partial(subprocess.run, check=False, capture_output=True, text=True)
ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import importlib.util, json, sys
heavy = ("torch", "apache_beam", "transformers", "sentence_transformers", "spacy", "lance")
here = [name for name in heavy if importlib.util.find_spec(name)]
import stillroom
kb = stillroom.open(sys.argv[1])
hits = kb.search("the oven of bread", k=5)
legs = sorted({(r.leg, r.encoder) for hit in hits for r in hit.reasons})
print(json.dumps({"heavy": here, "first": hits[0].value, "legs": legs, "notes": hits.notes}))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Python of a new virtual environment with the wheel's base dependencies only."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    source = folder.with_name(
        "source"
    )  # a build in the project's own folder would leave files there
    for room in ("query", "schemas", "transforms", "pipelines"):
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    done = run([*install, str(source)])
    if done.returncode and ("No matching distribution" in done.stderr or "connect" in done.stderr):
        pytest.skip(f"no package index at hand: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return python


def test_a_base_built_elsewhere_answers_hybrid_queries(environment, tmp_path):
    build(write_corpus(tmp_path / "in.jsonl"), tmp_path / "kb")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = run(
        [str(environment), "-c", SCRIPT, str(tmp_path / "kb")],
        env=clean, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["heavy"] == []
    assert "bread" in said["first"]
    assert ["dense", "light"] in said["legs"]
    assert any(leg == "lexical" for leg, _ in said["legs"])


def test_the_command_line_is_there_and_says_what_building_needs(environment, tmp_path):
    stillroom = environment.with_name("stillroom")
    shown = run([str(stillroom), "--help"])
    assert shown.returncode == 0
    (tmp_path / "a.md").write_text("# Text\n\nSome words.\n")
    refused = run(
        [str(stillroom), "build", "corpus", str(tmp_path / "a.md"), "--kb", str(tmp_path / "kb")],
    )  # fmt: skip
    assert refused.returncode == 1
    assert "stillroom[build" in refused.stderr
    assert "Traceback" not in refused.stderr
