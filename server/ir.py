"""The instructions that gradline interprets: one table, no positions of its own.

A unit of source text (see `units.py`) is lowered to a tuple of statements. Every node carries `at`, its span packed
into one int and counted from the *start of its unit* (`pack`, `unpack`), so an edit above a unit changes nothing in
it and equal text has equal IR.

Nodes are named tuples: immutable, comparable, dispatched on by `type(node)`. The names follow `ast` where the
meaning is the same. What `ast` tells apart and the analysis does not (`Load`/`Store`, type comments) is dropped.

    x = model(a).sum()   ->   Assign(at, (Name(at, "x"),), Call(at, Attr(at, Call(at, Name(at, "model"), ...), "sum"), (), ()))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

SHIFT = 32
END = (1 << SHIFT) - 1


def pack(start: int, end: int) -> int:
    """Pack a span, in code points from the start of the unit, end exclusive."""
    return start << SHIFT | end


def unpack(at: int) -> tuple[int, int]:
    """The `(start, end)` that `pack` took."""
    return at >> SHIFT, at & END


# ---------------------------------------------------------------- expressions


class Const(NamedTuple):
    """A literal: str, bytes, int, float, complex, bool, None or Ellipsis."""

    at: int
    value: object


class Name(NamedTuple):
    at: int
    id: str


class Attr(NamedTuple):
    """`value.name`; the span of the name itself is the last `len(name)` characters of `at`."""

    at: int
    value: Expr
    name: str


class Sub(NamedTuple):
    """`value[index]`"""

    at: int
    value: Expr
    index: Expr  # pyright: ignore[reportIncompatibleMethodOverride]


class Slice(NamedTuple):
    at: int
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


class Call(NamedTuple):
    """`func(*args, **keywords)`: `args` may hold `Star`; a keyword without a name is `**value`."""

    at: int
    func: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str | None, Expr], ...]


class Star(NamedTuple):
    """`*value` in a call, a display or an assignment target."""

    at: int
    value: Expr


class Bin(NamedTuple):
    """`left op right`; `op` as written: `+ - * / // % ** @ & | ^ << >>`."""

    at: int
    op: str
    left: Expr
    right: Expr


class Unary(NamedTuple):
    """`op value`; `op` is `-`, `+`, `~` or `not`."""

    at: int
    op: str
    value: Expr


class Bool(NamedTuple):
    """`a and b and c` or `a or b`."""

    at: int
    op: str
    values: tuple[Expr, ...]


class Compare(NamedTuple):
    """`left ops[0] rights[0] ops[1] ...`; ops as written: `== != < <= > >= is, is not, in, not in`."""

    at: int
    left: Expr
    ops: tuple[str, ...]
    rights: tuple[Expr, ...]


class IfExp(NamedTuple):
    at: int
    test: Expr
    body: Expr
    orelse: Expr


class Tuple(NamedTuple):
    at: int
    items: tuple[Expr, ...]


class List(NamedTuple):
    at: int
    items: tuple[Expr, ...]


class Set(NamedTuple):
    at: int
    items: tuple[Expr, ...]


class Dict(NamedTuple):
    """`{key: value}`; a key of None is `**value`."""

    at: int
    keys: tuple[Expr | None, ...]
    values: tuple[Expr, ...]


class Generator(NamedTuple):
    """One `for target in iter if ...` of a comprehension."""

    target: Expr
    iter: Expr
    ifs: tuple[Expr, ...]
    is_async: bool


class Comp(NamedTuple):
    """A comprehension: `kind` is `list`, `set`, `dict` or `gen`; `key` only in a dict."""

    at: int
    kind: str
    key: Expr | None
    element: Expr
    generators: tuple[Generator, ...]


class Param(NamedTuple):
    """One parameter: `kind` is `pos` (positional only), `arg`, `*`, `kw` (keyword only) or `**`."""

    at: int
    name: str
    kind: str
    default: Expr | None
    annotation: Expr | None


class Lambda(NamedTuple):
    at: int
    params: tuple[Param, ...]
    body: Expr


class Await(NamedTuple):
    at: int
    value: Expr


class Yield(NamedTuple):
    at: int
    value: Expr | None


class YieldFrom(NamedTuple):
    at: int
    value: Expr


class Joined(NamedTuple):
    """An f-string: its interpolated expressions, in order (literal parts are dropped)."""

    at: int
    values: tuple[Expr, ...]


class Walrus(NamedTuple):
    at: int
    target: Expr
    value: Expr


class Hole(NamedTuple):
    """Text that could not be read, as an expression or a statement; `words` are the identifiers in it.

    Every name in it is unknown from there on.
    """

    at: int
    words: tuple[str, ...]


# ---------------------------------------------------------------- statements


class Assign(NamedTuple):
    """`a = b = value`: one target expression for each `=`."""

    at: int
    targets: tuple[Expr, ...]
    value: Expr


class AugAssign(NamedTuple):
    """`target op= value`; `op` without the `=`."""

    at: int
    target: Expr
    op: str
    value: Expr


class AnnAssign(NamedTuple):
    at: int
    target: Expr
    annotation: Expr
    value: Expr | None


class ExprStmt(NamedTuple):
    at: int
    value: Expr


class Return(NamedTuple):
    at: int
    value: Expr | None


class Raise(NamedTuple):
    at: int
    exc: Expr | None
    cause: Expr | None


class Assert(NamedTuple):
    at: int
    test: Expr
    msg: Expr | None


class Delete(NamedTuple):
    at: int
    targets: tuple[Expr, ...]


class Pass(NamedTuple):
    at: int


class Break(NamedTuple):
    at: int


class Continue(NamedTuple):
    at: int


class Global(NamedTuple):
    at: int
    names: tuple[str, ...]


class Nonlocal(NamedTuple):
    at: int
    names: tuple[str, ...]


class If(NamedTuple):
    """`elif` is an `If` alone in `orelse`."""

    at: int
    test: Expr
    body: Body
    orelse: Body


class For(NamedTuple):
    at: int
    target: Expr
    iter: Expr
    body: Body
    orelse: Body
    is_async: bool


class While(NamedTuple):
    at: int
    test: Expr
    body: Body
    orelse: Body


class With(NamedTuple):
    """`with expr as target, ...`; a missing target is None."""

    at: int
    items: tuple[tuple[Expr, Expr | None], ...]
    body: Body
    is_async: bool


class Handler(NamedTuple):
    """`except type as name:`"""

    at: int
    type: Expr | None
    name: str | None
    body: Body


class Try(NamedTuple):
    at: int
    body: Body
    handlers: tuple[Handler, ...]
    orelse: Body
    final: Body


class Case(NamedTuple):
    """`case pattern if guard:`; of the pattern only the names that it binds are kept."""

    at: int
    binds: tuple[str, ...]
    irrefutable: bool
    guard: Expr | None
    body: Body


class Match(NamedTuple):
    at: int
    subject: Expr
    cases: tuple[Case, ...]


class Def(NamedTuple):
    """`name_at` is the span of the name. A def that is a unit of its own has its whole body here."""

    at: int
    name: str
    name_at: int
    params: tuple[Param, ...]
    body: Body
    decorators: tuple[Expr, ...]
    returns: Expr | None
    is_async: bool
    is_generator: bool


class Class(NamedTuple):
    at: int
    name: str
    name_at: int
    bases: tuple[Expr, ...]
    keywords: tuple[tuple[str | None, Expr], ...]
    body: Body
    decorators: tuple[Expr, ...]


class Alias(NamedTuple):
    """`name as asname` in an import; `at` covers the whole of it."""

    at: int
    name: str
    asname: str | None


class Import(NamedTuple):
    at: int
    names: tuple[Alias, ...]


class ImportFrom(NamedTuple):
    """`from ..module import names`; `level` counts the dots; a star is an alias named `*`."""

    at: int
    module: str
    level: int
    names: tuple[Alias, ...]


class Part(NamedTuple):
    """Here stand the statements of the unit's child number `index`: they have a base (and a memory) of their own."""

    at: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]


