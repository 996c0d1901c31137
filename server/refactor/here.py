"""Where the cursor stands: the statement, its block, and what is around it, on the IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import ir
from ..edits import FixContext
from ..findings import Place
from ..project import Module, Project
from ..units import Unit

if TYPE_CHECKING:
    from ..insight import Insight


class Offer(NamedTuple):
    """`name` is what `make` is asked for; `safe`: what the program does stays the same, but for what the title says."""

    name: str
    title: str
    safe: bool


class Statement(NamedTuple):
    """A statement of the IR with the offset that its positions count from."""

    base: int
    node: Any  # an ir.Stmt
    unit: Unit

    @property
    def start(self) -> int:
        """Where it starts; decorators are part of it."""
        first = (ir.unpack(one.at)[0] - 1 for one in getattr(self.node, "decorators", ()))  # with the `@`
        return self.base + min(ir.unpack(self.node.at)[0], *first, 1 << 60)

    @property
    def end(self) -> int:
        return self.base + ir.unpack(self.node.at)[1]

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node of this statement stands in the file."""
        start, end = ir.unpack(node.at)
        return self.base + start, self.base + end


@dataclass(frozen=True)
class Here:
    """The innermost statement at an offset; `around` are those that hold it, the outermost first."""

    project: Project
    module: Module
    offset: int
    statement: Statement
    block: tuple[Statement, ...]  # in which it stands
    around: tuple[Statement, ...]
    known: Insight | None  # what was seen of the present text, if it was looked at
    cancelled: Callable[[], bool] | None

    @property
    def path(self) -> str:
        return self.module.path

    @property
    def text(self) -> str:
        return self.module.source.text

    @property
    def following(self) -> tuple[Statement, ...]:
        """The statements below it in its block."""
        return tuple(other for other in self.block if other.start > self.statement.start)

    @property
    def function(self) -> Statement | None:
        """The innermost function around it."""
        return next((one for one in reversed(self.around) if type(one.node) is ir.Def), None)

    @property
    def is_whole_line(self) -> bool:
        """Whether the statement starts its line and nothing of another stands behind it: lines can be put around it."""
        text = self.text
        before = text[text.rfind("\n", 0, self.statement.start) + 1 : self.statement.start]
        end = self.statement.end
        stop = text.find("\n", end)
        after = text[end : len(text) if stop < 0 else stop].strip()
        return not before.strip() and (not after or after.startswith("#"))

    @property
    def is_readable(self) -> bool:
        """Whether the text around it is Python as it stands."""
        outer = self.around[0] if self.around else self.statement
        return not outer.unit.broken

    def place(self, node: Any) -> Place:
        return Place(self.path, *self.statement.span(node))

    def context(self) -> FixContext:
        return FixContext(self.project.source)

    def imported(self, name: str) -> str | None:
        """What the module imports under this name, as a dotted name; None if it is no import."""
        for base in self.module.units:
            for statement in flat(base, base.ir):
                node = statement.node
                if type(node) is ir.Import:
                    for alias in node.names:
                        if (alias.asname or alias.name.partition(".")[0]) == name:
                            return alias.name if alias.asname else alias.name.partition(".")[0]
                elif type(node) is ir.ImportFrom:
                    for alias in node.names:
                        if (alias.asname or alias.name) == name:
                            return f"{'.' * node.level}{node.module}.{alias.name}"
        return None

    def torch(self) -> str | None:
        """What `torch` is called in this module."""
        return next((name for name in ("torch", "th", "pt", "T") if self.imported(name) == "torch"), None)

    def dotted(self, node: Any) -> str:
        """What a name or an attribute of names stands for, by the module's imports; "" if that is not known."""
        parts: list[str] = []
        while type(node) is ir.Attr:
            parts.append(node.name)
            node = node.value
        if type(node) is not ir.Name or (origin := self.imported(node.id)) is None:
            return ""
        return ".".join([origin, *reversed(parts)])


def flat(unit: Unit, body: Sequence[Any]) -> Iterator[Statement]:
    """The statements of a body; those that are units of their own with their own base."""
    for node in body:
        if type(node) is ir.Part:
            child = unit.children[node.index]
            yield from flat(child, child.ir)
        else:
            yield Statement(unit.start, node, unit)


def blocks(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """The blocks directly in a statement."""
    node = statement.node
    bodies = [getattr(node, name, ()) for name in ("body", "orelse", "final")]
    bodies += [handler.body for handler in getattr(node, "handlers", ())]
    bodies += [case.body for case in getattr(node, "cases", ())]
    for body in bodies:
        if isinstance(body, tuple) and body:
            yield tuple(flat(statement.unit, body))


def within(statement: Statement) -> Iterator[Any]:
    """Every node in a statement, itself first; what are units of their own included, functions in it too."""
    stack: list[tuple[Unit, object]] = [(statement.unit, statement.node)]
    while stack:
        unit, node = stack.pop()
        if type(node) is ir.Part:
            child = unit.children[node.index]
            stack.extend((child, one) for one in child.ir)
        elif isinstance(node, tuple):
            if hasattr(node, "_fields"):
                yield node
            stack.extend((unit, one) for one in node)


def here_at(
    project: Project, path: str, offset: int, known: Insight | None, cancelled: Callable[[], bool] | None = None
) -> Here | None:
    """The innermost statement on the line of an offset, or that the offset is in."""
    module = project.module(path)
    if module is None or "torch" not in module.source.text:
        return None
    text = module.source.text
    line = text.rfind("\n", 0, offset) + 1
    indent = len(text) - len(text[line:].lstrip(" \t\f")) - line if line < len(text) else 0
    offset = max(offset, line + indent)
    block = tuple(statement for unit in module.units for statement in flat(unit, unit.ir))
    around: list[Statement] = []
    found: Here | None = None
    while True:
        inside = next((one for one in block if one.start <= offset <= one.end), None)
        if inside is None:
            return found
        found = Here(project, module, offset, inside, block, tuple(around), known, cancelled)
        deeper = [inner for inner in blocks(inside) if inner[0].start <= offset <= inner[-1].end]
        if not deeper:
            return found
        around.append(inside)
        block = deeper[0]
