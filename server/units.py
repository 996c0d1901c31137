"""The cut: text to units, by indentation, without a parser and without state.

A *unit* is a top-level statement with its decorators and everything indented below it. A class is a unit whose
members are its children, a block (`if`, `for`, `while`, `with`, `try`) of more than `LONG` lines one whose bodies'
statements are its children. The text of a unit starts at the start of its first line and ends with its last character
of code; blank lines and comments between units belong to none.

    import torch                     code
                                                    a unit's `ir` is remembered by its text:
    class Net(nn.Module):            class          typing in one unit reads that unit again and no other,
        def forward(self, x):           code        and since positions count from the unit's start,
            return x                                nothing below the cursor changes

For text that is Python the units together read as the whole file does. For text that is not, the cut keeps to
indentation, which people keep right while they type, and, given the units of the last good text as an *anchor*, to the
bounds that the units before and after the edit had.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .memo import Recent

if TYPE_CHECKING:
    from . import ir
    from .reading import Reading

LONG = 100  # lines of a block from which on its statements are units of their own: about 2 ms of reading

MAX_DEPTH = 100  # classes and blocks in each other; Python has no more levels of indentation either

# Characters of classes and long blocks whose shape is remembered: 25,000 lines, about 4 MB. More than open files have
MEMO_SHAPES = 1_000_000


class Region(NamedTuple):
    """A body whose statements are children: offsets from the unit's start; `first` is the number of its first child."""

    start: int
    end: int
    first: int
    spans: tuple[tuple[int, int], ...]


