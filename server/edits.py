"""Edits, fixes, and what fixes are written with: a lossless tree of one unit that turns nodes into edits of the text.

An edit replaces a span of a file's text; everything outside it stays byte for byte as it was. LibCST reads the one
unit that is being fixed, says where its nodes stand, and is loaded only then: this module costs nothing to import.

    tree = context.tree(finding.place)              # None: this unit cannot be read as it stands
    call = tree.find(finding.place, tree.cst.Call)
    return Fix("Drop .item()", Applicability.SAFE, (tree.replace(call, tree.code(call.func.value)),))
"""

from __future__ import annotations

import enum
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .findings import Place
from .units import Unit, cut

if TYPE_CHECKING:
    import libcst as cst

    from .facts import Value
    from .text import Source

    Node = TypeVar("Node", bound=cst.CSTNode)

_NEWLINE = re.compile(r"\r\n|\n|\r")


class EditingUnavailableError(RuntimeError):
    """LibCST is not installed (or does not load) here, so nothing can be fixed; the message says what to do."""


class OverlapError(ValueError):
    """Two edits want to change the same characters, or one lies outside the text."""


class Edit(NamedTuple):
    """Replace the code points `[start, end)` of the file at `path` by `content`; start == end inserts."""

    path: str
    start: int
    end: int
    content: str


class Applicability(enum.Enum):
    """How far a fix can be trusted; only `SAFE` ones are applied without being asked for."""

    SAFE = "safe"  # the program then does what was meant, always
    UNSAFE = "unsafe"  # it most likely does; somebody has to look
    DISPLAY = "display-only"  # it shows the way and may need more


class Fix(NamedTuple):
    """`message` says what the edits do, as an order: "Wrap the loading in no_grad()"."""

    message: str
    applicability: Applicability
    edits: tuple[Edit, ...]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after these edits, all of one file. Raises OverlapError if two overlap or one lies outside."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done or not edit.start <= edit.end <= len(text):
            raise OverlapError(f"edit of [{edit.start}, {edit.end}) after {done} in a text of {len(text)} characters")
        pieces += text[done : edit.start], edit.content
        done = edit.end
    return "".join([*pieces, text[done:]])


