"""A sum or a list of losses keeps the graph of every batch alive."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule
from .._graph import below, wanted
from .eval_builds_graphs import evaluated_by

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Kept):
        trail: tuple[Step, ...] = ()
        if event.freed is not None:
            trail = (Step(event.freed, "backward has gone through this graph already"),)
        elif not flow.whole or not flow.complete or flow.tainted or event.how != "sum" or not event.carried:
            continue
        elif below(event.container) & wanted(flow) or evaluated_by(flow, event) is not None:
            continue
        what = "sum" if event.how == "sum" else "list"
        yield Finding(
            "", "", RULE.severity, event.place,
            f"this {what} keeps the graph of every turn alive, and nothing goes backward through it: add `.item()` or `.detach()`",
            trail,
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Keep the value without its graph.

    Needs: the place is the expression that is added or stored (`loss` in `total += loss`, `losses.append(loss)`).
    """
    tree = context.tree(finding.place)
    value: Any = tree and tree.exactly(finding.place, tree.cst.BaseExpression)
    if tree is None or value is None:
        return None
    loose = (tree.cst.BinaryOperation, tree.cst.UnaryOperation, tree.cst.IfExp)
    code = f"({tree.code(value)})" if isinstance(value, loose) and not value.lpar else tree.code(value)
    edit = tree.replace(value, f"{code}.detach()")
    if value.lpar:
        end = tree.outer_span(value)[1]
        edit = Edit(tree.path, end, end, ".detach()")
    return Fix("Keep it without its graph", Applicability.SAFE, (edit,))


RULE = Rule(code="GL901", severity=Severity.WARNING, check=check)
