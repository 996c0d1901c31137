"""From the text of a unit to its IR, on any text, without ever raising.

The stdlib `ast` reads the text; its tree is lowered to the nodes of `ir.py` and dropped at once: no tree leaves this
file. Text that `ast` refuses is read by indentation: the cut of `units.py` is applied again inside it, statement by
statement, clause by clause, and what still cannot be read becomes an `ir.Hole` that names the words in it.

A text may be indented as a whole (a class's member stands in its file with its indentation): it starts at the start of
its first line, and all positions count from there.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from . import ir, newer
from .ir import pack
from .memo import Recent
from .text import line_starts, utf8_columns
from .units import Region, clauses, mask, statements

# `a + b + c ...` and `elif` chains nest once per link and everything behind recurses over them, a few frames per link,
# under Python's limit of 1,000 frames. The longest written by hand in 1.5 million lines is well below.
MAX_CHAIN = 120

# Characters of text whose reading is remembered: about 0.8 MB of IR per 1,000 lines.
MEMO_CHARACTERS = 400_000  # 10,000 lines: where programs of more are followed again, reading them is a tenth of it

_FILE = "<gradline>"  # the name of the text in warnings
warnings.filterwarnings("ignore", module=re.escape(_FILE) + r"\Z")  # of invalid escapes and the like: not our business

_LEAD = re.compile(r"\s*")
_BLANKS = (" ", "\t", "\f")

Lines = list[Any]  # [the text, offset of line 1, offset of line 2, ...]: ast counts lines from 1


class Reading(NamedTuple):
    """What a text says; `broken` if any of it was not Python."""

    body: ir.Body
    broken: bool


# ---------------------------------------------------------------- memo


_memo: Recent[str, Reading] = Recent(MEMO_CHARACTERS)


def forget() -> None:
    """Drop every remembered reading (for measurements, and when memory is short)."""
    _memo.clear()


def remembered() -> int:
    """How many readings are remembered."""
    return len(_memo)


def lowered() -> frozenset[type]:
    """The node types of `ast` that have a place in the IR."""
    return frozenset(_STATEMENT) | frozenset(_EXPRESSION)


def reading(text: str) -> Reading:
    """The statements of a unit's text and whether it is broken; positions count from its start. Never raises."""
    return _memo.get(text) or _memo.put(text, _read(text))


def read(text: str) -> ir.Body:
    """The statements of a unit's text, positions from its start; what is not Python is a `Hole`. Never raises."""
    return reading(text).body


def fault(text: str) -> SyntaxError | ValueError | None:
    """Why a text is not Python, neither of this version nor of a newer one that is known here; None if it is, or is
    nested too deep for this parser, which is another thing."""
    try:
        try:
            _parse(text)
        except SyntaxError:
            older = newer.older(text)
            if older is None:
                raise
            _parse(older.text)
    except (SyntaxError, ValueError) as error:  # of null bytes, to some versions
        return error
    except (RecursionError, MemoryError):
        pass
    return None


def skeleton(text: str, regions: tuple[Region, ...]) -> Reading:
    """A class or long block whose bodies are units of their own: the statement, with a `Part` for each child.

    `regions` are the bodies, in order, as offsets into `text`. Never raises; an unreadable header is kept as a
    statement of its kind with holes in it.
    """
    pieces: list[str] = []
    parts: dict[int, ir.Body] = {}
    at = 0
    for region in regions:
        # The body becomes spaces and, as its last character, one statement: the ends of all nodes come out right
        start = region.start + len(_LEAD.match(text, region.start, region.end - 1)[0])  # type: ignore[index]
        pieces.append(text[at:start])
        pieces.append(" " * (region.end - start - 1) + "0")
        at = region.end
        parts[region.end - 1] = tuple(
            [ir.Part(pack(start, end), region.first + k) for k, (start, end) in enumerate(region.spans)]
        )
    pieces.append(text[at:])
    bare = "".join(pieces)
    body, broken = _read(bare)
    return Reading(tuple([_with_parts(statement, parts) for statement in body]), broken)


def _with_parts(statement: Any, parts: dict[int, ir.Body]) -> Any:
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
            changed[field] = (*inner[:-1], _with_parts(last, parts))
    if type(statement) is ir.Try:
        changed["handlers"] = tuple([_with_parts(handler, parts) for handler in statement.handlers])
    return statement._replace(**changed) if changed else statement


# ---------------------------------------------------------------- reading whole text


