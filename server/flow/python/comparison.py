"""Comparisons, as far as what is known of both sides decides them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    FALSE,
    TRUE,
    UNKNOWN,
    Const,
    GradOf,
    Mapping,
    Number,
    ParameterOf,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)
from ..operations import operate

if TYPE_CHECKING:
    from ..interp import Interpreter


BOOL = Union((TRUE, FALSE))


def compare(run: Interpreter, op: str, left: Value, right: Value, e: ir.Compare) -> Value:
    for one, other, swap in ((left, right, False), (right, left, True)):
        if (
            isinstance(one, Union)
            and isinstance(other, (Const, Sequence))
            and all(isinstance(o, Const) for o in one.options)
        ):
            found = [compare(run, op, *((other, o) if swap else (o, other)), e) for o in one.options]
            return found[0] if all(f is found[0] for f in found) else BOOL
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            result = {
                "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
                ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "is": lambda a, b: a is b or (a == b and a is not True),
                "is not": lambda a, b: not (a is b or a == b), "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
            }[op](left.value, right.value)  # fmt: skip
        except TypeError:
            return BOOL
        return TRUE if result else FALSE
    if op in ("is", "is not"):
        none = next((v for v in (left, right) if isinstance(v, Const) and v.value is None), None)
        other = right if none is left else left
        if (
            none is not None
            and isinstance(other, GradOf)
            and _training.why_none(run, other)
            # Of several parameters, in turn, some may have a gradient.
            and all(_training.grad_of(leaf).state == "none" for leaf in other.leaves)
        ):
            return TRUE if op == "is" else FALSE
        if none is not None and not isinstance(other, (Unknown, Union, Const, GradOf)):
            return TRUE if op == "is not" else FALSE
        return BOOL
    if op in ("in", "not in"):
        run.sized += 1
        if isinstance(right, Sequence) and isinstance(left, Const):
            items = right.cells.get("items")
            if isinstance(items, tuple) and all(isinstance(i, Const) for i in items):
                found = any(i.value == left.value for i in items)  # type: ignore[attr-defined]
                return TRUE if found == (op == "in") else FALSE
        if isinstance(right, Mapping) and isinstance(left, Const) and right.complete and "rest" not in right.cells:
            return TRUE if (("key", left.value) in right.cells) == (op == "in") else FALSE
        return BOOL
    if any(isinstance(v, (Tensor, ParameterOf)) for v in (left, right)):
        return operate(run, _COMPARE_NAMES[op], [left, right], e, shown=op)
    if isinstance(left, (Number, Const)) and isinstance(right, (Number, Const)):
        return BOOL
    return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else BOOL


_COMPARE_NAMES = {
    "==": "torch.eq",
    "!=": "torch.ne",
    "<": "torch.lt",
    "<=": "torch.le",
    ">": "torch.gt",
    ">=": "torch.ge",
}


# The parts of the interpreter know each other: these come when this one is complete.
from .. import training as _training  # noqa: E402
