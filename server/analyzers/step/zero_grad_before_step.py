"""Gradients are cleared between `backward()` and `step()`: the step finds none, and nothing is learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Step):
        if event.pending or event.stale or not event.empty or event.again is not None or event.closure:
            continue
        if not known(flow, event.optimizer):
            continue
        cleared = event.empty[-1][1]
        trail = [Step(event.place, say("the step finds no gradient"))]
        made = _made(flow, event)
        if made is not None:
            trail.append(Step(made, say("the gradients are computed here")))
        yield Finding(
            "", "", RULE.severity, cleared,
            say("{zero} clears the gradients after `backward()` and before the step that should apply them",
                zero=flow.code(cleared)),
            tuple(trail),
        )  # fmt: skip


def _made(flow: Flow, step: events.Step) -> Place | None:
    leaves = {leaf for leaf, _ in step.empty}
    for event in reversed(flow.events[: flow.events.index(step)]):
        if isinstance(event, events.Backward) and leaves & set(event.reached):
            return event.place
    return None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Clear them before the backward instead; after the step where the backward stands elsewhere.

    Needs: the place is the whole call of `zero_grad`; the trail holds the whole calls of the step and of `backward`,
    the latter last.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    zero: Any = tree.exactly(finding.place, cst.Call)
    if zero is None or not isinstance(tree.parent(zero), cst.Expr) or not tree.block(tree.statement(zero)):
        return None
    calls = [tree.exactly(step.place, cst.Call) for step in finding.trail]
    small = tree.parent(zero)
    assert small is not None
    if calls and calls[-1] is not None and tree.together(calls[-1], zero):
        edits = tree.move_before(small, tree.statement(calls[-1]))
    elif calls and calls[0] is not None and tree.together(calls[0], zero):
        edits = tree.move_after(small, tree.statement(calls[0]))
    else:
        return None
    return Fix(say("Clear the gradients before they are computed"), Applicability.SAFE, edits)


RULE = Rule(code="GL402", severity=Severity.ERROR, check=check)
