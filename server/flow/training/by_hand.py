"""What a program does with gradients by hand: it reads `x.grad`, computes with it, writes it, applies it itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import FLOAT, GradOf, Method, Number, ParameterOf, Tensor, Value, replace
from ...findings import Place
from .. import events
from ..frames import Args
from ..operations import graph_of
from .gradients import change_grad, clear, grad_of
from .optimizers import optimizer_leaves

if TYPE_CHECKING:
    from ..interp import Interpreter


def apply_by_hand(run: Interpreter, target: ir.Expr, old: Value, value: ir.Expr, place: Place) -> None:
    """`w -= rate * w.grad`: if the gradient holds what this very update has applied before, that is told."""
    if isinstance(target, ir.Attr) and target.name == "data":
        target, old = target.value, run.eval(target.value)
    leaves = (old.leaf,) if isinstance(old, Tensor) else old.leaves if isinstance(old, ParameterOf) else ()
    if not leaves or not _reads_gradient(value, target):
        return
    for leaf in leaves:
        grad = grad_of(leaf) if leaf is not None else None
        if leaf is None or grad is None or grad.state != "fresh":
            continue
        if grad.again == place and grad.place is not None and run.certain_now():
            run.record(events.Applied(place, run.stack, leaf, grad.place))
        run.state.set(leaf.cells, "grad", replace(grad, hand=place))


def _reads_gradient(value: object, target: ir.Expr) -> bool:
    """Whether an expression holds `target.grad`."""
    if isinstance(value, ir.Attr) and value.name == "grad" and _alike(value.value, target):
        return True
    return isinstance(value, tuple) and any(_reads_gradient(part, target) for part in value)


def _alike(one: object, other: object) -> bool:
    """Whether two names, or attributes of names, are written alike."""
    if isinstance(one, ir.Name) and isinstance(other, ir.Name):
        return one.id == other.id
    return isinstance(one, ir.Attr) and isinstance(other, ir.Attr) and one.name == other.name and (
        _alike(one.value, other.value)
    )  # fmt: skip


def grad_attribute(run: Interpreter, value: GradOf, name: str, e: ir.Attr) -> Value:
    """`x.grad.name`"""
    place = run.place(e.at)
    if not _looked_at(run, e.value):
        run.record(events.NoneUsed(place, run.stack, name, None, why_none(run, value)))
    if name == "data":
        return value
    return Method(value, name)


def count_with_grad(run: Interpreter, value: GradOf, op: str, e: ir.Expr, changed: bool = False) -> None:
    """`x.grad * 2`: recorded where `x` can have no gradient at all, and nobody asks whether it has one; `x.grad *= 2`
    (`changed`), where it surely has none now."""
    why = why_none(run, value) if changed or not value.leaves else ""
    if why and not _looked_at(run, e):
        without = tuple([leaf for leaf in value.leaves if grad_of(leaf).state == "none"])
        run.record(events.NoneUsed(run.place(e.at), run.stack, op, None, why, without))


def _looked_at(run: Interpreter, grad: ir.Expr) -> bool:
    """Whether the code asks if this `x.grad` is there."""
    asked = grad.value if isinstance(grad, ir.Attr) else None
    return asked is not None and any(ir.same_name(asked, other) for other in run.frame.looked)


def why_none(run: Interpreter, value: GradOf) -> str:
    """Why `.grad` is surely None here; empty if that is not known."""
    if isinstance(value.of, Tensor) and not value.leaves:
        node, sure = graph_of(value.of)
        if sure and not value.of.opaque:
            if node is not None and "retains" in run.notes:
                return ""  # `retain_grad()` was called of this one, or of another
            return "non-leaf" if node is not None else "no-grad"
        return ""
    grads = [grad_of(leaf) for leaf in value.leaves]
    if any(g.zeros for g in grads):
        return ""
    if isinstance(value.of, ParameterOf) and value.of.all_of:
        # Each one in turn: the first without a gradient is enough.
        grads = [
            g for g, leaf in zip(grads, value.leaves, strict=True) if g.state == "none" and leaf.kind != "weights"
        ] or [g for g in grads if g.state == "none"]
    elif isinstance(value.of, ParameterOf):
        return ""
    if "taint" in run.notes and not set(value.leaves) <= {
        leaf for obj in run.objects for leaf in optimizer_leaves(obj)
    }:
        return ""  # a backward through something unknown has marked those of optimizers only
    if (
        grads
        and all(g.state == "none" for g in grads)
        and all(leaf.cells.get("escaped") is None for leaf in value.leaves)
    ):
        return "cleared" if grads[0].place is not None else "no-backward"
    return ""


def one_of(value: Value) -> bool:
    """Whether a tensor is one of several leaves: the join of two ways, or of the turns of a loop."""
    return isinstance(value, Tensor) and value.leaf is None


def call_grad_method(run: Interpreter, owner: GradOf, name: str, args: Args, e: ir.Call | None) -> Value:
    if name in ("zero_", "detach_"):
        if name == "zero_" and one_of(owner.of):
            change_grad(run, owner.leaves, decays=True)  # of which of them is not known
        elif name == "zero_":
            clear(run, owner.leaves, run.place(e.at) if e is not None else None, None, zeros=True)
        return owner
    if name in ("item", "tolist"):
        return Number()
    if name.endswith("_"):
        change_grad(run, owner.leaves, decays=name not in ("clamp_", "clip_", "nan_to_num_"))
        return owner
    return Tensor(dtype=FLOAT)


# The parts of the interpreter know each other: these come when this one is complete.
