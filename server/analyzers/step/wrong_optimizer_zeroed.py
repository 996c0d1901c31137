"""One optimizer is cleared twice and the other never: its gradients of earlier batches are applied again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def wrongly_zeroed(flow: Flow, step: events.Step) -> events.Zero | None:
    """The clearing of another optimizer that was meant for that of `step`, which finds gradients of earlier steps.

    That is the last one before the step, made in the same turn, if the other optimizer is cleared elsewhere too and
    nobody clears what the step applies.
    """
    stale = {leaf for leaf, _ in step.stale}
    zeros = [event for event in flow.of(events.Zero) if event.loops]
    if any(stale & set(event.leaves) for event in flow.of(events.Zero)):
        return None
    before = flow.events[: flow.events.index(step)]
    for event in reversed(before):
        if isinstance(event, events.Step):
            return None
        if isinstance(event, events.Zero) and (event.optimizer is not None or len(event.leaves) > 1):
            twice = any(z.place != event.place and set(z.leaves) == set(event.leaves) for z in zeros)
            return event if twice and event.loops else None
    return None


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Step):
        if not event.stale or event.optimizer.cells.get("escaped"):
            continue
        zero = wrongly_zeroed(flow, event)
        if zero is not None:
            yield Finding(
                "", "", RULE.severity, zero.place,
                say("{zero} clears an optimizer that is cleared elsewhere already, and the one that steps next is "
                    "never cleared", zero=flow.code(zero.place)),
                (Step(event.place, say("this step applies gradients of earlier steps again")),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Clear the other one.

    Needs: the place is the whole call that clears the wrong one (`optimizer_g.zero_grad()`); the last step of the
    trail is the whole call that steps the one that is never cleared (`optimizer_d.step()`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    zero: Any = tree.exactly(finding.place, cst.Call)
    step: Any = tree.exactly(finding.trail[-1].place, cst.Call)
    if zero is None or step is None or not isinstance(step.func, cst.Attribute):
        return None
    name = tree.code(step.args[0].value if step.args else step.func.value)
    return Fix(say("Clear {name}", name=name), Applicability.SAFE, (tree.replace(zero.func.value, name),))


RULE = Rule(code="GL410", severity=Severity.WARNING, check=check)
