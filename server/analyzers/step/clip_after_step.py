"""Gradients are clipped after the step that used them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Const, External, Value
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import followed

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Clip):
        if not event.loops or not followed(flow, event.leaves) or _measures(event.limit):
            continue
        states = {grad.state for grad in event.grads}
        used = next((grad for grad in event.grads if grad.state == "used" and grad.by is not None), None)
        if states <= {"used", "none"} and used is not None and used.by is not None:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{clip} clips gradients that the step has already applied", clip=flow.code(event.place)),
                (Step(used.by, say("the step applies them unclipped")),),
            )  # fmt: skip
        elif states == {"none"} and all(grad.place is not None for grad in event.grads):
            cleared = event.grads[0].place
            assert cleared is not None
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{clip} clips nothing: the gradients were cleared and none has been computed since",
                    clip=flow.code(event.place)),
                (Step(cleared, say("the gradients are cleared here")),),
            )  # fmt: skip


def _measures(limit: Value) -> bool:
    """A limit that no norm exceeds: the call is there for the norm that it returns."""
    if isinstance(limit, Const):
        return isinstance(limit.value, float) and math.isinf(limit.value)
    return isinstance(limit, External) and limit.name.endswith("inf")


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Clip before the step.

    Needs: the place is the whole call that clips; the last step of the trail is the whole call that steps.
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    clip = tree.exactly(finding.place, cst.Call)
    step = tree.exactly(finding.trail[-1].place, cst.Call)
    if clip is None or step is None or not tree.together(clip, step) or not tree.block(tree.statement(clip)):
        return None
    small: Any = tree.parent(clip)
    if not isinstance(small, (cst.Expr, cst.Assign)):
        return None
    return Fix(say("Clip before the step"), Applicability.SAFE, tree.move_before(small, tree.statement(step)))


RULE = Rule(code="GL404", severity=Severity.WARNING, check=check)
