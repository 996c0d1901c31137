"""What a loop over a value sees, and what unpacking one gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    UNKNOWN,
    Array,
    Const,
    Function,
    Leaf,
    Mapping,
    Mode,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    element,
    join_all,
)
from ..frames import UNROLL_LIMIT, Args

if TYPE_CHECKING:
    from ..interp import Interpreter


# Loops over `named_parameters()` that decide by the name are passed name by name: their bodies are a line or two.
NAMES_LIMIT = 64


@dataclass
class Items:
    """What a loop over a value sees: the items if they are known, else their join; and a generator's grad mode."""

    each: Value
    items: list[Value] | None = None
    mode: Mode | None = None


def use_up(run: Interpreter, value: Parameters | Sequence, e: ir.Expr | None) -> None:
    """Somebody iterates over a generator: a second time it is empty."""
    if e is not None and "used" not in value.cells:
        run.state.set(value.cells, "used", run.place(e.at))


def iterate(run: Interpreter, value: Value, e: ir.Expr | None) -> Items:
    """What a loop over a value sees; `e` is the expression that stands for it, if there is one."""
    if isinstance(value, Sequence):
        if value.kind == "generator":
            if "used" in value.cells:
                return Items(UNKNOWN)  # nothing is left, or what an earlier loop has left
            use_up(run, value, e)
        items = value.cells.get("items")
        if isinstance(items, tuple):
            return Items(join_all(items) if items else UNKNOWN, list(items))  # type: ignore[arg-type]
        _objects.note_many(run, element(value))
        return Items(element(value))  # type: ignore[arg-type]
    if isinstance(value, Range):
        _objects.note_many(run, value.each)
        return Items(value.each, None, value.mode)
    if isinstance(value, Mapping):
        keys = [Const(k[1]) for k in value.cells if isinstance(k, tuple)]
        if keys and value.complete and "rest" not in value.cells:
            return Items(join_all(keys), list(keys))  # type: ignore[arg-type]
        return Items(Text() if keys else UNKNOWN)
    if isinstance(value, Parameters):
        use_up(run, value, e)
        one = ParameterOf(value.leaves, all_of=True)
        each: Value = Sequence("tuple", {"items": (Text(), one)}) if value.named else one
        return Items(each)
    if isinstance(value, Tensor):
        return Items(_tensors.element_of(run, value))
    if isinstance(value, Object):
        found = _modules.iterate_object(run, value)
        if found is not None:
            return found
        fields = _objects.tuple_fields(value)
        if fields is not None:
            return Items(join_all(fields) if fields else UNKNOWN, fields)
        member = _objects.find(value.cls, "__iter__", run)
        if member is not None and isinstance(member[0], Function):
            return iterate(run, _calls.call(run, _objects.bound(member[0], value), Args([], {}), None), None)
        member = _objects.find(value.cls, "__getitem__", run)
        if member is not None and isinstance(member[0], Function):
            return Items(_calls.call(run, _objects.bound(member[0], value), Args([Number()], {}), None))
        return Items(UNKNOWN)
    if isinstance(value, Union):
        found_all = [iterate(run, o, None) for o in value.options]
        rows = [f.items for f in found_all if f.items is not None]
        alike = len(rows) == len(found_all) and len({len(row) for row in rows}) == 1
        columns = [join_all(list(column)) for column in zip(*rows, strict=True)] if alike else None
        return Items(join_all([f.each for f in found_all]), columns)  # type: ignore[arg-type]
    if isinstance(value, (Array, Text)):
        return Items(Number(value.cut) if isinstance(value, Array) else Text())
    if isinstance(value, ParameterOf):
        return Items(value)
    if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= UNROLL_LIMIT:
        return Items(Text(), [Const(c) for c in value.value])
    return Items(value if isinstance(value, Unknown) else UNKNOWN)


def unpacked(run: Interpreter, value: Value, count: int, star: int | None) -> list[Value]:
    """The values for `count` targets; the one at `star` takes the rest as a list."""
    if isinstance(value, Sequence):
        items = value.cells.get("items")
        if isinstance(items, tuple):
            if star is None and len(items) == count:
                return list(items)
            if star is not None and len(items) >= count - 1:
                tail = count - star - 1
                rest = items[star : len(items) - tail]
                return [*items[:star], Sequence("list", {"items": tuple(rest)}), *items[len(items) - tail :]]
            return [UNKNOWN] * count
    if isinstance(value, Union):
        columns = [unpacked(run, o, count, star) for o in value.options]
        return [join_all(list(c)) for c in zip(*columns, strict=True)]  # type: ignore[misc]
    found = iterate(run, value, None)
    if found.items is not None and len(found.items) == count and star is None:
        return found.items
    each = found.each
    _objects.draw(run, each)
    if isinstance(each, Object) or (isinstance(each, Tensor) and each.leaf is not None):
        each = UNKNOWN  # they are several, of which only one is known
    values: list[Value] = [each] * count
    if star is not None:
        values[star] = Sequence("list", {"items": None, "each": each})
    return values


def one_by_one(run: Interpreter, value: Value) -> list[Value] | None:
    """`named_parameters()` with each name, for loops that look at the names; None if not all of them are known."""
    if not isinstance(value, Parameters) or not value.named or not value.exact or value.trainable_only:
        return None
    if not isinstance(value.owner, Object) or len(value.leaves) > NAMES_LIMIT or "renamed" in value.cells:
        return None
    found = list(_modules.named_leaves(run, value.owner))
    if {leaf for _, leaf in found} != set(value.leaves):
        return None
    return [pair(name, ParameterOf((leaf,), all_of=True)) for name, leaf in found]


def covered_by(value: Value) -> tuple[Leaf, ...] | None:
    """The parameters of which pairs of the name and something else are all in what is iterated over, the name first."""
    if isinstance(value, Parameters):
        return value.leaves if value.named and value.exact and "renamed" not in value.cells else None
    found = (
        value.covers if isinstance(value, Range) else value.cells.get("covers") if isinstance(value, Sequence) else None
    )
    return found if isinstance(found, tuple) else None


def first_name(target: ir.Expr) -> str:
    while isinstance(target, (ir.Tuple, ir.List)) and target.items:
        target = target.items[0]
    return target.id if isinstance(target, ir.Name) else ""


def pair(*values: Value) -> Sequence:
    return Sequence("tuple", {"items": values})


# The parts of the interpreter know each other: these come when this one is complete.
from .. import calls as _calls  # noqa: E402
from .. import modules as _modules  # noqa: E402
from .. import objects as _objects  # noqa: E402
from .. import tensors as _tensors  # noqa: E402
