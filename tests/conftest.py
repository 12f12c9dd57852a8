"""One small real knowledge base for the session: read, built and published like any other."""

import json
import multiprocessing
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("LANCE_LOG", "error")
# The same examples in every run: what is green stays green until the code changes.
settings.register_profile("stillroom", derandomize=True, deadline=None)
settings.load_profile("stillroom")

COPY = (
    "Rotate the signing keys every ninety days. Keep the previous public key available until all "
    "tokens that it signed have expired. Publish both keys at the well-known address, and never "
    "store a private key beside the application that verifies with it."
)
NEAR = COPY.replace("ninety", "sixty")
FACET_WITH_SYNTAX = 'R&D "core" [a=b] (x:y) AND NOT *'

FILES = {
    "lean.md": """---
title: Orders in Lean
year: 2021
lang: en
tags: [lean, maths]
version: "2"
draft: true
date: 2021-03-04
---
# Orders in Lean

Mathlib states every order lemma for preorders first.

## Natural numbers

The lemma `Nat.succ_le_of_lt` turns a strict inequality into a weak one about the successor.

## Lattices

A lattice has a supremum ⊔ and an infimum ⊓ of any two elements.
""",
    "log4shell.md": """---
title: Log4Shell
year: 2021
lang: en
tags: [security, java]
version: "10"
date: 2021-12-10
---
# Log4Shell

A lookup in a logged string loads a remote class. The flaw is CVE-2021-44228, an instance of CWE-502.

## Mitigation

Upgrade the logging library, or remove the JndiLookup class from the archive.
""",
    "injection.md": f"""---
title: Injection
year: 2019
lang: en
tags: [security, sql]
draft: false
team: '{FACET_WITH_SYNTAX}'
date: 2019-05-01
---
# Injection

CWE-89 is the improper neutralisation of special elements in a database statement.

## Prepared statements

Bind the parameters of a query instead of pasting user input into its text.
""",
    "economy.md": """---
title: 世界经济
year: 2023
lang: zh
date: 2023-07-01
---
# 世界经济

世界经济在今年缓慢增长，通货膨胀逐渐下降。
""",
    "bread.md": """---
year: 2020
lang: en
tags: [cooking]
---
# Sourdough bread

Feed the starter in the evening and knead the dough in the morning.

## Baking

Bake the loaf in a covered iron pot until the crust is dark brown. Preheat the pot, lower the
loaf into it on a sheet of paper, and take the lid off after half an hour.

## Equipment

A good kitchen needs few things, and the ones it needs should last for a lifetime of use.

### Scales

Weigh the flour and the water in grams, since a cup of flour may hold a third more or less than
another cup. Digital ones cost little, and are more exact than any spring.
""",
    "notes.md": """# Field notes

## Slow glaciers carve wide mountain valleys

Ice that moves a metre a day grinds the rock below it. When it melts, a broad trough with steep
sides is left, often with a lake behind the last heap of stones.

## Honey bees dance towards distant flowers

A worker that comes home shows the others the way. The angle of her waggle is the angle to the sun,
and the longer she waggles, the further off the meadow lies.

## Violin makers choose dense spruce wood

Trees that grew slowly in the cold have narrow rings. Their timber is stiff and light at once, which
lets the top of an instrument vibrate freely under its strings.

## Roman concrete hardens under sea water

Volcanic ash and lime react with salt. Crystals grow in the cracks, so that old harbours are stronger
today than when their builders left them two thousand years ago.

## Desert foxes hear insects beneath sand

Their ears are as long as their faces. They lose heat through them, and can tell from which grain the
faint scratching of a beetle comes, even on a windy evening.
""",
    "garden.txt": "Tomatoes need six hours of sun a day and a deep watering twice a week.",
    "sea.txt": "Whales sing at low frequencies that travel for hundreds of kilometres under water.",
    "copy-a.txt": COPY,
    "copy-b.txt": COPY,
    "near.txt": NEAR,
    "empty.txt": "   \n",
}
ROWS = [
    {
        "_id": "q1",
        "title": "Trains",
        "text": "Night trains between Vienna and Paris run three times a week.",
        "year": 2022,
        "lang": "de",
        "created_at": "2022-01-15T08:00:00+01:00",
    },
    {
        "_id": "q2",
        "title": "Ferries",
        "text": "The ferry to the islands leaves at dawn when the wind is weak.",
        "year": 2018,
        "lang": "en",
        "created_at": "2018-06-30T23:59:59Z",
    },
    {
        "_id": "q3",
        "title": "Telescope",
        "text": "A mirror of eight metres gathers enough light to see faint galaxies.",
        "year": 2022,
        "lang": "en",
    },
]


@dataclass(frozen=True)
class SmallBase:
    """Where the fixture base lies, what it was built from, and how the build ended."""

    path: Path
    folder: Path
    outcome: object


def write_corpus(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS]
    (folder / "rows.jsonl").write_text("".join(lines), encoding="utf-8")


def build_base(folder: Path, path: Path, name: str = "corpus", segment_tokens: int = 64, **changes):
    """Build the corpus `folder` into `path` in this process; the outcome."""
    from stillroom.pipelines.build import run_build
    from stillroom.pipelines.plan import plan_build
    from stillroom.schemas.recipe import Recipe, Source

    recipe = Recipe(
        "corpus", (Source(name, str(folder)),), segment_tokens=segment_tokens, **changes
    )
    return run_build(plan_build(recipe, str(path)))


@pytest.fixture(scope="session")
def small_kb(tmp_path_factory) -> SmallBase:
    root = tmp_path_factory.mktemp("small")
    write_corpus(root / "corpus")
    outcome = build_base(root / "corpus", root / "small.kb")
    return SmallBase(root / "small.kb", root / "corpus", outcome)


@pytest.fixture(scope="session")
def kb(small_kb):
    import stillroom

    return stillroom.open(small_kb.path)


@pytest.fixture(scope="session")
def build(kb):
    """The one build that `kb` reads."""
    from stillroom.store import Build

    return Build(kb._builds[0].kb, kb.manifests[0])


@pytest.fixture
def copied_kb(small_kb, tmp_path) -> Path:
    """A copy of the fixture base that a test may damage."""
    target = tmp_path / "copied.kb"
    shutil.copytree(small_kb.path, target)
    return target


@pytest.fixture(scope="session")
def s3():
    """URI of a bucket on a real S3 server."""
    from tests.s3 import s3_server

    with s3_server() as uri:
        yield uri


@pytest.fixture(scope="session")
def fork_server():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warm"])
    return context


@pytest.fixture
def run(monkeypatch, capsys):
    """Run `stillroom ARGUMENTS...` in this process: exit code, standard output and error."""
    from stillroom.pipelines.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["stillroom", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="session")
def minilm():
    from stillroom.models import load_encoder

    return load_encoder("minilm")
