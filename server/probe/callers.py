"""From where else a line can be reached: calls of the function around it, and of those that call it, by name."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from .. import newer

MAX_DEPTH = 3  # callers of callers: beyond, programs come together in one main
MAX_SITES = 64
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPLICIT = frozenset({"forward", "__call__", "<lambda>"})  # called through the object: no name to look for


def _parse(text: str) -> ast.Module:
    """The tree of a file, which may be for a newer Python than this: its lines and calls are right."""
    try:
        return ast.parse(text)
    except SyntaxError:
        older = newer.older(text)
        if older is None:
            raise
    return ast.parse(older.text)


class Callers:
    """Call sites in a few files, read once; a file that is gone or broken has none."""

    def __init__(self, files: Iterable[str]) -> None:
        self._calls: dict[str, set[tuple[str, int]]] = {}
        self._functions: dict[str, list[tuple[int, int, str]]] = {}
        for file in sorted(set(files)):
            try:
                tree = _parse(Path(file).read_text(encoding="utf-8"))
            except (OSError, ValueError, SyntaxError, RecursionError):
                continue
            self._read(file, tree)

    def _read(self, file: str, tree: ast.Module) -> None:
        functions = self._functions.setdefault(file, [])
        todo: list[tuple[ast.AST, int, str]] = [(tree, 0, "")]
        while todo:
            node, line, cls = todo.pop()
            if isinstance(node, ast.stmt):
                line = node.lineno
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name:
                    self._calls.setdefault(name, set()).add((file, line))
            if isinstance(node, FUNCTIONS):
                name = cls if node.name == "__init__" and cls else node.name
                functions.append((node.lineno, node.end_lineno or node.lineno, name))
            inner = node.name if isinstance(node, ast.ClassDef) else "" if isinstance(node, FUNCTIONS) else cls
            todo.extend((child, line, inner) for child in ast.iter_child_nodes(node))

    def sites(self, file: str, line: int) -> set[tuple[str, int]]:
        """`(file, line)` of each statement that may lead to this line by a call."""
        out: set[tuple[str, int]] = set()
        level = {(file, line)}
        for _ in range(MAX_DEPTH):
            names = {name for place in level if (name := self._around(*place)) and name not in IMPLICIT}
            level = {site for name in names for site in self._calls.get(name, ())} - out
            out |= level
            if not level or len(out) > MAX_SITES:
                break
        return out

    def _around(self, file: str, line: int) -> str:
        """The innermost function that holds the line; empty at the top level."""
        holding = [f for f in self._functions.get(file, ()) if f[0] <= line <= f[1]]
        return max(holding)[2] if holding else ""
