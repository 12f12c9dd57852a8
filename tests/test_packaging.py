"""The package list against the tree, the extras against the messages that name them, py.typed."""

import ast
import fnmatch
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]
EXTRAS = PROJECT["project"]["optional-dependencies"]
SOURCES = [
    path for folder in SETUPTOOLS["package-dir"].values() for path in (ROOT / folder).rglob("*.py")
]


def packages_in_tree() -> set[str]:
    found = set()
    for name, folder in SETUPTOOLS["package-dir"].items():
        for path in (ROOT / folder).rglob("*.py"):
            inside = path.parent.relative_to(ROOT / folder).parts
            found.add(".".join((name, *inside)))
    return found


def test_every_folder_of_modules_is_a_listed_package():
    assert packages_in_tree() == set(SETUPTOOLS["packages"])


@pytest.mark.parametrize("package", SETUPTOOLS["packages"])
def test_packages_are_typed_and_importable(package):
    folder = ROOT / SETUPTOOLS["package-dir"][package]
    assert (folder / "py.typed").is_file()
    assert (folder / "__init__.py").is_file()


def test_py_typed_is_package_data():
    assert "py.typed" in SETUPTOOLS["package-data"]["*"]


def test_every_file_of_a_package_is_installed_with_it():
    patterns = [*SETUPTOOLS["package-data"]["*"], "*.py"]
    for folder in SETUPTOOLS["package-dir"].values():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns), path


def test_extras_that_messages_name_exist():
    named = set()
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "MissingExtra":
                extra = node.args[1]
                assert isinstance(extra, ast.Constant), f"{path}:{node.lineno}"
                named.update(extra.value.split(","))
        for listed in re.findall(r"stillroom\[([a-z,]+)\]", text):
            named.update(listed.split(","))
    assert "build" in named
    assert named <= set(EXTRAS)


def test_extras_refer_to_extras_that_exist():
    for wanted in EXTRAS.values():
        for line in wanted:
            if line.startswith("stillroom["):
                assert set(line[len("stillroom[") : -1].split(",")) <= set(EXTRAS)


def test_the_script_exists():
    module, function = PROJECT["project"]["scripts"]["stillroom"].split(":")
    imported = __import__(module, fromlist=[function])
    assert callable(getattr(imported, function))
