"""Making a leaf of a tensor that is computed from one: what the fixes of non-leaves share."""

from __future__ import annotations

from typing import Any

from ...edits import Edit, Tree


def as_leaf(tree: Tree, made: Any) -> tuple[Edit, ...] | None:
    """`a * f(b, requires_grad=True)` becomes `(a * f(b)).requires_grad_()`; None if it is a leaf already."""
    cst = tree.cst
    first, last = tree.span(made)
    flags = [arg for arg in tree.nodes(cst.Arg) if arg.keyword is not None and arg.keyword.value == "requires_grad"]
    flags = [arg for arg in flags if first <= tree.span(arg)[0] < last]
    if len(flags) != 1 or tree.code(flags[0].value) != "True":
        return None
    call: Any = tree.parent(flags[0])
    if call is made:
        return None
    index = next(i for i, arg in enumerate(call.args) if arg is flags[0])
    start = tree.span(call.args[index - 1].value)[1] if index else tree.span(flags[0])[0]
    end = tree.span(flags[0].value)[1]
    loose = isinstance(made, (cst.BinaryOperation, cst.UnaryOperation)) and not made.lpar
    head = (Edit(tree.path, first, first, "("),) if loose else ()
    tail = Edit(tree.path, last, last, ").requires_grad_()" if loose else ".requires_grad_()")
    return *head, Edit(tree.path, start, end, ""), tail


def parameter_last(tree: Tree, whole: Any) -> Edit | None:
    """`nn.Parameter(x) * 2` becomes `nn.Parameter(x * 2)`; None if there is not exactly one Parameter in it."""
    cst = tree.cst
    found = [call for call in tree.nodes(cst.Call) if _is_parameter(tree, call) and _within(tree, call, whole)]
    if len(found) != 1 or len(found[0].args) != 1:
        return None
    (call,) = found
    start, end = tree.span(whole)
    first, last = tree.outer_span(call)
    inner: Any = call.args[0].value
    code = tree.code(inner)
    loose = (cst.BinaryOperation, cst.UnaryOperation, cst.IfExp, cst.Comparison)
    if isinstance(inner, loose) and not inner.lpar:
        code = f"({code})"
    text = f"{tree.code(call.func)}({tree.text(start, first)}{code}{tree.text(last, end)})"
    return tree.replace(whole, text)


def _is_parameter(tree: Tree, call: Any) -> bool:
    return tree.code(call.func).rpartition(".")[2] == "Parameter"


def _within(tree: Tree, inner: Any, outer: Any) -> bool:
    first, last = tree.span(inner)
    start, end = tree.span(outer)
    return start <= first and last <= end and inner is not outer