class Shape:
    """What the cut knows of a unit's text: no position of its own, so equal text shares it."""

    __slots__ = ("children", "is_def", "kind", "name", "reading", "regions")

    def __init__(
        self,
        kind: str,
        name: str = "",
        is_def: bool = False,
        regions: tuple[Region, ...] = (),
        children: tuple[tuple[int, int, Shape], ...] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.is_def = is_def
        self.regions = regions
        self.children = children  # start and end from the unit's start
        self.reading: Reading | None = None  # of a unit with children: the statement around them


_CODE = Shape("code")


class Unit:
    """One unit. `start` is the offset of its first line in the text it was cut from."""

    __slots__ = ("_children", "shape", "start", "text")

    def __init__(self, start: int, text: str, shape: Shape) -> None:
        self.start = start
        self.text = text
        self.shape = shape
        self._children: tuple[Unit, ...] | None = None

    def __repr__(self) -> str:
        return f"Unit({self.start}, {self.kind}, {self.name or self.text[:20]!r})"

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def kind(self) -> str:
        """ "code", "class" or "block"."""
        return self.shape.kind

    @property
    def name(self) -> str:
        """The name of the def or class, else empty."""
        return self.shape.name

    @property
    def is_def(self) -> bool:
        return self.shape.is_def

    @property
    def children(self) -> tuple[Unit, ...]:
        """The members of a class, the statements of a long block."""
        if self._children is None:
            start, text = self.start, self.text
            self._children = tuple([Unit(start + a, text[a:b], shape) for a, b, shape in self.shape.children])
        return self._children

    def moved(self, shift: int) -> Unit:
        """The same unit where it stands after an edit above it; what was made of its text is not made again."""
        if not shift:
            return self
        unit = Unit(self.start + shift, self.text, self.shape)
        if self._children is not None:
            unit._children = tuple([child.moved(shift) for child in self._children])
        return unit

    @property
    def ir(self) -> ir.Body:
        """The statements, positions from `start`; a `Part(at, k)` in them stands for those of `children[k]`."""
        return self._reading.body

    @property
    def broken(self) -> bool:
        """Whether any of it, children included, is not Python."""
        return self._reading.broken or any(child.broken for child in self.children)

    @property
    def _reading(self) -> Reading:
        shape = self.shape
        if not shape.regions:
            return _texts.reading(self.text)
        if shape.reading is None:
            shape.reading = _texts.skeleton(self.text, shape.regions)
        return shape.reading


class Units(tuple[Unit, ...]):
    """The units of `text`, in order. `good` is the cut that the bounds were taken from if the text is broken, and `plain`
    the one without its help."""

    text: str
    good: Units | None
    plain: Units
    closed: bool  # each unit closes the brackets that it opens, and none before it: what is below has no part in it

    @classmethod
    def of(cls, text: str, units: list[Unit], good: Units | None = None, closed: bool = False) -> Units:
        made = cls(units)
        made.text = text
        made.good = good
        made.plain = made
        made.closed = closed
        return made


def cut(text: str, anchor: tuple[Unit, ...] | None = None) -> Units:
    """The units of a text. Never raises.

    `anchor` is the result for the text before the edit: if the new text has a broken unit, the units before and after
    the edit keep the bounds that they had in the last text without one.
    """
    if not isinstance(anchor, Units):
        return _whole(text)
    fresh = _around_edit(anchor.plain, text) or _whole(text)
    good = anchor if anchor.good is None else anchor.good
    known = {unit.text for unit in good}
    if not any(unit.broken for unit in fresh if unit.text not in known):
        return fresh
    edit, kept = _Edit(good.text, text), {unit.start: unit for unit in good}
    made = Units.of(text, [edit.unit(span, kept) for span in edit.spans(good, 0, len(text), "")], good)
    made.plain = fresh
    return made


def _whole(text: str) -> Units:
    masked = mask(text)
    pieces = statements(masked, 0, len(masked), "")
    units = [Unit(p.start, text[p.start : p.end], _shape(text, masked, p, "")) for p in pieces]
    return Units.of(text, units, closed=_are_closed(masked, pieces))


# Units around an edit that are cut again, and have to come out as they were: a clause may belong to the statement
# before it or to the one before that, and a decorator to what follows.
BEFORE, AFTER = 2, 1


def _around_edit(old: Units, text: str) -> Units | None:
    """The same as `_whole`, of the text after an edit, for the cost of the units around it; None if they don't tell.

    They do if the units before and after come out as they were and nothing that is open in between (a string, a
    bracket, a line that goes on) can reach further.
    """
    if not old.closed:
        return None
    start, end, shift = Change.between(old.text, text)
    first = max(0, bisect_left(old, start, key=_end_of) - BEFORE)
    behind = bisect_right(old, end, key=_start_of) + AFTER
    if first == 0 and behind >= len(old):
        return None
    begin = old[first].start if first else 0
    stop = old[behind].start + shift if behind < len(old) else len(text)
    part = text[begin:stop]
    masked = mask(part)
    if behind < len(old) and (
        not masked.endswith("\n") or masked.endswith(("\\\n", "\\\r\n")) or _CLAUSE.match(text, stop) is not None
    ):
        return None
    pieces = statements(masked, 0, len(masked), "")
    known = [(unit.start - begin, unit.end - begin) for unit in old[first : first + BEFORE if first else 0]]
    last = old[behind - 1] if behind < len(old) else None
    if [piece[:2] for piece in pieces[: len(known)]] != known:
        return None
    if last is not None and (not pieces or pieces[-1][:2] != (last.start + shift - begin, last.end + shift - begin)):
        return None
    if not _are_closed(masked, pieces):
        return None
    made = [Unit(begin + p.start, part[p.start : p.end], _shape(part, masked, p, "")) for p in pieces]
    moved = [unit.moved(shift) for unit in old[behind:]]
    return Units.of(text, [*old[:first], *made, *moved], closed=True)


def _start_of(unit: Unit) -> int:
    return unit.start


def _end_of(unit: Unit) -> int:
    return unit.end


def _are_closed(masked: str, pieces: list[Piece]) -> bool:
    """Whether each piece has as many brackets that close as such that open."""
    count = masked.count
    return all(
        count("(", a, b) + count("[", a, b) + count("{", a, b) == count(")", a, b) + count("]", a, b) + count("}", a, b)
        for a, b, _ in pieces
    )


# ---------------------------------------------------------------- masking

# A comment; a string in three quotes; a string in one, which ends at the end of its line if it is not closed. Each
# alternative begins with a plain character: only then does `re` look for those characters before it tries any
_OPAQUE = r"""
    \#[^\n]*
  | \"\"\" [^"\\]* (?: (?: \\. | "(?!"") ) [^"\\]* )* (?: \"\"\" %(open)s )
  | \'\'\' [^'\\]* (?: (?: \\. | '(?!'') ) [^'\\]* )* (?: \'\'\' %(open)s )
  %(line)s
  | " [^"\\\n]* (?: \\(?:\r\n|.) [^"\\\n]* )* "?
  | ' [^'\\\n]* (?: \\(?:\r\n|.) [^'\\\n]* )* '?
"""
OPAQUE = re.compile(_OPAQUE % {"open": r"| \Z", "line": ""}, re.X | re.S)
_OPAQUE_CLOSED = re.compile(_OPAQUE % {"open": "", "line": r"| \"\"\"[^\n]* | \'\'\'[^\n]*"}, re.X | re.S)
_LONE_RETURN = re.compile(r"\r(?!\n)")


DEF = re.compile(r"^[ \t]*(?:async[ \t]+)?def\b", re.MULTILINE)  # before it stand a function's decorators


def _opaque(found: re.Match[str]) -> str:
    start, end = found.span()
    return (" " if found.string[start] == "#" else '"') * (end - start)


def mask(text: str, closed: bool = False) -> str:
    """The text, as long as before, with comments blank, strings made of `"` and `\\n` (or `\\r\\n`) the only line breaks.

    What is left of brackets, keywords and line breaks is code. A string in three quotes that is not closed runs to the
    end, or, if `closed`, to the end of its line.
    """
    if "\r" in text:
        text = _LONE_RETURN.sub("\n", text)
    return (_OPAQUE_CLOSED if closed else OPAQUE).sub(_opaque, text)


# ---------------------------------------------------------------- statements


class Piece(NamedTuple):
    """A statement of one indentation: `start` is the start of its first line, `head` that of the line that says what
    it is (after decorators), `end` behind its last character of code."""

    start: int
    end: int
    head: int


_CODE_CHARACTER = r"[^ \t\f\n\r)\]}]"  # a line that starts with a closing bracket goes on with what was before it
_FEED = r"(?:[ \t\f]*\f)?"  # a form feed starts the count of the indentation again


@functools.lru_cache(256)
def _line_at(indent: str, feed: bool, loose: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Where a line of code has this indentation (or, if `loose`, at most it): from its line break, from its start."""
    blanks = rf"[ \t]{{0,{len(indent)}}}" if loose else re.escape(indent)
    line = (_FEED if feed else "") + blanks + (f"(?={_CODE_CHARACTER})" if indent else _CODE_CHARACTER)
    return re.compile(rf"\n{line}"), re.compile(line)


def _lines(masked: str, start: int, end: int, indent: str, loose: bool = False) -> list[int]:
    """The starts of the lines of code at this indentation in a region, which begins at the start of a line."""
    following, first = _line_at(indent, "\f" in masked, loose)
    found = [match.start() + 1 for match in following.finditer(masked, start, end)]
    if first.match(masked, start, end):
        found.insert(0, start)
    return found


# What cannot begin a line inside brackets: there an open bracket is not going to be closed. `@` with a name at once is
# a decorator
_HARD = re.compile(
    r"[ \t\f]*(?:(?:def|class|import|with|while|try|return|del|pass|raise|global|nonlocal|assert|break|continue"
    r"|async[ \t]+def)\b|@\w)"
)


def _logical(masked: str, start: int, end: int, indent: str) -> list[int]:
    """`_lines` without those that go on with the line before them: inside brackets, after a backslash."""
    starts = _lines(masked, start, end, indent)
    count = len(starts)
    if count < 2:
        return starts
    net: list[int] = []
    for a, b in zip(starts, [*starts[1:], end], strict=True):
        part = masked[a:b]
        net.append(
            part.count("(") - part.count(")") + part.count("[") - part.count("]") + part.count("{") - part.count("}")
        )
    if max(net) > 0:
        starts = _close(masked, starts, net)
    if "\\" in masked:
        starts = [a for a in starts if a == starts[0] or not _goes_on(masked, a, end)]
    return starts


def _goes_on(masked: str, start: int, end: int) -> bool:
    """Whether the line before ends with a backslash, and this is not the beginning of a statement all the same."""
    if not masked.endswith(("\\\n", "\\\r\n"), 0, start):
        return False
    if hard := _HARD.match(masked, start):
        return hard[0].endswith("import")
    line_end = masked.find("\n", start, end)
    line = masked[start : end if line_end < 0 else line_end]
    return not (_BLOCK.match(line) and line.rstrip().endswith(":"))


def _close(masked: str, starts: list[int], net: list[int]) -> list[int]:
    """Join each line that opens brackets with those up to the one that closes them, if there is one before a line that
    cannot stand in brackets. Linear, whatever the text."""
    count = len(starts)
    depth = [0]  # before each line
    for change in net:
        depth.append(depth[-1] + change)
    closing = [count + 1] * (count + 1)  # for each line, the first line before which no bracket of it is open
    stack: list[int] = []
    for i in range(count, -1, -1):
        while stack and depth[stack[-1]] > depth[i]:
            stack.pop()
        if stack:
            closing[i] = stack[-1]
        stack.append(i)
    hard = [count + 1] * (count + 1)  # the first line from here on that cannot stand in brackets
    for i in range(count - 1, -1, -1):
        hard[i] = i if _HARD.match(masked, starts[i]) else hard[i + 1]
    kept: list[int] = []
    i = 0
    while i < count:
        kept.append(starts[i])
        to = closing[i] if net[i] > 0 else i + 1
        i = to if to <= count and hard[i + 1] >= to else i + 1
    return kept


_CLAUSE = re.compile(r"[ \t\f]*(?:else|elif|except|finally)\b")
_BLOCK = re.compile(r"[ \t\f]*(?:async[ \t]+)?(?:if|for|while|with|try)\b")


def statements(masked: str, start: int, end: int, indent: str, joined: bool = True) -> list[Piece]:
    """The statements of one indentation in a region of a masked text that begins at the start of a line.

    Lines of more indentation belong to the statement above them. If not `joined`, every line of this or less
    indentation is a piece: no brackets, backslashes, decorators or clauses hold lines together.
    """
    starts = _logical(masked, start, end, indent) if joined else _lines(masked, start, end, indent, loose=True)
    before = masked[start : starts[0] if starts else end]
    if before and not before.isspace():
        starts.insert(0, start + before.rfind("\n", 0, len(before) - len(before.lstrip())) + 1)
    if not starts:
        return []
    begins: list[int] = []
    heads: list[int] = []
    width = len(indent)
    decorated = False
    for at in starts:
        char = masked[at + width : at + width + 1]
        if not joined:
            begins.append(at)
            heads.append(at)
        elif decorated:
            heads[-1] = at
            decorated = char == "@"
        elif char in "ef" and begins and _CLAUSE.match(masked, at) and (host := _host(masked, heads)) is not None:
            del begins[host + 1 :], heads[host + 1 :]
        else:
            begins.append(at)
            heads.append(at)
            decorated = char == "@"
        if char == "\f" or char == " ":
            decorated = masked[at : at + 200].lstrip(" \t\f").startswith("@") and joined
    ends = [*begins[1:], end]
    return [Piece(a, _code_end(masked, a, b), head) for a, b, head in zip(begins, ends, heads, strict=True)]


def _code_end(masked: str, start: int, end: int) -> int:
    """Behind the last character of code; a backslash before a blank line goes on with nothing."""
    code = masked[start:end].rstrip()
    return start + len(code.rstrip(" \t\f\r\n\\") if code.endswith("\\") else code)


def _host(masked: str, heads: list[int]) -> int | None:
    """The block that a clause belongs to: the statement before it, or, across one line being typed, the one before."""
    for index in (-1, -2):
        if len(heads) >= -index and _BLOCK.match(masked, heads[index]):
            return len(heads) + index
    return None


# ---------------------------------------------------------------- clauses


class Clause(NamedTuple):
    """A header and its body: the header's line, the body's first line and the end of its code.

    `body` equals `end` if the body stands on the header's line.
    """

    start: int
    body: int
    end: int


def clauses(masked: str, start: int, end: int, indent: str, broken: bool = False) -> list[Clause]:
    """The clauses of the statement at `start`, decorators skipped.

    Empty if the text does not have the form of a statement with clauses. If `broken`, a header may lack its colon or
    brackets: then it ends with the line that has a colon and closes a bracket at the header's indentation, or else is
    one line.
    """
    lines = _lines(masked, start, end, indent) if broken else _logical(masked, start, end, indent)
    width = len(indent)
    while lines and masked[lines[0] : lines[0] + width + 200].lstrip(" \t\f").startswith("@"):
        lines.pop(0)
    if not lines:
        return []
    lines = [at for at in lines if at == lines[0] or _CLAUSE.match(masked, at)]
    found: list[Clause] = []
    for at, to in zip(lines, [*lines[1:], end], strict=True):
        to = _code_end(masked, at, to)
        body = _header_end(masked, at, to, indent, broken)
        found.append(Clause(at, body, to))
    return found


def _header_end(masked: str, start: int, end: int, indent: str, broken: bool) -> int:
    """The start of the line after a header, or `end` if more than the header stands on its last line."""
    depth = 0
    at = start
    whole = True  # whether the header's brackets have been open on every line so far
    while True:
        line_end = masked.find("\n", at, end)
        line = masked[at : end if line_end < 0 else line_end]
        depth += line.count("(") + line.count("[") + line.count("{")
        depth -= line.count(")") + line.count("]") + line.count("}")
        line = line.rstrip()
        if line_end >= 0 and line.endswith(":") and ((whole and depth <= 0) or (broken and _closes(line, indent))):
            return line_end + 1
        whole = whole and (depth > 0 or line.endswith("\\"))
        if line_end < 0 or not (whole or broken):
            break
        at = line_end + 1
    if broken:
        line_end = masked.find("\n", start, end)
        return end if line_end < 0 else line_end + 1
    return end


def _closes(line: str, indent: str) -> bool:
    """Whether a line closes at the indentation of a header the bracket that the header opened."""
    return line.startswith(indent) and line[len(indent)] in ")]}"


# ---------------------------------------------------------------- shapes

_KEYWORD = re.compile(
    r"[ \t\f]*(?:(?:async[ \t]+)?(?P<def>def)[ \t]+(?P<name>\w+)|(?P<class>class)[ \t]+(?P<class_name>\w+)"
    r"|(?:async[ \t]+)?(?P<block>if|for|while|with|try)\b)"
)
_shapes: Recent[str, Shape] = Recent(MEMO_SHAPES)


def forget() -> None:
    """Drop every remembered shape (for measurements, and when memory is short)."""
    _shapes.clear()


@functools.lru_cache(4096)
def _def_shape(name: str) -> Shape:
    return Shape("code", name, True)


def _shape(text: str, masked: str, piece: Piece, indent: str, depth: int = 0) -> Shape:
    found = _KEYWORD.match(masked, piece.head, piece.end)
    if found is None:
        return _CODE
    if found["def"]:
        return _def_shape(found["name"])
    if found["block"] and masked.count("\n", piece.start, piece.end) <= LONG:
        return _CODE
    if depth == MAX_DEPTH:
        return _CODE
    key = text[piece.start : piece.end]
    return _shapes.get(key) or _shapes.put(key, _divided(text, masked, piece, indent, depth, found["class_name"]))


def _divided(text: str, masked: str, piece: Piece, indent: str, depth: int, name: str | None) -> Shape:
    """The shape of a class (which has a `name`) or a long block."""
    regions: list[Region] = []
    children: list[tuple[int, int, Shape]] = []
    base = piece.start
    for clause in clauses(masked, piece.head, piece.end, indent):
        inner = _indentation(masked, clause.body, clause.end)
        if clause.body >= clause.end or not _deeper(inner, indent):
            continue
        pieces = statements(masked, clause.body, clause.end, inner)
        first = len(children)
        children += [(p.start - base, p.end - base, _shape(text, masked, p, inner, depth + 1)) for p in pieces]
        spans = tuple([(a, b) for a, b, _ in children[first:]])
        regions.append(Region(spans[0][0], spans[-1][1], first, spans))
    if name is not None:
        return Shape("class", name, False, tuple(regions), tuple(children))
    return Shape("block", "", False, tuple(regions), tuple(children)) if regions else _CODE


_INDENTATION = re.compile(r"(?:[ \t\f\r]*\n)*([ \t\f]*)")


def _indentation(masked: str, start: int, end: int) -> str:
    """The indentation of the first line of code; a form feed starts the count again."""
    found = _INDENTATION.match(masked, start, end)
    return found[1].rpartition("\f")[2] if found else ""


def _deeper(inner: str, outer: str) -> bool:
    return len(inner) > len(outer) and inner.startswith(outer)


# ---------------------------------------------------------------- anchoring

Span = tuple[int, int, Shape]


class Change(NamedTuple):
    """From one text to another: what stood from `start` to `end` is something else now, what followed is `shift` on."""

    start: int
    end: int
    shift: int

    @classmethod
    def between(cls, old: str, new: str) -> Change:
        """The one change between what both begin and end with."""
        start = _common(old, new)
        end = len(old) - _common_end(old, new, min(len(old), len(new)) - start)
        return cls(start, end, len(new) - len(old))

    def moved(self, at: int) -> int:
        """Where something that begins at an offset begins now."""
        return at + self.shift if at >= self.end else at


class _Edit:
    """From the last good text to a new one that is broken."""

    def __init__(self, old: str, new: str) -> None:
        self.new = new
        self.start, self.end, self.shift = Change.between(old, new)

    def unit(self, span: Span, kept: dict[int, Unit]) -> Unit:
        """The unit there; what was made of it before the edit is not made again."""
        start, end, shape = span
        text = self.new[start:end]
        for old in (kept.get(start), kept.get(start - self.shift)):
            if old is not None and old.shape is shape and old.text == text:
                return old.moved(start - old.start)
        return Unit(start, text, shape)

    def spans(self, old: tuple[Unit, ...], start: int, end: int, indent: str) -> list[Span]:
        """The units of `new[start:end]`, of one indentation, which were `old` before the edit."""
        before = [unit for unit in old if unit.start <= self.start]
        after = [unit for unit in old if unit.start >= self.end and self._at_line_start(unit)]
        if before and after and after[0] is before[-1]:  # the edit ends where the unit starts
            before.pop()
        host = before.pop() if before else None
        found: list[Span] = [(unit.start, unit.end, unit.shape) for unit in before]
        to = after[0].start + self.shift if after else end
        inside = self._inside(host) if host is not None else None
        if inside is not None:
            found.append(inside)
        else:
            found += self._again(start if host is None else host.start, to, indent)
        found += [(unit.start + self.shift, unit.end + self.shift, unit.shape) for unit in after]
        return found

    def _at_line_start(self, unit: Unit) -> bool:
        at = unit.start + self.shift
        return at == 0 or self.new[at - 1] in "\n\r"

    def _again(self, start: int, end: int, indent: str) -> list[Span]:
        """The cut of a part of the new text alone, in which no string runs on to the end."""
        text = self.new[start:end]
        masked = mask(text, closed=True)
        pieces = statements(masked, 0, len(text), indent)
        return [(start + p.start, start + p.end, _shape(text, masked, p, indent)) for p in pieces]

    def _inside(self, host: Unit) -> Span | None:
        """The class or block that was edited in one of its bodies, its other children as they were. Else None."""
        regions = list(host.shape.regions)
        holds = [host.start + r.start <= self.start and self.end <= host.start + r.end for r in regions]
        if True not in holds:
            return None
        number = holds.index(True)
        region = regions[number]
        start, end = host.start, host.end + self.shift
        inner = host.children[region.first : region.first + len(region.spans)]
        indent = _indentation(host.text, region.start, region.end)
        spans = self.spans(inner, start + region.start, start + region.end + self.shift, indent)
        if not spans:
            return None
        children = list(host.shape.children)
        children[region.first : region.first + len(region.spans)] = [(a - start, b - start, s) for a, b, s in spans]
        inner_spans = tuple([(a - start, b - start) for a, b, _ in spans])
        regions[number] = Region(inner_spans[0][0], inner_spans[-1][1], region.first, inner_spans)
        more = len(spans) - len(region.spans)
        for later in range(number + 1, len(regions)):
            r = regions[later]
            moved = tuple([(a + self.shift, b + self.shift) for a, b in r.spans])
            regions[later] = Region(r.start + self.shift, r.end + self.shift, r.first + more, moved)
            for k, (a, b) in enumerate(moved):
                children[r.first + more + k] = (a, b, children[r.first + more + k][2])
        end = max(end, start + children[-1][1])
        shape = Shape(host.kind, host.name, host.is_def, tuple(regions), tuple(children))
        return start, end, shape


def _common(a: str, b: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _common_end(a: str, b: str, most: int) -> int:
    """How many characters, `most` of them, two texts end with in common."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def walk(units: tuple[Unit, ...]) -> Iterator[Unit]:
    """The units and all below them, in the order of the text."""
    for unit in units:
        yield unit
        yield from walk(unit.children)


# Reading a broken text applies the cut again: the two know each other.
from . import reading as _texts  # noqa: E402