Expr = (
    Const | Name | Attr | Sub | Slice | Call | Star | Bin | Unary | Bool | Compare | IfExp | Tuple | List
    | Set | Dict | Comp | Lambda | Await | Yield | YieldFrom | Joined | Walrus | Hole
)  # fmt: skip
Stmt = (
    Assign | AugAssign | AnnAssign | ExprStmt | Return | Raise | Assert | Delete | Pass | Break | Continue
    | Global | Nonlocal | If | For | While | With | Try | Match | Def | Class | Import | ImportFrom | Part
    | Hole
)  # fmt: skip
Body = tuple[Stmt, ...]


def nodes(tree: object) -> Iterator[Any]:
    """A node, or a body, and all nodes in it."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, tuple):
            parts = cast("tuple[object, ...]", node)
            if hasattr(parts, "_fields"):
                yield parts
            stack.extend(parts)


def same_name(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same name, or the same attribute of a name."""
    if isinstance(a, Name):
        return isinstance(b, Name) and a.id == b.id
    return isinstance(a, Attr) and isinstance(b, Attr) and a.name == b.name and same_name(a.value, b.value)


def target_names(target: Expr, names: set[str]) -> None:
    """Add the names that an assignment target binds."""
    if isinstance(target, Name):
        names.add(target.id)
    elif isinstance(target, (Tuple, List)):
        for item in target.items:
            target_names(item, names)
    elif isinstance(target, Star):
        target_names(target.value, names)