def _parse(text: str) -> ast.Module:
    """The tree of `text`; raises whatever `compile` raises."""
    try:
        return cast("ast.Module", compile(text, _FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))
    except SyntaxError:
        # Under `-W error` a warning comes as a SyntaxError
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cast("ast.Module", compile(text, _FILE, "exec", ast.PyCF_ONLY_AST, dont_inherit=True))


def _strict(text: str, base: int = 0) -> ir.Body:
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
    if text[:1] in _BLANKS and _indentation(text):
        tree = _parse("if 1:\n" + parsed).body[0].body  # type: ignore[attr-defined]
        starts: Lines = [text, 0]  # the line of the `if`
    else:
        tree = _parse(parsed).body
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
    return _body(tree, starts)


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
            node.value = ast.copy_location(_Unread(), node.value)
        return node


class _Unread(ast.expr):
    """An expression that is not evaluated when it is reached."""


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


def _indentation(text: str) -> str:
    """The indentation of the first line; a form feed starts the count again."""
    return text[: len(text) - len(text.lstrip(" \t\f"))].rpartition("\f")[2]


def _read(text: str) -> Reading:
    try:
        return Reading(_strict(text), False)
    except Exception:  # SyntaxError, ValueError, RecursionError, MemoryError, ...: reading never raises
        pass
    try:
        masked = mask(text, closed=True)
        return Reading(tuple(_Recovery(text, masked).body(0, len(text))), True)
    except Exception:  # nested deeper than the stack
        return Reading((ir.Hole(pack(0, len(text)), words(text)),), True)


# ---------------------------------------------------------------- reading broken text

_WORD = re.compile(r"[^\W\d]\w*")
_HEAD = re.compile(r"[ \t\f]*(?:async[ \t]+)?(\w+)")
_NAME = re.compile(r"[ \t\f]*(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)")
_COMPOUND = frozenset(["def", "class", "if", "for", "while", "with", "try"])
_CLAUSES = frozenset(["elif", "else", "except", "finally"])


_BREAK = re.compile("\n")
_BRACKET = re.compile(r"[()\[\]{}]")

# What may stand for a line that cannot be read: keywords or items of a dict, arguments, an item, an operand, nothing.
# The letter is a name that nobody uses.
_LETTER = "\u01c3"
_STAND_INS = (f"**{_LETTER},", f"*{_LETTER},", f"{_LETTER},", _LETTER, "")
MAX_PARTED = 20  # how often in one text lines that were held together are parted one by one: each time reads the rest
MAX_SUSPECTS = 10  # lines of a statement that are tried as the one at fault, in five ways each
MENDED_LINES = 60  # a statement of more lines is a table; each try reads all of it again


def _put(node: Any, hole: ir.Hole) -> Any:
    """The node with the hole in the place of the letter that stood for it."""
    if type(node) is ir.Name:
        return hole if node.id == _LETTER else node
    if not isinstance(node, tuple):
        return node
    inner = [_put(item, hole) for item in node]
    return _new(type(node), inner)


def words(text: str) -> tuple[str, ...]:
    """The identifiers in a text, each once, in order; those in strings too, as a broken f-string hides names."""
    found = dict.fromkeys(_WORD.findall(text))
    return tuple([word for word in found if not keyword.iskeyword(word)])


