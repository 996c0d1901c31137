"""Checks put into a program: that a value still has its graph, that a loss is finite, that it is an attached scalar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import ir
from ..edits import Applicability, Edit, Fix
from ..insight.observe import ATTACHED, DEAD, LEAF
from ..messages import say
from .here import Here, Offer, Statement, flat, within

GRAPH, FINITE, SCALAR = "assert-graph", "finite-guard", "attached-scalar"
CHECKED = "attached_scalar"
# What is put above the program's own functions.
FUNCTION = '''def attached_scalar(loss):
    """The loss itself; raises if no backward can start from it."""
    if loss.numel() != 1:
        raise ValueError(f"the loss has shape {{tuple(loss.shape)}}: reduce it with .mean() or .sum()")
    if {torch}.is_grad_enabled() and not loss.requires_grad:
        raise ValueError("the loss has no graph: it was cut, or depends on no parameter that asks for gradients")
    return loss
'''


class Backward(NamedTuple):
    """A statement that back-propagates a variable."""

    statement: Statement
    name: str


def offers(here: Here) -> Iterator[Offer]:
    if not (here.is_whole_line and here.is_readable):
        return
    backward = _backward(here.statement)
    if backward is not None:
        yield Offer(GRAPH, say("Assert that `{name}` has its graph", name=backward.name), True)
        yield Offer(FINITE, say("Stop if `{name}` is not finite", name=backward.name), True)
    elif (name := _tensor(here)) is not None:
        yield Offer(GRAPH, say("Assert that `{name}` has its graph", name=name), True)
    if (loss := _loss(here)) is not None and here.torch() is not None:
        yield Offer(SCALAR, say("Check that `{name}` is an attached scalar", name=_target(loss)), True)


def make(here: Here, name: str) -> Fix | None:
    offer = next((offer for offer in offers(here) if offer.name == name), None)
    if offer is None:
        return None
    context = here.context()
    tree = context.scope_tree(here.place(here.statement.node))
    if tree is None:
        return None
    cst = tree.cst
    line: Any = tree.find((here.statement.start, here.statement.end), cst.SimpleStatementLine)
    if line is None:
        return None
    backward = _backward(here.statement)
    edits: tuple[Edit, ...]
    if name == GRAPH:
        value = backward.name if backward is not None else _target(here.statement)
        check = f'assert {value}.requires_grad, "{value} has no graph: no gradient can come from it"'
        edits = (tree.insert_before(line, check) if backward is not None else tree.insert_after(line, check),)
    elif name == FINITE and backward is not None:
        value = backward.name
        edits = (
            tree.insert_before(
                line,
                f"if not {value}.isfinite().all():",
                f'{tree.indent_step}raise FloatingPointError(f"{value} is not finite: {{{value}}}")',
            ),
        )
    else:
        loss = _loss(here)
        if loss is None:
            return None
        start, end = loss.span(loss.node.value)
        edits = (Edit(here.path, start, start, f"{CHECKED}("), Edit(here.path, end, end, ")"))
        if not _is_defined(here):
            edits = (_definition(here, tree.newline), *edits)
    return Fix(offer.title, Applicability.SAFE, edits)


def _backward(statement: Statement) -> Backward | None:
    """`loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)` by itself: of which name."""
    node = statement.node
    if type(node) is not ir.ExprStmt or type(node.value) is not ir.Call or type(node.value.func) is not ir.Attr:
        return None
    call: Any = node.value
    owner = call.func.value
    if call.func.name not in ("backward", "manual_backward"):
        return None
    value = owner
    if type(owner) is ir.Call and type(owner.func) is ir.Attr and owner.func.name == "scale" and owner.args:
        value = owner.args[0]
    elif call.args and type(call.args[0]) is ir.Name and "loss" in call.args[0].id:
        value = call.args[0]
    return Backward(statement, value.id) if type(value) is ir.Name else None


def _target(statement: Statement) -> str:
    """The one name that an assignment binds; "" if it is no such assignment."""
    node = statement.node
    if type(node) is not ir.Assign or len(node.targets) != 1 or type(node.targets[0]) is not ir.Name:
        return ""
    return node.targets[0].id


def _tensor(here: Here) -> str | None:
    """The name that is bound here, if it is known to be a tensor that is to have a graph."""
    name = _target(here.statement)
    if not name:
        return None
    looks = here.known.looks(*here.statement.span(here.statement.node.targets[0])) if here.known is not None else []
    states = {seen.state for seen in looks}
    return name if ATTACHED in states and states <= {ATTACHED, LEAF} and not states & DEAD else None


def _loss(here: Here) -> Statement | None:
    """The assignment of a call's result that is back-propagated in the same function: at the cursor, or the nearest
    above the backward at the cursor."""
    backward = _backward(here.statement)
    if backward is not None:
        above = [one for one in here.block if one.start < here.statement.start and _target(one) == backward.name]
        found = above[-1] if above else None
    else:
        found = here.statement
        name = _target(found)
        if not name or name not in _back_propagated(here):
            return None
    if found is None or type(found.node.value) is not ir.Call:
        return None
    function = found.node.value.func
    called = function.id if type(function) is ir.Name else ""
    return None if called == CHECKED else found


def _back_propagated(here: Here) -> set[str]:
    """The names that are back-propagated in the function at hand, or in the module's own statements."""
    scope = [here.function] if here.function is not None else [*here.around[:1], *here.block]
    return {
        found.name
        for outer in scope
        for node in within(outer)
        if type(node) is ir.ExprStmt and (found := _backward(outer._replace(node=node))) is not None
    }


def _is_defined(here: Here) -> bool:
    return any(
        type(one.node) is ir.Def and one.node.name == CHECKED
        for unit in here.module.units
        for one in flat(unit, unit.ir)
    )


def _definition(here: Here, newline: str) -> Edit:
    """The function, above the top-level statement at hand and what is written above that."""
    outer = here.around[0] if here.around else here.statement
    if not here.around:  # at module level: above the first statement that is no import and no docstring
        outer = next(
            one for unit in here.module.units for one in flat(unit, unit.ir)
            if type(one.node) not in (ir.Import, ir.ImportFrom)
            and not (type(one.node) is ir.ExprStmt and type(one.node.value) is ir.Const)
        )  # fmt: skip
    text = here.text
    start = text.rfind("\n", 0, outer.unit.start if here.around else outer.start) + 1
    while start and (above := text[text.rfind("\n", 0, start - 1) + 1 : start]).startswith("#"):
        start -= len(above)
    function = FUNCTION.format(torch=here.torch()).replace("\n", newline)
    return Edit(here.path, start, start, f"{function}{newline}{newline}")
