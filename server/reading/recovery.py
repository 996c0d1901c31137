"""From a broken text to its IR, by indentation.

The cut of `units.py` is applied again inside the text, statement by statement, clause by clause, and what still cannot
be read becomes an `ir.Hole` that names the words in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any

from .. import ir
from ..ir import pack
from ..text import line_starts
from ..units import clauses, statements
from .lowering import LETTER, MAX_CHAIN, words
from .parsing import BLANKS, indentation, strict, with_parts

LEAD = re.compile(r"\s*")
_HEAD = re.compile(r"[ \t\f]*(?:async[ \t]+)?(\w+)")
_NAME = re.compile(r"[ \t\f]*(?:async[ \t]+)?(?:def|class)[ \t]+([^\W\d]\w*)")
_COMPOUND = frozenset(["def", "class", "if", "for", "while", "with", "try"])
_CLAUSES = frozenset(["elif", "else", "except", "finally"])
_BREAK = re.compile("\n")
_BRACKET = re.compile(r"[()\[\]{}]")

# What may stand for a line that cannot be read: keywords or items of a dict, arguments, an item, an operand, nothing.
_STAND_INS = (f"**{LETTER},", f"*{LETTER},", f"{LETTER},", LETTER, "")
MAX_PARTED = 20  # how often in one text lines that were held together are parted one by one: each time reads the rest
MAX_SUSPECTS = 10  # lines of a statement that are tried as the one at fault, in five ways each
MENDED_LINES = 60  # a statement of more lines is a table; each try reads all of it again


def _put(node: Any, hole: ir.Hole) -> Any:
    """The node with the hole in the place of the letter that stood for it."""
    if type(node) is ir.Name:
        return hole if node.id == LETTER else node
    if not isinstance(node, tuple):
        return node
    inner = [_put(item, hole) for item in node]
    return tuple.__new__(type(node), inner)


class Recovery:
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
                found += strict(self.text[piece.start : piece.end], piece.start)
            except Exception:
                found += self.piece(piece.start, piece.end, joined)
        return found

    def indent(self, start: int, end: int) -> str:
        """The indentation of the first line that holds code."""
        kept = self.masked[start:end].lstrip()
        first = self.masked.rfind("\n", start, end - len(kept)) + 1 if kept else start
        return indentation(self.masked[max(first, start) : end])

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
                    found = strict(text, start)
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
            strict(text)
        except SyntaxError as error:
            named = (error.lineno or 1) - (2 if text[:1] in BLANKS and indentation(text) else 1)
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
                at = clause.body + len(LEAD.match(self.text, clause.body, clause.end - 1)[0])  # type: ignore[index]
                bare = bare[: at - start] + " " * (clause.end - at - 1) + "0" + bare[clause.end - start :]
                parts[clause.end - 1] = tuple(body)
        for clause in typed:
            bare = bare[: clause.start - start] + " " * (clause.end - clause.start) + bare[clause.end - start :]
        try:
            read: Any = strict(bare, start)
        except Exception:
            read = self.undecorated(bare, start, found[0].start) or self.mended_header(bare, start, found[0], holes)
        if read is None:
            return [*holes, *self.patched(head[1], found, bodies, self.decorators(start, found[0].start), end)]
        return [*holes, *[with_parts(statement, parts) for statement in read]]

    def undecorated(self, bare: str, start: int, head: int) -> Any:
        """The bare statement at `head`, if it is only the decorators above it that are broken."""
        if start == head:
            return None
        try:
            read = strict(bare[head - start :], head)
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
            for stand_in in ("", f"{LETTER},", LETTER):
                if len(stand_in) > b - a:
                    continue
                text = bare[: a - start] + (stand_in + " " * (b - a - len(stand_in))) + bare[b - start :]
                try:
                    read = strict(text, start)
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
                read: Any = strict(self.text[piece.start : at] + " " + self.text[at + 1 : piece.end], piece.start)
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
            read = strict(text + " 0", clause.start)
        except Exception:
            return None
        return read[0] if len(read) == 1 and type(read[0]) is not ir.ExprStmt else None
