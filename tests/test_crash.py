"""Builds that are killed: what was served stays served, and a re-run ends like an undisturbed build."""

import os
import random
import resource
import shutil
import signal
from pathlib import Path

import pytest

import stillroom
from stillroom.errors import StillroomError
from stillroom.store import current_build
from stillroom.transforms import faults
from stillroom.transforms.maintenance import collect_garbage, verify_build
from tests.test_incremental import build, contents, text_of, write

TABLES = ("documents", "entries", "keys", "links")
POINTS = (
    "read", "shape", "encode", "vectors", "write",
    "fragment-entries", "fragment-keys:2",
    *(f"{when}-commit-{name}" for name in TABLES for when in ("before", "after")),
    "after-tag-documents", "after-tag-links",
    "between-derived", "after-derived", "before-manifest", "before-current", "after-current",
)  # fmt: skip
OTHER_INPUT = ("after-commit-documents", "after-commit-links", "after-tag-links", "before-manifest")
SEEDS = (1, 2, 3)


def pages(seed: int, version: int) -> dict[str, str]:
    """Pages of a version: from one to the next, some change, some go, some come."""
    rng = random.Random(f"{seed}")
    made = {f"{n}.md": text_of(f"{seed}-{n}") for n in range(6)}
    for step in range(1, version + 1):
        made.pop(rng.choice(sorted(made)))
        for name in rng.sample(sorted(made), 2):
            made[name] = text_of(f"{seed}-{name[:-3]}", step)
        made[f"new{step}.md"] = text_of(f"{seed}-new{step}", step)
    return made


class Seed:
    """A base of version 0, and what undisturbed builds of versions 1 and 2 over it give."""

    def __init__(self, root: Path, seed: int) -> None:
        self.seed, self.folder, self.base = seed, root / "in", root / "base"
        self.first = build(self.input(0), self.base).build
        self.wanted: dict[int, tuple[str, dict[str, str]]] = {}
        for version in (1, 2):
            kb = root / f"undisturbed{version}"
            shutil.copytree(self.base, kb)
            build(self.input(version), kb)
            self.wanted[version] = (current_build(kb), contents(kb))

    def input(self, version: int) -> Path:
        """The one folder, with the pages of a version."""
        return write(self.folder, pages(self.seed, version))


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return {seed: Seed(tmp_path_factory.mktemp(f"seed{seed}"), seed) for seed in SEEDS}


def child(folder: Path, kb: Path, fault: str, file_limit: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)  # the server of forks may be older than what is set now
    os.environ[faults.VARIABLE] = fault
    if file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    try:
        build(folder, kb)
    except StillroomError as error:
        if file_limit:
            (kb.parent / "said.txt").write_text(str(error)[:2000])
        os._exit(1)
    os._exit(0)


def run_child(context, folder: Path, kb: Path, fault: str = "", file_limit: int = 0) -> int:
    process = context.Process(target=child, args=(folder, kb, fault, file_limit, dict(os.environ)))
    process.start()
    process.join(120)
    assert process.exitcode is not None, "the child hangs"
    return process.exitcode


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_build_leaves_the_old_one_served_and_a_rerun_ends_the_same(
    seeds, fork_server, tmp_path, point, seed
):
    made = seeds[seed]
    kb = tmp_path / "kb"
    shutil.copytree(made.base, kb)
    assert run_child(fork_server, made.input(1), kb, point) == -signal.SIGKILL
    served = current_build(kb)
    assert served == (made.wanted[1][0] if point == "after-current" else made.first)
    assert stillroom.open(kb).search("checks each year", 3)
    version = 2 if point in OTHER_INPUT and seed == 3 else 1
    if point == "after-current":
        assert not build(made.input(1), kb).changed
    else:
        build(made.input(version), kb)
    assert (current_build(kb), contents(kb)) == made.wanted[version]
    assert verify_build(kb) == []


def test_what_a_crash_leaves_is_swept_by_gc(seeds, fork_server, tmp_path):
    made = seeds[1]
    kb = tmp_path / "kb"
    shutil.copytree(made.base, kb)
    for point in ("fragment-keys", "after-commit-links", "after-derived", "before-manifest"):
        run_child(fork_server, made.input(1), kb, point)
    build(made.input(1), kb)
    collect_garbage(kb, keep=1)
    undisturbed = tmp_path / "again"
    shutil.copytree(made.base, undisturbed)
    build(made.input(1), undisturbed)
    collect_garbage(undisturbed, keep=1)

    def sizes(root: Path) -> int:
        return sum(1 for path in root.rglob("*") if path.suffix in (".lance", ".npy", ".arrow"))

    assert sizes(kb) == sizes(undisturbed)
    assert verify_build(kb) == []


def test_a_full_disk_is_an_error_and_the_old_build_stays(seeds, fork_server, tmp_path):
    made = seeds[2]
    kb = tmp_path / "kb"
    shutil.copytree(made.base, kb)
    assert run_child(fork_server, made.input(1), kb, file_limit=8_000) == 1
    assert current_build(kb) == made.first
    assert "File too large" in (tmp_path / "said.txt").read_text()
    build(made.input(1), kb)
    assert (current_build(kb), contents(kb)) == made.wanted[1]


@pytest.mark.parametrize("fault", ["raise@shape", "raise@write", "raise@encode", "raise@read"])
def test_a_stage_that_raises_fails_the_build_in_one_line(seeds, tmp_path, monkeypatch, fault):
    made = seeds[1]
    kb = tmp_path / "kb"
    shutil.copytree(made.base, kb)
    monkeypatch.setenv(faults.VARIABLE, fault)
    with pytest.raises(StillroomError, match="injected at") as caught:
        build(made.input(1), kb)
    assert str(caught.value).count("\n") == 1
    monkeypatch.delenv(faults.VARIABLE)
    assert current_build(kb) == made.first
    build(made.input(1), kb)
    assert (current_build(kb), contents(kb)) == made.wanted[1]