class _Recovery:
    """The reading of one broken text by indentation."""

    def __init__(self, text: str, masked: str) -> None:
        self.text = text
        self.masked = masked
        self.parted = 0

    def hole(self, start: int, end: int) -> ir.Hole:
        kept = self.masked[start:end]
        start += len(kept) - len(kept.lstrip())
        end -= len(kept) - len(kept.rstrip())
        return ir.Hole(pack(start, max(start, end)), words(self.text[start:end]))

    def body(self, start: int, end: int, joined: bool = True) -> list[Any]:
        """The statements of a body at the indentation of its first line. `start` is the start of a line."""
        found: list[Any] = []
        for piece in statements(self.masked, start, end, self.indent(start, end), joined):
            try:
                found += _strict(self.text[piece.start : piece.end], piece.start)
            except Exception:
                found += self.piece(piece.start, piece.end, joined)
        return found

    def indent(self, start: int, end: int) -> str:
        """The indentation of the first line that holds code."""
        kept = self.masked[start:end].lstrip()
        first = self.masked.rfind("\n", start, end - len(kept)) + 1 if kept else start
        return _indentation(self.masked[max(first, start) : end])

    def piece(self, start: int, end: int, joined: bool) -> list[Any]:
        """One broken statement."""
        indent = self.indent(start, end)
        whole = self.compound(start, end, indent)
        if whole is not None:
            return whole
        apart = statements(self.masked, start, end, indent, False) if joined else []
        if len(apart) > 1:
            # Brackets or a backslash held the lines together: the first alone, then what the others make of themselves
            found: list[Any] = []
            at = apart[1].start
            found += self.body(start, at, False)
            self.parted += 1
            return found + self.body(at, end, self.parted < MAX_PARTED)
        line = self.masked.find("\n", start, end)
        if line < 0:
            return [self.hole(start, end)]
        if not self.orphan(start):
            return self.mended(start, end) or [self.hole(start, end)]
        return [self.hole(start, line), *self.body(line + 1, end)]

    def mended(self, start: int, end: int) -> list[Any] | None:
        """A statement of several lines, one of which is being typed inside its brackets: the statement with a hole in
        the place of that line. None if no one line is at fault."""
        lines = self.line_spans(start, end)
        if not 2 <= len(lines) <= MENDED_LINES:
            return None
        for number in self.suspects(self.text[start:end], lines):
            a, b = lines[number]
            content = self.masked[a:b]
            a += len(content) - len(content.lstrip())
            b -= len(content) - len(content.rstrip())
            hole = self.hole(a, b)
            for stand_in in _STAND_INS:
                if len(stand_in) > b - a:
                    continue
                text = self.text[start:a] + stand_in + " " * (b - a - len(stand_in)) + self.text[b:end]
                try:
                    found = _strict(text, start)
                except Exception:
                    continue
                return [_put(statement, hole) for statement in found] if stand_in else [hole, *found]
        return None

    def line_spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where the lines of a part begin and end, those inside strings not counted as lines."""
        breaks = [at.start() for at in _BREAK.finditer(self.masked, start, end)]
        return list(zip([start, *[at + 1 for at in breaks]], [*breaks, end], strict=True))

    def suspects(self, text: str, lines: list[tuple[int, int]]) -> list[int]:
        """The numbers of the lines that may be at fault for `text` being broken, the likeliest first."""
        named = 0
        try:
            _strict(text)
        except SyntaxError as error:
            named = (error.lineno or 1) - (2 if text[:1] in _BLANKS and _indentation(text) else 1)
        except Exception:
            return []
        starts = line_starts(text)
        at = lines[0][0] + starts[min(max(named, 0), len(starts) - 1)]
        named = bisect_right([a for a, _ in lines], at) - 1
        opened: list[tuple[str, int]] = []
        clashing: list[int] = []
        opening: list[int] = []
        for number, (a, b) in enumerate(lines):
            before = len(opened)
            for bracket in _BRACKET.findall(self.masked, a, b):
                if bracket in "([{":
                    opened.append((bracket, number))
                elif opened and opened[-1][0] + bracket in ("()", "[]", "{}"):
                    opened.pop()
                else:
                    clashing += [opened[-1][1], number] if opened else [number]
            if len(opened) > before:
                opening.append(number)
        unclosed = [number for _, number in reversed(opened)]
        wanted = dict.fromkeys([named, *unclosed, *clashing, *reversed(opening), named - 1, named + 1])
        return [number for number in wanted if 0 < number < len(lines)][:MAX_SUSPECTS]

    def orphan(self, start: int) -> bool:
        """Whether a clause or statement with a body begins here, whose body is worth reading alone."""
        head = _HEAD.match(self.masked, start)
        return head is not None and (head[1] in _CLAUSES or head[1] in _COMPOUND)

    def compound(self, start: int, end: int, indent: str) -> list[Any] | None:
        """A statement with bodies: its headers read without them, and its bodies again. None if it is none."""
        found = clauses(self.masked, start, end, indent, broken=True)
        if not found or not any(clause.body < clause.end for clause in found):
            return None
        head = _HEAD.match(self.masked, found[0].start)
        if head is None or head[1] not in _COMPOUND:
            return None
        if len(found) > MAX_CHAIN:
            return [self.hole(start, end)]
        # A clause without a body is a line being typed: it stands before what it would tear apart
        typed = [clause for clause in found[1:] if clause.body == clause.end and clause.end == self.line_end(clause)]
        holes: list[Any] = [self.hole(clause.start, clause.end) for clause in typed]
        found = [clause for clause in found if clause not in typed]
        bodies = [self.body(clause.body, clause.end) if clause.body < clause.end else [] for clause in found]
        bare = self.text[start:end]
        parts: dict[int, ir.Body] = {}
        for clause, body in zip(found, bodies, strict=True):
            if clause.body < clause.end:
                at = clause.body + len(_LEAD.match(self.text, clause.body, clause.end - 1)[0])  # type: ignore[index]
                bare = bare[: at - start] + " " * (clause.end - at - 1) + "0" + bare[clause.end - start :]
                parts[clause.end - 1] = tuple(body)
        for clause in typed:
            bare = bare[: clause.start - start] + " " * (clause.end - clause.start) + bare[clause.end - start :]
        try:
            read: Any = _strict(bare, start)
        except Exception:
            read = self.undecorated(bare, start, found[0].start) or self.mended_header(bare, start, found[0], holes)
        if read is None:
            return [*holes, *self.patched(head[1], found, bodies, self.decorators(start, found[0].start), end)]
        return [*holes, *[_with_parts(statement, parts) for statement in read]]

    def undecorated(self, bare: str, start: int, head: int) -> Any:
        """The bare statement at `head`, if it is only the decorators above it that are broken."""
        if start == head:
            return None
        try:
            read = _strict(bare[head - start :], head)
        except Exception:
            return None
        if type(read[0]) not in (ir.Def, ir.Class):
            return [self.hole(start, head), *read]
        return [read[0]._replace(decorators=self.decorators(start, head))]

    def line_end(self, clause: Any) -> int:
        at = self.masked.find("\n", clause.start, clause.end)
        return clause.end if at < 0 else at

    def mended_header(self, bare: str, start: int, first: Any, holes: list[Any]) -> Any:
        """The bare statement without the one line of its first header that is being typed, which goes to the holes."""
        lines = self.line_spans(start, first.body - 1)
        if not 2 <= len(lines) <= MENDED_LINES:
            return None
        for number in self.suspects(bare, lines):
            a, b = lines[number]
            for stand_in in ("", f"{_LETTER},", _LETTER):
                if len(stand_in) > b - a:
                    continue
                text = bare[: a - start] + (stand_in + " " * (b - a - len(stand_in))) + bare[b - start :]
                try:
                    read = _strict(text, start)
                except Exception:
                    continue
                hole = self.hole(a, b)
                holes.append(hole)
                return [_put(statement, hole) for statement in read]
        return None

    def decorators(self, start: int, end: int) -> tuple[Any, ...]:
        """The decorators above a header that cannot be read."""
        found: list[Any] = []
        for piece in statements(self.masked, start, end, self.indent(start, end), False) if start < end else []:
            at = self.masked.find("@", piece.start, piece.end)
            try:
                if at < 0:
                    continue
                # spaces for the `@`: an expression that stands where the decorator does
                read: Any = _strict(self.text[piece.start : at] + " " + self.text[at + 1 : piece.end], piece.start)
                found += [statement.value for statement in read]
            except Exception:
                found.append(self.hole(piece.start, piece.end))
        return tuple(found)

    def patched(self, kind: str, found: list[Any], bodies: list[list[Any]], decorators: Any, end: int) -> list[Any]:
        """The statement that these clauses were going to be, with a hole for each header that cannot be read."""
        first = found[0]
        hole = self.hole(first.start, first.body)
        body = tuple(bodies[0])
        at = pack(hole.at >> 32, end)
        is_async = self.masked.startswith("async", hole.at >> 32)
        if kind in ("def", "class"):
            named = _NAME.match(self.masked, first.start)
            if named is None:
                return [hole, *body]
            name, name_at = named[1], pack(*named.span(1))
            if kind == "class":
                return [ir.Class(at, name, name_at, (hole,), (), body, decorators)]
            # Whatever it is called with; what its header names is unknown in it
            params = (ir.Param(hole.at, "args", "*", None, None), ir.Param(hole.at, "kwargs", "**", None, None))
            is_generator = self.masked.find("yield", first.body, end) >= 0
            return [ir.Def(at, name, name_at, params, (hole, *body), decorators, None, is_async, is_generator)]
        rest: tuple[Any, ...] = ()
        handlers: list[ir.Handler] = []
        final: tuple[Any, ...] = ()
        for clause, inner in zip(reversed(found[1:]), reversed(bodies[1:]), strict=True):
            word = _HEAD.match(self.masked, clause.start)[1]  # type: ignore[index]
            here = self.hole(clause.start, clause.body)
            span = pack(here.at >> 32, end)
            if word == "elif":
                header = self.header(clause, "elif")
                rest = (ir.If(span, here if header is None else header.test, tuple(inner), rest),)
            elif word == "else":
                rest = tuple(inner)
            elif word == "except":
                handlers.insert(0, ir.Handler(span, here, None, tuple(inner)))
            else:
                final = tuple(inner)
        header = None if kind == "try" else self.header(first, kind)
        if kind == "if":
            return [ir.If(at, hole if header is None else header.test, body, rest)]
        if kind == "while":
            return [ir.While(at, hole if header is None else header.test, body, rest)]
        if kind == "for":
            target, over = (hole, hole) if header is None else (header.target, header.iter)
            return [ir.For(at, target, over, body, rest, is_async)]
        if kind == "with":
            return [ir.With(at, ((hole, None),) if header is None else header.items, body, is_async)]
        return [ir.Try(at, body, tuple(handlers), rest, final)]

    def header(self, clause: Any, kind: str) -> Any:
        """A statement of the header alone, with a body of nothing; None if the header cannot be read."""
        text = self.text[clause.start : clause.body].rstrip("\r\n")
        if kind == "elif":
            text = text.replace("elif", "  if", 1)
        try:
            read = _strict(text + " 0", clause.start)
        except Exception:
            return None
        return read[0] if len(read) == 1 and type(read[0]) is not ir.ExprStmt else None


# ---------------------------------------------------------------- lowering
# One function per node type, in a table by type; `s` is `Lines`. `tuple.__new__` makes a NamedTuple at half the price
# of calling its class.

_new: Callable[..., Any] = tuple.__new__


def _body(body: list[Any], s: Lines) -> ir.Body:
    table = _STATEMENT
    return tuple([table[type(n)](n, s) for n in body])


def _all(nodes: list[Any], s: Lines) -> tuple[Any, ...]:
    table = _EXPRESSION
    return tuple([table[type(n)](n, s) for n in nodes])


def _maybe(n: Any, s: Lines) -> Any:
    return None if n is None else _EXPRESSION[type(n)](n, s)


def _at(n: Any, s: Lines) -> int:
    return (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset)


def _hole(n: Any, s: Lines) -> Any:
    at = _at(n, s)
    return ir.Hole(at, words(s[0][at >> 32 : at & 0xFFFFFFFF]))


def _constant(n: Any, s: Lines) -> Any:
    return _new(ir.Const, ((s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset), n.value))


def _name(n: Any, s: Lines) -> Any:
    return _new(ir.Name, ((s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset), n.id))


def _attribute(n: Any, s: Lines) -> Any:
    v = n.value
    return _new(
        ir.Attr,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            _EXPRESSION[type(v)](v, s),
            n.attr,
        ),
    )


def _subscript(n: Any, s: Lines) -> Any:
    v, i = n.value, n.slice
    return _new(
        ir.Sub,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            _EXPRESSION[type(v)](v, s),
            _EXPRESSION[type(i)](i, s),
        ),
    )


def _slice(n: Any, s: Lines) -> Any:
    return ir.Slice(_at(n, s), _maybe(n.lower, s), _maybe(n.upper, s), _maybe(n.step, s))


def _call(n: Any, s: Lines) -> Any:
    table = _EXPRESSION
    f, args, keywords = n.func, n.args, n.keywords
    return _new(
        ir.Call,
        (
            (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
            table[type(f)](f, s),
            tuple([table[type(a)](a, s) for a in args]) if args else (),
            tuple([(k.arg, table[type(k.value)](k.value, s)) for k in keywords]) if keywords else (),
        ),
    )


def _starred(n: Any, s: Lines) -> Any:
    return ir.Star(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


_OPERATOR = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def _binary(n: Any, s: Lines) -> Any:
    left = n.left
    if type(left) is not ast.BinOp:
        right = n.right
        return _new(
            ir.Bin,
            (
                (s[n.lineno] + n.col_offset) << 32 | (s[n.end_lineno] + n.end_col_offset),
                _OPERATOR[type(n.op)],
                _EXPRESSION[type(left)](left, s),
                _EXPRESSION[type(right)](right, s),
            ),
        )
    chain = [n]  # down the left side without recursion: `a + b + c + ...` may be thousands long
    while type(left) is ast.BinOp:
        chain.append(left)
        left = left.left
    if len(chain) > MAX_CHAIN:
        return _hole(n, s)
    found = _EXPRESSION[type(left)](left, s)
    for n in reversed(chain):
        found = ir.Bin(_at(n, s), _OPERATOR[type(n.op)], found, _EXPRESSION[type(n.right)](n.right, s))
    return found


def _unary(n: Any, s: Lines) -> Any:
    return ir.Unary(_at(n, s), _OPERATOR[type(n.op)], _EXPRESSION[type(n.operand)](n.operand, s))


def _boolean(n: Any, s: Lines) -> Any:
    return ir.Bool(_at(n, s), _OPERATOR[type(n.op)], _all(n.values, s))


def _compare(n: Any, s: Lines) -> Any:
    ops = tuple([_OPERATOR[type(op)] for op in n.ops])
    return ir.Compare(_at(n, s), _EXPRESSION[type(n.left)](n.left, s), ops, _all(n.comparators, s))


def _conditional(n: Any, s: Lines) -> Any:
    return ir.IfExp(_at(n, s), *_all([n.test, n.body, n.orelse], s))


def _tuple(n: Any, s: Lines) -> Any:
    return _new(ir.Tuple, (_at(n, s), _all(n.elts, s)))


def _list(n: Any, s: Lines) -> Any:
    return _new(ir.List, (_at(n, s), _all(n.elts, s)))


def _set(n: Any, s: Lines) -> Any:
    return _new(ir.Set, (_at(n, s), _all(n.elts, s)))


def _dict(n: Any, s: Lines) -> Any:
    return ir.Dict(_at(n, s), tuple([_maybe(key, s) for key in n.keys]), _all(n.values, s))


def _comprehension(kind: str) -> Callable[[Any, Lines], Any]:
    def lower(n: Any, s: Lines) -> Any:
        generators = tuple(
            [_new(ir.Generator, (*_all([g.target, g.iter], s), _all(g.ifs, s), bool(g.is_async))) for g in n.generators]
        )
        if kind == "dict":
            if n.value is None:
                return _unpacked(n, _EXPRESSION[type(n.key)](n.key, s), kind, generators, s)
            return _new(ir.Comp, (_at(n, s), kind, *_all([n.key, n.value], s), generators))
        element = _EXPRESSION[type(n.elt)](n.elt, s)
        if type(element) is ir.Star:
            return _unpacked(n, element.value, kind, generators, s)
        return ir.Comp(_at(n, s), kind, None, element, generators)

    return lower


def _unpacked(n: Any, inner: Any, kind: str, generators: tuple[Any, ...], s: Lines) -> Any:
    """`[*a for a in b]` is `[x for a in b for x in a]`, `{**a for a in b}` goes over the items of each (Python 3.15)."""
    key = item = ir.Name(inner.at, _LETTER)
    over = inner
    if kind == "dict":
        item = ir.Name(inner.at, _LETTER * 2)
        over = ir.Call(inner.at, ir.Attr(inner.at, inner, "items"), (), ())
    target = ir.Tuple(inner.at, (key, item)) if kind == "dict" else item
    each = ir.Generator(target, over, (), False)
    return ir.Comp(_at(n, s), kind, key if kind == "dict" else None, item, (*generators, each))


def _parameters(n: ast.arguments, s: Lines) -> tuple[ir.Param, ...]:
    found: list[ir.Param] = []
    missing = len(n.posonlyargs) + len(n.args) - len(n.defaults)
    defaults = [None] * missing + [_EXPRESSION[type(d)](d, s) for d in n.defaults]
    for arg, default in zip(n.posonlyargs, defaults, strict=False):
        found.append(_parameter(arg, "pos", default, s))
    for arg, default in zip(n.args, defaults[len(n.posonlyargs) :], strict=True):
        found.append(_parameter(arg, "arg", default, s))
    if n.vararg is not None:
        found.append(_parameter(n.vararg, "*", None, s))
    for arg, value in zip(n.kwonlyargs, n.kw_defaults, strict=True):
        found.append(_parameter(arg, "kw", _maybe(value, s), s))
    if n.kwarg is not None:
        found.append(_parameter(n.kwarg, "**", None, s))
    return tuple(found)


def _parameter(n: ast.arg, kind: str, default: Any, s: Lines) -> Any:
    return _new(ir.Param, (_at(n, s), n.arg, kind, default, _maybe(n.annotation, s)))


def _lambda(n: Any, s: Lines) -> Any:
    return ir.Lambda(_at(n, s), _parameters(n.args, s), _EXPRESSION[type(n.body)](n.body, s))


def _await(n: Any, s: Lines) -> Any:
    return ir.Await(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


def _yield(n: Any, s: Lines) -> Any:
    return ir.Yield(_at(n, s), _maybe(n.value, s))


def _yield_from(n: Any, s: Lines) -> Any:
    return ir.YieldFrom(_at(n, s), _EXPRESSION[type(n.value)](n.value, s))


def _joined(n: Any, s: Lines) -> Any:
    return ir.Joined(_at(n, s), tuple(_interpolated(n, s)))


def _interpolated(n: Any, s: Lines) -> list[Any]:
    found: list[Any] = []
    for value in n.values:
        if type(value) is ast.Constant:
            continue
        found.append(_EXPRESSION[type(value.value)](value.value, s))
        if value.format_spec is not None:
            found += _interpolated(value.format_spec, s)
    return found


def _walrus(n: Any, s: Lines) -> Any:
    return ir.Walrus(_at(n, s), *_all([n.target, n.value], s))


_EXPRESSION: dict[type, Callable[[Any, Lines], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Call: _call,
    ast.Starred: _starred,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: _tuple,
    ast.List: _list,
    ast.Set: _set,
    ast.Dict: _dict,
    ast.ListComp: _comprehension("list"),
    ast.SetComp: _comprehension("set"),
    ast.DictComp: _comprehension("dict"),
    ast.GeneratorExp: _comprehension("gen"),
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.JoinedStr: _joined,
    ast.NamedExpr: _walrus,
    _Unread: _hole,
}
if sys.version_info >= (3, 14):
    _EXPRESSION[ast.TemplateStr] = _joined


def _assign(n: Any, s: Lines) -> Any:
    targets, value = n.targets, n.value
    return _new(ir.Assign, (_at(n, s), _all(targets, s), _EXPRESSION[type(value)](value, s)))


def _augmented(n: Any, s: Lines) -> Any:
    target, value = _all([n.target, n.value], s)
    return ir.AugAssign(_at(n, s), target, _OPERATOR[type(n.op)], value)


def _annotated(n: Any, s: Lines) -> Any:
    return _new(ir.AnnAssign, (_at(n, s), *_all([n.target, n.annotation], s), _maybe(n.value, s)))


def _expression(n: Any, s: Lines) -> Any:
    v = n.value
    return _new(ir.ExprStmt, (_at(n, s), _EXPRESSION[type(v)](v, s)))


def _return(n: Any, s: Lines) -> Any:
    return _new(ir.Return, (_at(n, s), _maybe(n.value, s)))


def _raise(n: Any, s: Lines) -> Any:
    return ir.Raise(_at(n, s), _maybe(n.exc, s), _maybe(n.cause, s))


def _assert(n: Any, s: Lines) -> Any:
    return ir.Assert(_at(n, s), _EXPRESSION[type(n.test)](n.test, s), _maybe(n.msg, s))


def _delete(n: Any, s: Lines) -> Any:
    return ir.Delete(_at(n, s), _all(n.targets, s))


def _pass(n: Any, s: Lines) -> Any:
    return ir.Pass(_at(n, s))


def _break(n: Any, s: Lines) -> Any:
    return ir.Break(_at(n, s))


def _continue(n: Any, s: Lines) -> Any:
    return ir.Continue(_at(n, s))


def _global(n: Any, s: Lines) -> Any:
    return ir.Global(_at(n, s), tuple(n.names))


def _nonlocal(n: Any, s: Lines) -> Any:
    return ir.Nonlocal(_at(n, s), tuple(n.names))


def _if(n: Any, s: Lines) -> Any:
    chain = [n]
    orelse = n.orelse
    while len(orelse) == 1 and type(orelse[0]) is ast.If:
        chain.append(orelse[0])
        orelse = orelse[0].orelse
    if len(chain) > MAX_CHAIN:
        last = chain[MAX_CHAIN]
        del chain[MAX_CHAIN:]
        rest: tuple[Any, ...] = (_hole(last, s),)
    else:
        rest = _body(orelse, s)
    for n in reversed(chain):
        rest = (_new(ir.If, (_at(n, s), _EXPRESSION[type(n.test)](n.test, s), _body(n.body, s), rest)),)
    return rest[0]


def _for(n: Any, s: Lines) -> Any:
    target, over = _all([n.target, n.iter], s)
    return ir.For(_at(n, s), target, over, _body(n.body, s), _body(n.orelse, s), type(n) is ast.AsyncFor)


def _while(n: Any, s: Lines) -> Any:
    return ir.While(_at(n, s), _EXPRESSION[type(n.test)](n.test, s), _body(n.body, s), _body(n.orelse, s))


def _with(n: Any, s: Lines) -> Any:
    items = tuple([(_EXPRESSION[type(i.context_expr)](i.context_expr, s), _maybe(i.optional_vars, s)) for i in n.items])
    return ir.With(_at(n, s), items, _body(n.body, s), type(n) is ast.AsyncWith)


def _try(n: Any, s: Lines) -> Any:
    handlers = tuple([ir.Handler(_at(h, s), _maybe(h.type, s), h.name, _body(h.body, s)) for h in n.handlers])
    return ir.Try(_at(n, s), _body(n.body, s), handlers, _body(n.orelse, s), _body(n.finalbody, s))


def _match(n: Any, s: Lines) -> Any:
    cases = tuple([_case(case, s) for case in n.cases])
    return ir.Match(_at(n, s), _EXPRESSION[type(n.subject)](n.subject, s), cases)


def _case(n: Any, s: Lines) -> ir.Case:
    binds: dict[str, None] = {}
    for node in ast.walk(n.pattern):
        bound = getattr(node, "rest" if type(node) is ast.MatchMapping else "name", None)
        if bound is not None and isinstance(node, ast.pattern):
            binds[bound] = None
    start = _at(n.pattern, s)
    last = n.body[-1]
    at = start >> 32 << 32 | (s[last.end_lineno] + last.end_col_offset)
    return ir.Case(at, tuple(binds), _always(n.pattern), _maybe(n.guard, s), _body(n.body, s))


def _always(pattern: Any) -> bool:
    """Whether a pattern matches whatever comes."""
    if isinstance(pattern, ast.MatchOr):
        return any(_always(one) for one in pattern.patterns)
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _always(pattern.pattern))


_DEF_NAME = re.compile(r"(?:async(?:\s|\\)+)?(?:def|class)(?:\s|\\)+")


def _name_at(n: Any, s: Lines) -> int:
    start = s[n.lineno] + n.col_offset
    text = s[0]
    length = len(n.name)
    usual = start + (4 if type(n) is ast.FunctionDef else 6 if type(n) is ast.ClassDef else 10)
    if text[usual : usual + length] != n.name:
        # written with more blanks, or its letters are not in the normal form that the tree has
        found = _DEF_NAME.match(text[start : start + 1000])
        usual = start + (found.end() if found else 0)
        if found and (written := _WORD.match(text[usual : usual + 1000])):
            length = written.end()
    return usual << 32 | usual + length


def _def(n: Any, s: Lines) -> Any:
    at = _at(n, s)
    is_generator = s[0].find("yield", at >> 32, at & 0xFFFFFFFF) >= 0 and _yields(n)
    return _new(
        ir.Def,
        (
            at,
            n.name,
            _name_at(n, s),
            _parameters(n.args, s),
            _body(n.body, s),
            _all(n.decorator_list, s) if n.decorator_list else (),
            _maybe(n.returns, s),
            type(n) is ast.AsyncFunctionDef,
            is_generator,
        ),
    )


_SCOPES = frozenset([ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda])


def _yields(n: Any) -> bool:
    due: list[Any] = list(n.body)
    while due:
        node = due.pop()
        kind = type(node)
        if kind is ast.Yield or kind is ast.YieldFrom:
            return True
        if kind not in _SCOPES:
            due.extend(ast.iter_child_nodes(node))
    return False


def _class(n: Any, s: Lines) -> Any:
    keywords = tuple([(k.arg, _EXPRESSION[type(k.value)](k.value, s)) for k in n.keywords])
    return ir.Class(
        _at(n, s), n.name, _name_at(n, s), _all(n.bases, s), keywords, _body(n.body, s), _all(n.decorator_list, s)
    )


def _aliases(n: Any, s: Lines) -> tuple[ir.Alias, ...]:
    return tuple([ir.Alias(_at(a, s), a.name, a.asname) for a in n.names])


def _import(n: Any, s: Lines) -> Any:
    return ir.Import(_at(n, s), _aliases(n, s))


def _import_from(n: Any, s: Lines) -> Any:
    return ir.ImportFrom(_at(n, s), n.module or "", n.level or 0, _aliases(n, s))


def _type_alias(n: Any, s: Lines) -> Any:
    return ir.Assign(_at(n, s), _all([n.name], s), _hole(n.value, s))  # evaluated when asked, if ever


_STATEMENT: dict[type, Callable[[Any, Lines], Any]] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.AnnAssign: _annotated,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Pass: _pass,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Try: _try,
    ast.Match: _match,
    ast.FunctionDef: _def,
    ast.AsyncFunctionDef: _def,
    ast.ClassDef: _class,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
}
if sys.version_info >= (3, 11):
    _STATEMENT[ast.TryStar] = _try
if sys.version_info >= (3, 12):
    _STATEMENT[ast.TypeAlias] = _type_alias
