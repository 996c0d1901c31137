"""Gradients of several batches are summed for one step without dividing by their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Const
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._loss import averages, divisors
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for step in flow.of(events.Step):
        if not step.guards or not known(flow, step.optimizer):
            continue
        guard, leaves = step.guards[-1], set(step.leaves)
        if isinstance(guard.every, Const) and guard.every.value == 1:
            continue
        if any(leaf.cells.get("grad-changed") for leaf in leaves):
            continue
        for event in flow.of(events.Backward):
            if event.grad or event.guards or event.loops != step.loops or event.branches > step.branches:
                continue
            if not event.reached or not set(event.reached) <= leaves or not averages(event):
                continue
            if _cleared_each_time(flow, step, event):
                continue
            if any(not isinstance(d, Const) or not isinstance(guard.every, Const) for d in divisors(event)):
                continue
            if any(isinstance(d, Const) and _is_share(d.value, guard.every) for d in divisors(event)):
                continue
            yield Finding(
                "", "", RULE.severity, event.value_place,
                say("{loss} is a mean over one batch, and gradients of several are summed for a step: divide it by "
                    "their number", loss=flow.code(event.value_place)),
                (Step(guard.place, say("one step is taken for so many batches")),),
            )  # fmt: skip


def _cleared_each_time(flow: Flow, step: events.Step, backward: events.Backward) -> bool:
    leaves = set(step.leaves)
    return any(
        leaves & set(zero.leaves)
        and zero.loops == step.loops
        and not zero.guards
        and zero.branches <= backward.branches
        for zero in flow.of(events.Zero)
    )


def _is_share(value: object, every: object) -> bool:
    """Whether a constant factor or divisor is the number of batches, or its inverse."""
    number = every.value if isinstance(every, Const) else None
    if not isinstance(value, (int, float)) or not isinstance(number, (int, float)):
        return True
    return value == number or abs(value * number - 1) < 1e-6


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Divide the loss by the number of batches.

    Needs: the place is the receiver of `backward`; the last step of the trail is the `%` that counts the batches
    (`step % every`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    loss: Any = tree.exactly(finding.place, cst.BaseExpression)
    modulo: Any = tree.exactly(finding.trail[-1].place, cst.BinaryOperation)
    if loss is None or modulo is None or loss.lpar:
        return None
    count = tree.code(modulo.right)
    edit = tree.replace(loss, f"({tree.code(loss)} / {count})")
    return Fix(say("Divide the loss by {count}", count=count), Applicability.UNSAFE, (edit,))


RULE = Rule(code="GL406", severity=Severity.WARNING, check=check)
