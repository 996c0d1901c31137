"""From a text that is Python, of this version or of a newer one, to its IR: parsed, and lowered at once."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any, cast

from .. import ir, newer
from ..text import line_starts, utf8_columns
from .lowering import Lines, Unread, body_of

_FILE = "<gradline>"  # the name of the text in warnings
warnings.filterwarnings("ignore", module=re.escape(_FILE) + r"\Z")  # of invalid escapes and the like: not our business

BLANKS = (" ", "\t", "\f")


def parse(text: str) -> ast.Module:
    """The tree of `text`; raises whatever `compile` raises."""
    try:
        return cast("ast.Module", compile(text, _FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
    except SyntaxError:
        # Under `-W error` a warning comes as a SyntaxError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cast("ast.Module", compile(text, _FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))


def strict(text: str, base: int = 0) -> ir.Body:
    """The statements of `text`, which stands at `base` in its unit; raises whatever parser or lowering raise."""
    try:
        return _lowered(text, base)
    except SyntaxError:
        older = newer.older(text)
        if older is None:
            raise
    return _lowered(text, base, older)


def _lowered(text: str, base: int, older: newer.Older | None = None) -> ir.Body:
    """The statements of `text`, parsed as the older Python has it, if given."""
    parsed = text if older is None else older.text
    if text[:1] in BLANKS and indentation(text):
        tree = parse("if 1:\n" + parsed).body[0].body  # type: ignore[attr-defined]
        starts: Lines = [text, 0]  # the line of the `if`
    else:
        tree = parse(parsed).body
        starts = [text]
    if base:
        starts += [start + base for start in line_starts(text)]
    else:
        starts += line_starts(text)
    if not parsed.isascii():
        _columns_to_characters(tree, parsed, starts, base)
    if older is not None:
        tree = _Newer(older.marks, starts, base).generic_visit(ast.Module(tree, [])).body  # type: ignore[attr-defined]
    if base:
        starts[0] = _Based(text, base)
    return body_of(tree, starts)


class _Newer(ast.NodeTransformer):
    """Puts what a newer Python has added in the place of what was written for it (see `newer.py`)."""

    def __init__(self, marks: dict[int, str], starts: Lines, base: int) -> None:
        self.marks = marks
        self.starts = starts
        self.base = base
        self.lazy: ast.Expr | None = None  # the word before an import

    def marked(self, node: Any, mark: str) -> bool:
        return self.marks.get(self.starts[node.lineno] + node.col_offset - self.base) == mark

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        self.generic_visit(node)
        if not self.marked(node, newer.LAZY):
            return node
        self.lazy = node
        return None

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.AST:
        if self.lazy is not None:
            node.col_offset = self.lazy.col_offset
            self.lazy = None
        return node

    visit_ImportFrom = visit_Import

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        self.generic_visit(node)
        if not self.marked(node, newer.STRING):
            return node
        values: list[ast.expr] = [ast.FormattedValue(value, -1, None) for value in node.elts]
        return ast.copy_location(ast.JoinedStr(values), node)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        self.generic_visit(node)
        caught = node.type
        if type(caught) is ast.Compare and self.marked(caught, newer.EXCEPT):
            node.type = ast.copy_location(ast.Tuple([caught.left, *caught.comparators], ast.Load()), caught)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if self.marked(node, newer.ALIAS):
            node.targets = [node.targets[0].elts[1]]  # type: ignore[attr-defined]
            node.value = ast.copy_location(Unread(), node.value)
        return node


class _Based:
    """A text that stands at `base` in its unit: what lowering asks of a text, by offsets into the unit."""

    def __init__(self, text: str, base: int) -> None:
        self.text = text
        self.base = base

    def __getitem__(self, part: slice) -> str:
        return self.text[part.start - self.base : part.stop - self.base]

    def find(self, word: str, start: int, end: int) -> int:
        found = self.text.find(word, start - self.base, end - self.base)
        return found if found < 0 else found + self.base


def _columns_to_characters(body: list[ast.stmt], text: str, starts: Lines, base: int) -> None:
    """ast counts the bytes of UTF-8: put code points in their place on the lines where that differs."""
    columns: dict[int, list[int]] = {}
    for line in range(1, len(starts)):
        end = starts[line + 1] - base if line + 1 < len(starts) else len(text)
        part = text[starts[line] - base : end]
        if not part.isascii():
            columns[line] = utf8_columns(part)
    for statement in body:
        for node in ast.walk(statement):
            line = getattr(node, "lineno", None)
            if line is None:
                continue
            if (table := columns.get(line)) is not None:
                node.col_offset = table[min(node.col_offset, len(table) - 1)]  # type: ignore[attr-defined]
            if (table := columns.get(node.end_lineno)) is not None:  # type: ignore[attr-defined]
                node.end_col_offset = table[min(node.end_col_offset, len(table) - 1)]  # type: ignore[attr-defined]


def indentation(text: str) -> str:
    """The indentation of the first line; a form feed starts the count again."""
    return text[: len(text) - len(text.lstrip(" \t\f"))].rpartition("\f")[2]


def with_parts(statement: Any, parts: dict[int, ir.Body]) -> Any:
    """A statement that was read without its bodies, with them: by the place of the one character that stood for each."""
    changed: dict[str, Any] = {}
    for field in ("body", "orelse", "final"):
        inner = getattr(statement, field, None)
        if not inner or not isinstance(inner, tuple):
            continue
        last = inner[-1]
        kind = type(last)
        if kind is ir.ExprStmt and (found := parts.get(last.at >> 32)) is not None:
            changed[field] = inner[:-1] + found
        elif field == "orelse" and kind is ir.If:
            changed[field] = (*inner[:-1], with_parts(last, parts))
    if type(statement) is ir.Try:
        changed["handlers"] = tuple([with_parts(handler, parts) for handler in statement.handlers])
    return statement._replace(**changed) if changed else statement
