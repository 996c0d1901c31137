"""A sum or a list of losses keeps the graph of every batch alive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import SCALAR, Sequence
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import call_steps
from ...messages import say
from ...rule import Rule
from .._graph import below, wanted
from .._names import read_elsewhere
from .eval_builds_graphs import evaluated_by

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    carried = any(event.freed for event in flow.of(events.Backward))
    for event in flow.of(events.Kept):
        if isinstance(event.container, Sequence) and event.container.cells.get("emptied"):
            continue  # from time to time what is in the list is let go
        if carried and event.how == "list" and event.freed is not None:
            continue  # it hangs on an old graph that the next backward walks again: backward-twice says it
        if event.how == "sum" and event.freed is not None and not event.carried:
            continue  # the total began anew in this turn; if it did not, the next turn says so
        trail: tuple[Step, ...] = ()
        later = _freed_later(flow, event) if event.freed is None and event.how == "list" else None
        if event.freed is not None:
            trail = (Step(event.freed, say("backward has gone through this graph already")),)
        elif later is not None:
            trail = (Step(later.place, say("backward goes through this graph in the same turn of the loop")),)
        elif not flow.whole or not flow.complete or flow.tainted or event.how != "sum" or not event.carried:
            continue  # it may be wanted somewhere, or it ends with the turn of the loop
        if (
            event.freed is None
            and later is None
            and (below(event.container) & wanted(flow) or evaluated_by(flow, event) is not None)
        ):
            continue
        if event.how == "sum" and id(getattr(event.container, "node", None)) in wanted(flow):
            continue  # a backward goes through the sum itself: backward-twice says it
        if event.value.node is not None:
            trail = (*reversed(call_steps(event.stack, event.value.node.stack)), *trail)  # how it comes here
        message = say("{code} keeps the graph of every turn alive, and nothing goes backward through it: add `.item()` or "
                      "`.detach()`", code=flow.code(event.place))  # fmt: skip
        if event.freed is not None or later is not None:
            message = say("{code} keeps the nodes of every turn's graph alive, though their backward is done: add "
                          "`.item()` or `.detach()`", code=flow.code(event.place))  # fmt: skip
        yield Finding(
            "", "", RULE.severity, event.place, message, trail,
            data=(("number", event.how == "sum" and event.value.rank == SCALAR),),
        )  # fmt: skip


def _freed_later(flow: Flow, kept: events.Kept) -> events.Backward | None:
    """The backward that frees the graph in the same turn of a loop over which the list lives on."""
    if not kept.loops or not kept.carried or kept.value.node is None or not flow.whole or not flow.complete:
        return None
    turn = kept.loops[-1]
    others = (e for e in flow.of(events.Kept) if e.container is kept.container and e.place == kept.place and e.loops)
    if not any(e.loops[-1].place == turn.place and e.loops[-1].index != turn.index for e in others):
        return None
    node = kept.value.node
    for event in flow.of(events.Backward):
        if event.loops == kept.loops and event.retain is False and not event.grad and node in event.nodes:
            return event
    return None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Keep the value without its graph.

    Needs: the place is the expression that is added or stored (`loss` in `total += loss`, `losses.append(loss)`).
    """
    tree = context.scope_tree(finding.place)
    value: Any = tree and tree.exactly(finding.place, tree.cst.BaseExpression)
    if tree is None or value is None:
        return None
    loose = (tree.cst.BinaryOperation, tree.cst.UnaryOperation, tree.cst.IfExp)
    code = f"({tree.code(value)})" if isinstance(value, loose) and not value.lpar else tree.code(value)
    taken = ".item()" if finding.get("number") and _as_number(tree, value, context) else ".detach()"
    edit = tree.replace(value, f"{code}{taken}")
    if value.lpar:
        end = tree.outer_span(value)[1]
        edit = Edit(tree.path, end, end, taken)
    return Fix(say("Keep it without its graph"), Applicability.SAFE, (edit,))


SHOWN = frozenset({"print", "float", "int", "format"})  # they take a tensor of one value as they take its number


