"""A sum or a list of losses keeps the graph of every batch alive."""

from __future__ import annotations

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


PLAIN = {"print", "float", "round", "str", "format"}
TENSOR = (".item(", ".detach(", ".cpu(", ".numpy(", ".tolist(", ".backward(")


def _as_number(tree: Tree, value: Any, context: FixContext) -> bool:
    """Whether the sum may as well be a Python number: it began as one and nobody wants a tensor of it."""
    cst = tree.cst
    total = tree.parent(value)
    if not isinstance(total, cst.AugAssign) or not isinstance(total.target, cst.Name):
        return False
    name, numeric = total.target.value, False
    for node in tree.nodes(cst.Name):
        if node.value != name:
            continue
        above: Any = tree.parent(node)
        if isinstance(above, cst.AssignTarget):
            made = tree.parent(above)
            if not isinstance(made, cst.Assign) or not isinstance(made.value, (cst.Float, cst.Integer)):
                return False
            numeric = True
        elif isinstance(above, cst.Attribute) and above.value is node:
            return False
        elif isinstance(above, cst.Arg):
            call: Any = tree.parent(above)
            if not isinstance(call, cst.Call) or tree.code(call.func) not in PLAIN:
                return False
        elif isinstance(above, (cst.Return, cst.Tuple, cst.Assign, cst.Element)):
            rest = context.file(tree.path).text.replace(tree.code(total), "")
            if any(word in rest for word in TENSOR[:-1]):
                return False
    return numeric


RULE = Rule(code="GL901", severity=Severity.WARNING, check=check)
