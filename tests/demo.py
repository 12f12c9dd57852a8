"""`make demo`: build a knowledge base from documents that this machine has, and query it.

The documents are the long descriptions of the installed Python packages, and, where the development
data lies beside the project, its corpora (never its questions).
"""

import os
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INPUT, KB = ROOT / "demo-input", ROOT / "demo.kb"
SHARED = ROOT.parent / "shared" / "data"
CORPORA = (
    SHARED / "security" / "cheatsheets" / "cheatsheets",
    SHARED / "retrieval" / "xquad_zh" / "corpus",
)
QUERIES = (
    ("read a parquet file into memory", ()),
    ("nearest neighbour search on vectors", ("--where", "source=packages")),
)
SHARED_QUERIES = (
    ("how should a session id be renewed after login?", ()),
    ("CWE-841", ("--mode", "lexical")),
    ("超级碗50的冠军是谁？", ()),
)


def write_descriptions(folder: Path) -> int:
    """One Markdown file a package, its name, version and summary as front matter."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = 0
    for dist in sorted(distributions(), key=lambda d: str(d.metadata["Name"]).lower()):
        text = dist.metadata.get_payload() or dist.metadata.get("Description") or ""
        name = str(dist.metadata["Name"])
        if not isinstance(text, str) or len(text) < 200:
            continue
        head = f"---\ntitle: {name}\nversion: '{dist.version}'\n---\n"
        (folder / f"{name}.md").write_text(head + text, encoding="utf-8", errors="replace")
        written += 1
    return written


def stillroom(*arguments: str) -> None:
    """Run the command line as a user would, showing the command."""
    shown = " ".join(f"'{a}'" if " " in a or not a.isascii() else a for a in arguments)
    sys.stdout.write(f"\n$ stillroom {shown}\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "stillroom.pipelines.cli", *arguments], check=True)


def main() -> None:
    packages = INPUT / "packages"
    count = write_descriptions(packages)
    here = [path for path in CORPORA if path.is_dir()]
    sys.stdout.write(f"{count} package descriptions and {len(here)} other corpora\n")
    shutil.rmtree(KB, ignore_errors=True)
    sources = [os.path.relpath(path) for path in (packages, *here)]
    kb = os.path.relpath(KB)
    stillroom("build", "corpus", *sources, "--kb", kb, "--workers", "2")
    stillroom("status", kb)
    for text, options in QUERIES + (SHARED_QUERIES if len(here) == len(CORPORA) else ()):
        stillroom("query", kb, text, "-k", "3", "--explain", *options)


if __name__ == "__main__":
    main()