class UnitText(NamedTuple):
    """A piece of a file that can be read alone: `text` stands at `start` (code points from the start of the file)."""

    path: str
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class FixContext:
    """What a rule's `fix(finding, context)` may look at: the sources as the project holds them."""

    def __init__(
        self,
        source: Callable[[str], Source | None],
        cures: Callable[[Sequence[Edit]], bool] | None = None,
        values: Callable[[Sequence[Edit], Place, Callable[[Value], object]], Sequence[object]] | None = None,
        mentioning: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        """`source` maps a path to what the project holds there (`Project.source`).

        `cures` analyses the project with these edits: is the finding gone, and has no new one come?
        `values` runs its programs with these edits and tells what stood at a place. `mentioning` gives the files of the
        project that hold a text.
        """
        self._source = source
        self._cures = cures
        self._values = values
        self._mentioning = mentioning
        self._trees: dict[UnitText, Tree | None] = {}

    def source(self, path: str) -> Source:
        """The source at `path`; raises KeyError if the project does not hold it."""
        source = self._source(path)
        if source is None:
            raise KeyError(path)
        return source

    def cures(self, edits: Sequence[Edit]) -> bool:
        """Whether these edits would do, for a fix that has several ways to choose from; True where nobody can say."""
        return self._cures is None or self._cures(edits)

    def values(self, edits: Sequence[Edit], place: Place, form: Callable[[Value], object]) -> Sequence[object]:
        """What `form` makes of the value of the expression at `place`, on every pass of the programs with these edits;
        nothing where nobody can say."""
        return self._values(edits, place, form) if self._values is not None else ()

    def mentioning(self, text: str) -> Iterable[str]:
        """The files of the project, of those that were read, in which this text stands."""
        return self._mentioning(text) if self._mentioning is not None else ()

    def text(self, place: Place) -> str:
        """The characters of a place."""
        return self.source(place.path).text[place.start : place.end]

    def unit(self, place: Place) -> UnitText:
        """The smallest unit that holds the place; the whole file if it crosses units."""
        return (self._around(place) or [self.file(place.path)])[-1]

    def scope(self, place: Place) -> UnitText:
        """The function or method that the place stands in; the whole file for code at module level."""
        return next((unit for unit in reversed(self._around(place, kind="def"))), self.file(place.path))

    def file(self, path: str) -> UnitText:
        """The whole file as one unit."""
        return UnitText(path, 0, self.source(path).text)

    def tree(self, place: Place) -> Tree | None:
        """The tree of `unit(place)`, or None where that text is not Python (somebody is typing in it)."""
        return self._tree(self.unit(place))

    def scope_tree(self, place: Place) -> Tree | None:
        """The tree of `scope(place)`, for fixes that must see the statements around a place."""
        return self._tree(self.scope(place))

    def class_tree(self, place: Place) -> Tree | None:
        """The tree of the outermost class that the place stands in, for fixes that need its bases or its `__init__`."""
        around = self._around(place, kind="class")
        return self._tree(around[0]) if around else None

    def file_tree(self, path: str) -> Tree | None:
        """The tree of the whole file: dear (tens of milliseconds per thousand lines); for module-level fixes."""
        return self._tree(self.file(path))

    def _around(self, place: Place, kind: str = "") -> list[UnitText]:
        """The units that hold the place, outermost first; `kind` is "def", "class" or any."""
        found: list[UnitText] = []
        units: Sequence[Unit] = cut(self.source(place.path).text)
        while units:
            inside = next((u for u in units if u.start <= place.start and place.end <= u.start + len(u.text)), None)
            if inside is None:
                break
            if not kind or kind == ("def" if inside.is_def else inside.kind):
                found.append(UnitText(place.path, inside.start, inside.text))
            units = inside.children
        return found

    def _tree(self, unit: UnitText) -> Tree | None:
        if unit not in self._trees:
            self._trees[unit] = read_tree(unit, self.source(unit.path).text)
        return self._trees[unit]


def read_tree(unit: UnitText, whole: str) -> Tree | None:
    """The tree of a unit of the text `whole`; None if it is not Python.

    An indented unit (a method, a statement of a long block) is read under an `if 1:` line, which is not counted.
    """
    if _too_deep(unit.text):
        return None
    try:
        cst = importlib.import_module("libcst")
    except ImportError as error:
        raise EditingUnavailableError(f"fixes need the package libcst, which does not load here: {error}") from error
    line = max(whole.rfind("\n", 0, unit.start), whole.rfind("\r", 0, unit.start)) + 1
    if not whole[line : unit.start].strip():
        unit = UnitText(unit.path, line, whole[line : unit.end])
    newline = _NEWLINE.search(whole)
    head = f"if 1:{newline[0] if newline else chr(10)}" if _first_indent(unit.text) else ""
    try:
        module = cst.parse_module(head + unit.text)
    except (cst.ParserSyntaxError, RecursionError, ValueError):
        return None
    return Tree(unit, whole, module, len(head))


# LibCST reads by recursion, in native code: what is nested deeper than any hand-written program brings the process down.
BRACKETS, BRANCHES, LINE, UNIT = 200, 500, 4_000, 200_000


def _too_deep(text: str) -> bool:
    """Whether a text is nested, chained or long beyond what LibCST is trusted with."""
    if len(text) > UNIT or text.count("elif") > BRANCHES:
        return True
    depth = 0
    for found in re.finditer(r"[(\[{]|[)\]}]", text):
        depth += 1 if found[0] in "([{" else -1
        if depth > BRACKETS:
            return True
    return any(len(line) > LINE for line in text.split("\n"))


def _first_indent(text: str) -> str:
    """The indentation of the first line that holds code."""
    found = re.search(r"^([ \t\f]*)[^\s#]", text, re.MULTILINE)
    return found[1].replace("\f", "") if found else ""


class Tree:
    """The LibCST tree of one unit, with the place of every node in the file's text, and the edits to be made of it.

    Positions taken and given are code points from the start of the file. Nodes are LibCST's, never changed here.
    """

    def __init__(self, unit: UnitText, whole: str, module: cst.Module, head: int) -> None:
        self.unit = unit
        self.path = unit.path
        self.module = module
        self._whole = whole
        self._spans, self._parents = _positions(module, unit.start - head)

    # `tree.cst` is the module `libcst`, for the rules' fixes, which may not import it at the top; with its types.
    if TYPE_CHECKING:
        import libcst as cst
    else:

        @property
        def cst(self):
            return importlib.import_module("libcst")

    # ------------------------------------------------------------ looking

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Where the node stands, without the blanks and comments that it owns."""
        return self._spans[node]

    def place(self, node: cst.CSTNode) -> Place:
        return Place(self.path, *self.span(node))

    def code(self, node: cst.CSTNode) -> str:
        """The node as written (without parentheses around it)."""
        start, end = self.span(node)
        return self._whole[start:end]

    def text(self, start: int, end: int) -> str:
        return self._whole[start:end]

    def nodes(self, *types: type[Node]) -> Iterator[Node]:
        """Every node of these types, outer before inner, in the order of the text."""
        return (node for node in self._spans if isinstance(node, types))

    def find(self, place: Place | tuple[int, int], *types: type[Node]) -> Node | None:
        """The outermost node of these types that has exactly this span, else the smallest that holds it."""
        start, end = (place.start, place.end) if isinstance(place, Place) else place
        best: Node | None = None
        width = len(self._whole) + 1
        for node in self.nodes(*types):
            first, last = self._spans[node]
            if (first, last) == (start, end):
                return node
            if first <= start and end <= last and last - first < width:
                best, width = node, last - first
        return best

    def exactly(self, place: Place | None, *types: type[Node]) -> Node | None:
        """The outermost node of these types that has exactly this span; None for a place of another file."""
        if place is None or place.path != self.path:
            return None
        node = self.find(place, *types)
        return node if node is not None and self.place(node) == place else None

    def parent(self, node: cst.CSTNode) -> Any:
        """The node directly around this one, which the caller tells apart by its type; None for the whole unit."""
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around this one, the nearest first."""
        outer = self.parent(node)
        while outer is not None:
            yield outer
            outer = self.parent(outer)

    def enclosing(self, node: cst.CSTNode, *types: type[Node]) -> Node | None:
        """The nearest node around this one that is of one of these types."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, types)), None)

    def statement(self, node: cst.CSTNode) -> cst.BaseStatement:
        """The statement (a line of simple ones, or a compound one) that holds the node."""
        for outer in (node, *self.ancestors(node)):
            if isinstance(outer, (self.cst.SimpleStatementLine, self.cst.BaseCompoundStatement)):
                return outer
        raise ValueError("the node stands in no statement")

    def block(self, statement: cst.CSTNode) -> Sequence[cst.BaseStatement]:
        """The statements of the block (or of the file) that this one stands in; empty for a body on its header line."""
        parent = self.parent(statement)
        return parent.body if isinstance(parent, (self.cst.IndentedBlock, self.cst.Module)) else ()

    def names(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        """Every plain name read or written in the node; not attributes, not keywords of calls."""
        cst = self.cst
        start, end = self.span(node)
        for name in self.nodes(cst.Name):
            first, last = self.span(name)
            outer = self.parent(name)
            if not (start <= first and last <= end):
                continue
            if isinstance(outer, cst.Attribute) and outer.attr is name:
                continue
            if isinstance(outer, cst.Arg) and outer.keyword is name:
                continue
            yield name

    def attributes(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        """The name of every attribute that is read or called in the node: `c` of `a.b.c()`, and `b`."""
        start, end = self.span(node)
        for attribute in self.nodes(self.cst.Attribute):
            first, last = self.span(attribute)
            if start <= first and last <= end:
                yield attribute.attr

    # ------------------------------------------------------------ layout of the text

    @property
    def newline(self) -> str:
        """The line end that the file uses (its first)."""
        found = _NEWLINE.search(self._whole)
        return found[0] if found else "\n"

    @property
    def indent_step(self) -> str:
        """One level of indentation as this file writes it."""
        found = re.search(r":[^\S\r\n]*(?:#[^\r\n]*)?(?:\r\n|\n|\r)([ \t]+)\S", self._whole)
        return "\t" if found and "\t" in found[1] else (found[1] if found and len(found[1]) <= 8 else "    ")

    def line_start(self, offset: int) -> int:
        return max(self._whole.rfind("\n", 0, offset), self._whole.rfind("\r", 0, offset)) + 1

    def line_end(self, offset: int) -> int:
        """The end of the line that holds `offset`, its line end included."""
        found = _NEWLINE.search(self._whole, offset)
        return found.end() if found else len(self._whole)

    def indent(self, node: cst.CSTNode) -> str:
        """The blanks at the start of the line on which the node starts."""
        return self.indent_at(self.span(node)[0])

    def indent_at(self, offset: int) -> str:
        """The blanks at the start of the line that holds `offset`."""
        found = re.compile(r"[ \t\f]*").match(self._whole, self.line_start(offset))
        return found[0] if found else ""

    # ------------------------------------------------------------ edits

    def replace(self, node: cst.CSTNode, content: str) -> Edit:
        """Put `content` where the node stands; parentheses around it stay."""
        return Edit(self.path, *self.span(node), content)

    def unwrap(self, outer: cst.CSTNode, inner: cst.CSTNode) -> tuple[Edit, ...]:
        """Leave of `outer` only `inner`, a node within it: `loss.item()` becomes `loss`."""
        return self.keep(outer, *self.outer_span(inner))

    def keep(self, outer: cst.CSTNode, start: int, end: int) -> tuple[Edit, ...]:
        """Delete of a node what lies outside `[start, end)`."""
        first, last = self.span(outer)
        edits = Edit(self.path, first, start, ""), Edit(self.path, end, last, "")
        return tuple(edit for edit in edits if edit.start != edit.end)

    def outer_span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The node's span with the parentheses around it."""
        start, end = self.span(node)
        for left in getattr(node, "lpar", ()):
            start = min(start, self.span(left)[0])
        for right in getattr(node, "rpar", ()):
            end = max(end, self.span(right)[1])
        return start, end

    def delete(self, small: cst.CSTNode) -> Edit:
        """Delete a simple statement (`cst.Expr`, `cst.Assign`, ...) with its line, or `pass` in its place if its block
        would be left empty. Comments above it stay, one at its end goes with it."""
        line = self.parent(small)
        if not isinstance(line, self.cst.SimpleStatementLine):
            if isinstance(line, self.cst.SimpleStatementSuite) and len(line.body) == 1:
                return self.replace(small, "pass")
            return self._delete_of_several(small, line)
        if len(line.body) > 1:
            return self._delete_of_several(small, line)
        if len(self.block(line)) == 1 and isinstance(self.parent(line), self.cst.IndentedBlock):
            return self.replace(small, "pass")
        start, end = self.line_start(self.span(small)[0]), self.line_end(self.span(small)[1])
        before = self._whole[self.line_start(start - 1) : start] if start else ""
        while end < len(self._whole) and not before.strip() and not self._whole[end : self.line_end(end)].strip():
            end = self.line_end(end)
        return Edit(self.path, start, end, "")

    def _delete_of_several(self, small: cst.CSTNode, line: Any) -> Edit:
        index = next(i for i, other in enumerate(line.body) if other is small)
        if index + 1 < len(line.body):
            return Edit(self.path, self.span(small)[0], self.span(line.body[index + 1])[0], "")
        return Edit(self.path, self.span(line.body[index - 1])[1], self.span(small)[1], "")

    def varies(self, node: cst.CSTNode) -> bool:
        """Whether a name in an expression may stand for things of several kinds: what callers give (`self` is one thing),
        or what is bound in more than one place."""
        cst = self.cst
        function = self.enclosing(node, cst.FunctionDef, cst.Lambda)
        names = {name.value for name in self.names(node)} - {"self"}
        if function is not None:
            params = function.params
            given = [*params.posonly_params, *params.params, *params.kwonly_params, params.star_arg, params.star_kwarg]
            if names & {param.name.value for param in given if isinstance(param, cst.Param)}:
                return True
        targets: list[str] = []
        for assign in self.nodes(cst.AssignTarget, cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr):
            if self.enclosing(assign, cst.FunctionDef) is function:
                targets += [name.value for name in self.names(assign.target)]
        return any(targets.count(name) > 1 for name in names)

    def together(self, first: cst.CSTNode, second: cst.CSTNode) -> bool:
        """Whether the statements that hold two nodes stand in one block."""
        return self.parent(self.statement(first)) is self.parent(self.statement(second))

    def move_before(self, small: cst.CSTNode, statement: cst.CSTNode) -> tuple[Edit, ...]:
        """Move a simple statement directly above another one."""
        return self.delete(small), self.insert_before(statement, self.code(small))

    def move_after(self, small: cst.CSTNode, statement: cst.CSTNode) -> tuple[Edit, ...]:
        """Move a simple statement directly below another one."""
        return self.delete(small), self.insert_after(statement, self.code(small))

    def insert_before(self, statement: cst.CSTNode, *lines: str) -> Edit:
        """New lines, indented as the statement is, directly above it (below its comments)."""
        start = self.line_start(self._first_line(statement))
        indent = self.indent(statement)
        return Edit(self.path, start, start, "".join(f"{indent}{line}{self.newline}" for line in lines))

    def insert_after(self, statement: cst.CSTNode, *lines: str) -> Edit:
        """New lines, indented as the statement is, directly below the last line of it."""
        end = self.line_end(self.span(statement)[1])
        indent = self.indent(statement)
        if not self.ends_line(end):
            return Edit(self.path, end, end, "".join(f"{self.newline}{indent}{line}" for line in lines))
        return Edit(self.path, end, end, "".join(f"{indent}{line}{self.newline}" for line in lines))

    def _first_line(self, statement: cst.CSTNode) -> int:
        decorators = getattr(statement, "decorators", ())
        return self.span(decorators[0])[0] if decorators else self.span(statement)[0]

    def insert_decorator(self, function: cst.FunctionDef, line: str) -> Edit:
        """A decorator directly above `def`, below those that are there."""
        start = self.line_start(self.span(function.name)[0])
        return Edit(self.path, start, start, f"{self.indent_at(start)}{line}{self.newline}")

    def block_end(self, statement: cst.CSTNode) -> int:
        """The end of the last line of a statement, its line end included."""
        return self.line_end(self.span(statement)[1])

    def ends_line(self, offset: int) -> bool:
        """Whether a line end stands before this offset."""
        return offset > 0 and self._whole[offset - 1] in "\r\n"

    def indented(self, start: int, end: int, by: str | None = None) -> tuple[Edit, ...]:
        """Indent the lines that start in `[start, end)` by one level; blank lines and the insides of strings stay."""
        by = self.indent_step if by is None else by
        cst = self.cst
        inside = [
            self.span(node)
            for node in self.nodes(cst.SimpleString, cst.FormattedString)
            if _NEWLINE.search(self.code(node))
        ]
        edits: list[Edit] = []
        at = start if start == self.line_start(start) else self.line_end(start)
        while at < end:
            after = self.line_end(at)
            if self._whole[at:after].strip() and not any(first < at < last for first, last in inside):
                edits.append(Edit(self.path, at, at, by))
            at = after
        return tuple(edits)

    def wrap(self, first: cst.CSTNode, last: cst.CSTNode, header: str) -> tuple[Edit, ...]:
        """Put the statements from `first` to `last` of one block under a new line `header` (`with torch.no_grad():`)."""
        start = self.line_start(self._first_line(first))
        head = Edit(self.path, start, start, f"{self.indent(first)}{header}{self.newline}")
        lines = self.indented(start, self.line_end(self.span(last)[1]))
        if lines and lines[0].start == start:  # one insertion at one place, not two
            head, lines = head._replace(content=head.content + lines[0].content), lines[1:]
        return (head, *lines)

    def outdented(self, start: int, end: int, by: str) -> tuple[Edit, ...]:
        """Take `by` away from the start of the lines that start in `[start, end)`, the insides of strings excepted."""
        return tuple(
            Edit(self.path, edit.start, edit.start + len(by), "")
            for edit in self.indented(start, end)
            if self._whole.startswith(by, edit.start)
        )

    def unwrap_with(self, block: cst.With, item: cst.WithItem) -> tuple[Edit, ...]:
        """Take one item out of a `with`; the block's lines move out if it was the only one. A comment on the header
        line stays, above them."""
        cst = self.cst
        items = block.items
        if len(items) > 1:
            index = next(i for i, other in enumerate(items) if other is item)
            if index:
                return (Edit(self.path, self.span(items[index - 1].item)[1], self.span(item.item)[1], ""),)
            return (Edit(self.path, self.span(item.item)[0], self.span(items[1].item)[0], ""),)
        first, last = block.body.body[0], block.body.body[-1]
        start = self.span(block)[0]
        if not isinstance(block.body, cst.IndentedBlock):
            return (Edit(self.path, start, self.span(first)[0], ""),)
        header = self.line_end(self.span(item)[1])
        comment = block.body.header.comment
        edits = [Edit(self.path, start, self.span(comment)[0], "")] if comment else []
        edits = edits or [Edit(self.path, self.line_start(start), header, "")]
        by = self.indent(first).removeprefix(self.indent(block))
        return (*edits, *self.outdented(header, self.line_end(self.span(last)[1]), by))


def _positions(
    module: cst.Module, shift: int
) -> tuple[dict[cst.CSTNode, tuple[int, int]], dict[cst.CSTNode, cst.CSTNode]]:
    """The span of each node, moved by `shift`, and the parent of each node, both outer before inner."""
    provider_module = importlib.import_module("libcst.metadata.span_provider")
    provider: Any = provider_module.ByteSpanPositionProvider()
    state = provider_module.SpanProvidingCodegenState(
        default_indent=module.default_indent, default_newline=module.default_newline, provider=provider, get_length=len
    )
    # The way LibCST's own providers are written; there is no public one in code points.
    module._codegen(state)  # pyright: ignore[reportPrivateUsage]
    spans: dict[cst.CSTNode, tuple[int, int]] = {}
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    waiting: list[Any] = [module]
    while waiting:
        node = waiting.pop()
        if (found := provider._computed.get(node)) is not None:
            spans[node] = (found.start + shift, found.start + found.length + shift)
            if node.__class__.__name__ in ("Tuple", "GeneratorExp") and node.lpar:  # its parentheses are part of it
                first, last = provider._computed[node.lpar[-1]], provider._computed[node.rpar[0]]
                spans[node] = (first.start + shift, last.start + last.length + shift)
        for child in reversed(node.children):
            parents[child] = node
            waiting.append(child)
    return spans, parents
