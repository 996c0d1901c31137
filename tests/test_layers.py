"""What may import what: the engine works on texts alone, and each outside library is known to one place.

Imports are read from the source, so that one inside a function counts, too.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gradline

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SERVER = Path(gradline.__file__).parent
PROJECT = SERVER.parent

# Above the line: pure. Below it: files, settings, terminals, editors, processes.
ABOVE = {
    "analyzers", "check", "edits", "facts", "findings", "flow", "insight", "ir", "manual", "memo", "messages", "names", "newer",
    "notebooks", "project", "reading", "refactor", "reuse", "room", "rule", "state", "summary", "suppress", "text", "torchlib", "units",
    "words",
}  # fmt: skip
BELOW = {
    "__main__",
    "cache",
    "cli",
    "config",
    "disk",
    "environment",
    "families",
    "jobs",
    "language",
    "lsp",
    "mcp",
    "paths",
    "patterns",
    "plain",
    "probe",
    "report",
    "watch",
    "why",
    "workspace",
}

OUTSIDE = {
    "asyncio", "http", "io", "jedi", "lsprotocol", "mcp", "multiprocessing", "os", "pathlib", "pathspec", "platformdirs",
    "pygls", "rich", "runpy", "shutil", "socket", "subprocess", "tempfile", "threading", "torch",
}  # fmt: skip

# Who may import an outside library; nobody else does.
OWNERS = {
    "torch": {"probe"},
    "jedi": {"environment"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
    "libcst": {"edits", "analyzers"},
    "mcp": {"mcp"},
    "pathspec": {"config", "disk", "patterns"},
    "rich": {"cli", "mcp", "probe", "report"},
}

# Data that comes with the package is read by these, through importlib.resources.
READ_PACKAGE_DATA = {"cli", "manual", "messages", "rule", "torchlib", "words"}

FILES = sorted(path for path in SERVER.rglob("*.py") if "__pycache__" not in path.parts)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part(path: Path) -> str:
    """The module or package of the top level that a file belongs to; the empty name is the package's own `__init__`."""
    relative = path.relative_to(SERVER)
    return relative.parts[0].removesuffix(".py") if relative != Path("__init__.py") else ""


def imports(path: Path) -> Iterator[str]:
    """Dotted names of what a file imports; those of gradline's own modules begin with `gradline.`."""
    package = ["gradline", *path.relative_to(SERVER).parent.parts]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")] if node.module else base
            yield from (".".join([*module, alias.name]) for alias in node.names)


def ids(path: Path) -> str:
    return path.relative_to(SERVER).as_posix()


def test_every_module_is_on_one_side_of_the_line():
    assert not ABOVE & BELOW
    assert {part(path) for path in FILES} - {""} <= ABOVE | BELOW


@pytest.mark.parametrize("path", [path for path in FILES if part(path) in ABOVE], ids=ids)
def test_the_engine_knows_no_outside_world(path):
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "gradline":
            assert not rest or rest[0] not in BELOW, f"imports {name}, which is below the line"
        assert top not in OUTSIDE and not name.startswith("urllib.request"), f"imports {name}"
        if name.startswith("importlib.resources"):
            assert part(path) in READ_PACKAGE_DATA, "reads package data"
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    opened = [
        node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("open", "print", "input")
    ]
    assert not opened, f"opens or prints in lines {opened}"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_each_library_has_its_place(path):
    for name in imports(path):
        owners = OWNERS.get(name.split(".")[0])
        assert owners is None or part(path) in owners, f"imports {name}"


@pytest.mark.parametrize(
    "path", [path for path in FILES if part(path) not in ("__main__", "cli", "lsp", "mcp", "probe")], ids=ids
)
def test_faces_are_imported_by_nobody(path):
    for name in imports(path):
        if name.startswith("gradline.probe.watch") and part(path) in ("", "watch"):
            continue  # `gradline.watch(...)` in a user's loop: loaded when it is asked for
        assert not name.startswith(("gradline.cli.", "gradline.lsp", "gradline.probe")), f"imports {name}"


def test_imports_inside_the_package_are_relative():
    for path in FILES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert (node.module or "").split(".")[0] != "gradline", f"{ids(path)}:{node.lineno}"


def test_packages_are_listed():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    listed = project["tool"]["setuptools"]["packages"]
    there = {
        ".".join(["gradline", *path.parent.relative_to(SERVER).parts]) for path in FILES if path.name == "__init__.py"
    }
    assert there <= set(listed)
    assert len(listed) == len(set(listed))
    for name in set(listed) - there:  # folders of data, listed as setuptools wants it
        assert SERVER.joinpath(*name.split(".")[1:]).is_dir(), name
    # a folder with modules and without __init__.py would be left out of the wheel without a word, unless it is data
    data = project["tool"]["setuptools"]["package-data"]["gradline"]
    loose = {path.parent for path in FILES} - {path.parent for path in FILES if path.name == "__init__.py"}
    assert {f"{folder.relative_to(SERVER).as_posix()}/*.py" for folder in loose} <= set(data)
