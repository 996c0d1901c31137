"""Gradients are cleared for every micro-batch: the step applies those of the last one only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._loss import divisors, same_number
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Step):
        if not known(flow, event.optimizer):
            continue
        found = _after_the_loop(flow, event) or _every_so_often(flow, event)
        if found is None:
            continue
        cleared, made = found
        yield Finding(
            "", "", RULE.severity, cleared,
            say("the gradients of every micro-batch but the last are cleared before the step that should apply them"),
            (Step(event.place, say("the step finds the gradients of one micro-batch")),
             Step(made, say("they are computed here"))),
        )  # fmt: skip


def _after_the_loop(flow: Flow, step: events.Step) -> tuple[Place, Place] | None:
    """A loop clears and computes gradients time after time; the step comes when it has ended."""
    if not step.dropped or len(step.dropped) != step.pending:
        return None
    _, cleared, made = step.dropped[0]
    backward = next((e for e in flow.of(events.Backward) if e.place == made and len(e.loops) > len(step.loops)), None)
    if backward is None or not set(backward.reached) <= set(step.leaves):
        return None
    inner = backward.loops[-1]
    return (cleared, made) if not inner.unrolled and inner not in step.loops else None


def _every_so_often(flow: Flow, step: events.Step) -> tuple[Place, Place] | None:
    """A loop steps once in so many iterations, divides the loss by that number, and clears in every iteration."""
    if not step.guards:
        return None
    guard, leaves = step.guards[-1], set(step.leaves)
    before = flow.events[: flow.events.index(step)]
    for index, event in enumerate(reversed(before)):
        if isinstance(event, events.Step) and leaves & set(event.leaves):
            return None
        if isinstance(event, events.Backward) and leaves & set(event.reached):
            if event.guards or event.loops != step.loops or not set(event.reached) <= leaves:
                return None
            if not any(same_number(divisor, guard.every) for divisor in divisors(event)):
                return None
            for zero in reversed(before[: len(before) - index - 1]):
                if isinstance(zero, (events.Backward, events.Step)) or zero.loops != step.loops:
                    return None
                if isinstance(zero, events.Zero) and leaves & set(zero.leaves):
                    unguarded = not zero.guards and zero.branches <= event.branches
                    return (zero.place, event.place) if unguarded else None
            return None
    return None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Clear them when the step has applied them.

    Needs: the place is the whole call of `zero_grad`; the first step of the trail is the whole call that steps.
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    zero: Any = tree.exactly(finding.place, cst.Call)
    step: Any = tree.exactly(finding.trail[0].place, cst.Call)
    if zero is None or step is None or not isinstance(tree.parent(zero), cst.Expr):
        return None
    if not tree.block(tree.statement(zero)) or not tree.block(tree.statement(step)):
        return None
    edits = tree.move_after(tree.parent(zero), tree.statement(step))
    return Fix(say("Clear the gradients after the step"), Applicability.SAFE, edits)


RULE = Rule(code="GL413", severity=Severity.WARNING, check=check)