def _as_number(tree: Tree, value: Any, context: FixContext) -> bool:
    """Whether the sum may as well be a Python number: it began as one, and every use of it is proven to take one."""
    cst = tree.cst
    total = tree.parent(value)
    if not isinstance(total, cst.AugAssign) or not isinstance(total.target, cst.Name):
        return False
    name = total.target.value
    scope = tree.enclosing(total, cst.FunctionDef, cst.ClassDef)
    if isinstance(scope, cst.ClassDef) or (scope is None and read_elsewhere(context, tree.path, name)):
        return False
    numeric = False
    for node in tree.names(tree.module):
        if node.value != name:
            continue
        above: Any = tree.parent(node)
        if isinstance(above, cst.AugAssign) and above.target is node:
            if not _counts(tree, above.operator, above.value):
                return False
            continue
        made = tree.parent(above) if isinstance(above, cst.AssignTarget) else above
        if isinstance(made, (cst.Assign, cst.AnnAssign)) and made.value is not node:
            if getattr(made, "target", node) is not node or not isinstance(made.value, (cst.Float, cst.Integer)):
                return False
            numeric = True
        elif not _takes_a_number(tree, node, context):
            return False
    return numeric


def _takes_a_number(tree: Tree, node: Any, context: FixContext) -> bool:
    """Whether what is done with this total, or with what is counted from it, is the same for a number: it is shown."""
    cst = tree.cst
    texts = cst.SimpleString, cst.ConcatenatedString, cst.FormattedString
    above = tree.parent(node)
    while isinstance(above, cst.UnaryOperation) or (
        isinstance(above, cst.BinaryOperation) and not isinstance(above.left, texts)
    ):
        if isinstance(above, cst.UnaryOperation):
            if not isinstance(above.operator, (cst.Minus, cst.Plus)):
                return False
        elif not _counts(tree, above.operator, above.right, divided=above.left is node):
            return False
        node, above = above, tree.parent(above)
    if isinstance(above, cst.FormattedStringExpression):
        return above.expression is node and not isinstance(tree.parent(above), cst.FormattedStringExpression)
    if isinstance(above, cst.Expr):
        return True  # the last line of a cell
    if isinstance(above, cst.Arg):
        call = tree.parent(above)
        if not isinstance(call, cst.Call) or above.keyword is not None or above.star:
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "format":
            told = call.func.value  # a field may look into what it shows: {0.shape}
            return isinstance(told, cst.SimpleString) and not re.search(r"\{[^{}:!]*[.\[]", tree.code(told))
        function, text = tree.code(call.func), context.file(tree.path).text
        if function.startswith("math."):
            return "import math\n" in text
        return function in SHOWN and not re.search(
            rf"\b(?:def|as|import|class) +{function}\b|\b{function} *=[^=]", text
        )
    if isinstance(above, cst.Element) and isinstance(tree.parent(above), cst.Tuple):
        above = tree.parent(tree.parent(above))
    return (
        isinstance(above, cst.BinaryOperation)
        and isinstance(above.operator, cst.Modulo)
        and isinstance(above.left, texts)
    )


def _counts(tree: Tree, operator: Any, right: Any, divided: bool = True) -> bool:
    """Whether a number is counted with as a tensor is. By zero a tensor is divided to `inf`, and a number is not."""
    name = type(operator).__name__.removesuffix("Assign")
    if name in ("Add", "Subtract", "Multiply"):
        return True
    return name == "Divide" and divided and _is_never_zero(tree, right)


def _is_never_zero(tree: Tree, node: Any) -> bool:
    cst = tree.cst
    if isinstance(node, (cst.Integer, cst.Float)):
        return node.evaluated_value != 0
    if isinstance(node, cst.Call):
        return tree.code(node.func) == "len"  # of what the loop has gone through
    if not isinstance(node, cst.Name):
        return False
    bound = [tree.parent(n) for n in tree.names(tree.module) if n.value == node.value]
    values = [tree.parent(above).value for above in bound if isinstance(above, cst.AssignTarget)]
    others = (
        cst.AugAssign,
        cst.For,
        cst.CompFor,
        cst.NamedExpr,
        cst.Param,
        cst.AsName,
        cst.NameItem,
        cst.AnnAssign,
        cst.Element,
    )
    return bool(values) and not any(isinstance(above, others) for above in bound) and all(
        isinstance(value, (cst.Integer, cst.Float, cst.Call)) and _is_never_zero(tree, value) for value in values
    )  # fmt: skip


RULE = Rule(code="GL901", severity=Severity.WARNING, check=check)
