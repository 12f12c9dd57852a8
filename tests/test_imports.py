"""Which room may import which, and what a reader's process never loads."""

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = {
    "schemas": {"schemas"},
    "query": {"schemas", "query"},
    "transforms": {"schemas", "query", "transforms"},
    "pipelines": {"schemas", "query", "transforms", "pipelines"},
}
MODULES = [(room, path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
IDS = [f"{path.parent.name}/{path.stem}" for _, path in MODULES]
HEAVY = {
    "apache_beam",
    "lance",
    "lancedb",
    "pandas",
    "sentence_transformers",
    "torch",
    "transformers",
}


def imported(tree: ast.AST) -> list[str]:
    """Dotted names of all imports below a node; `from a.b import c` gives a.b and a.b.c."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def at_module_level(path: Path) -> set[str]:
    """Top names imported when the module is: not those inside functions."""
    names: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.update(name.split(".")[0] for name in imported(node))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return names


def room_of(name: str) -> str:
    second = name.split(".")[1] if "." in name else ""
    return second if second in ("schemas", "transforms", "pipelines") else "query"


@pytest.mark.parametrize(("room", "path"), MODULES, ids=IDS)
def test_rooms_import_only_what_they_may(room, path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = imported(node)
        assert not {n.split(".")[0] for n in names} & (set(ROOMS) | {"tests"}), names
        # `from stillroom import engine` is of the room of its last name.
        if isinstance(node, ast.ImportFrom):
            names = names[1:] if node.module == "stillroom" else names[:1]
        for name in names:
            if name.split(".")[0] == "stillroom":
                assert room_of(name) in ROOMS[room], f"{path}:{node.lineno} imports {name}"


@pytest.mark.parametrize(
    ("room", "path"),
    [module for module in MODULES if module[0] in ("schemas", "query")],
    ids=[name for name in IDS if name.split("/")[0] in ("schemas", "query")],
)
def test_readers_load_nothing_heavy_with_a_module(room, path):
    assert not at_module_level(path) & HEAVY


def test_the_command_line_loads_nothing_heavy_with_its_module():
    assert not at_module_level(ROOT / "pipelines" / "cli.py") & HEAVY


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_lexical_search_loads_no_framework(small_kb):
    code = """
        import sys
        import stillroom
        kb = stillroom.open(sys.argv[1])
        hits = kb.search("Nat.succ_le_of_lt", mode="lexical")
        assert hits and hits[0].source_key == "lean.md", hits
        assert hits[0].reasons and len(hits.to_list()) == len(hits)
        print("loaded:", *sorted(set(sys.argv[2:]) & set(sys.modules)))
    """
    assert run(code, str(small_kb.path), *HEAVY).split() == ["loaded:"]


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["query", "KB", "lattice", "--mode", "lexical", "--json"], ["status", "KB"]],
    ids=lambda arguments: arguments[0],
)
def test_reading_commands_load_no_framework(arguments, small_kb):
    code = """
        import sys
        heavy, sys.argv = set(sys.argv[1].split(",")), ["stillroom", *sys.argv[2:]]
        from stillroom.pipelines.cli import main
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code
        print("loaded:", *sorted(heavy & set(sys.modules)))
    """
    filled = [str(small_kb.path) if word == "KB" else word for word in arguments]
    assert run(code, ",".join(sorted(HEAVY)), *filled).splitlines()[-1].strip() == "loaded:"
