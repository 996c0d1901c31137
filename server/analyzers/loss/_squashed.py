"""Taking a squashing function off the scores: shared by the fixes of softmax and sigmoid before a loss."""

from __future__ import annotations

from typing import Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Place


def taken_away(finding: Finding, context: FixContext, message: str) -> Fix | None:
    """The fix that takes away what squashes the loss's input, at the end of the trail.

    Not safe where the input comes from another function, whose other callers may want probabilities.
    """
    origin = finding.trail[-1].place
    edits = without(context, origin)
    if edits is None:
        return None
    returned = context.scope(origin) != context.scope(finding.place)
    return Fix(message, Applicability.UNSAFE if returned else Applicability.SAFE, edits)


def without(context: FixContext, place: Place) -> tuple[Edit, ...] | None:
    """The edits that leave the argument where `F.softmax(x, dim=1)`, `x.sigmoid()` or `nn.Softmax(1)(x)` stands, or
    take the layer out of a `Sequential`. A statement that is left as `x = x` goes. None: the place is no such thing."""
    tree = context.scope_tree(place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(place, cst.Call)
    if call is None:
        return None
    outer: Any = tree.parent(call)
    holder: Any = tree.parent(outer) if isinstance(outer, cst.Arg) else None
    if isinstance(holder, cst.Call) and tree.code(holder.func).rpartition(".")[2] == "Sequential":
        index = next(i for i, arg in enumerate(holder.args) if arg is outer)
        if index == 0:
            return None
        return (Edit(tree.path, tree.span(holder.args[index - 1].value)[1], tree.span(outer.value)[1], ""),)
    positional = [arg.value for arg in call.args if arg.keyword is None]
    plain = (cst.Integer, cst.UnaryOperation)
    method = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("softmax", "sigmoid") and (
        not positional or isinstance(positional[0], plain)
    )  # fmt: skip
    module = tree.code(call.func.value) if method else ""
    imported = {"F", "torch", "nn.functional", "functional", "torch.nn.functional", "torch.special"}
    inner = call.func.value if method and module not in imported else next(iter(positional), None)
    if inner is None:
        return None
    if isinstance(outer, cst.Assign) and len(outer.targets) == 1:
        target = outer.targets[0].target
        if tree.code(target) == tree.code(inner):
            return (tree.delete(outer),)
    return tree.unwrap(call, inner)
