"""Gradients are never cleared: each step applies those of all earlier batches once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import not_called
from .wrong_optimizer_zeroed import wrongly_zeroed

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    never = {event.place for event in flow.of(events.Step) if event.stale and event.before is None}
    for event in flow.of(events.Step):
        stale = [(leaf, place) for leaf, place in event.stale if not leaf.cells.get("escaped")]
        if not stale or event.optimizer.cells.get("escaped") or not_called(flow, event.optimizer, "zero_grad"):
            continue
        if wrongly_zeroed(flow, event) is not None:
            continue
        if event.before is not None and event.place not in never:
            yield _left_by_another(flow, event.place, event.before, stale[0][1])
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{step} also applies the gradients of earlier steps: nothing clears them in between",
                step=flow.code(event.place)),
            (Step(stale[0][1], say("backward adds to the gradients that the step before has already applied")),),
        )  # fmt: skip


def _left_by_another(flow: Flow, place: Place, before: Place, backward: Place) -> Finding:
    """The loop clears its gradients, after its step: what it adds to at first is what another step has left."""
    return Finding(
        "", "", RULE.severity, place,
        say("{step} also applies the gradients that {other} has already applied: nothing clears them before this "
            "backward adds to them", step=flow.code(place), other=flow.code(before)),
        (Step(before, say("this step has applied them, and leaves them where they are")),
         Step(backward, say("backward adds to the gradients that the step before has already applied"))),
    )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Clear the gradients before the backward; after the step where that stands elsewhere.

    Needs: the place is the whole call that steps (`optimizer.step()`, `scaler.step(optimizer)`); the last step of the
    trail is the whole call of `backward`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    step = tree.exactly(finding.place, cst.Call)
    if step is None or not isinstance(step.func, cst.Attribute):
        return None
    optimizer = tree.code(step.args[0].value if step.args else step.func.value)
    line = f"{optimizer}.zero_grad()"
    backward = tree.exactly(finding.trail[-1].place if finding.trail else None, cst.Call)
    if backward is not None and tree.together(backward, step):
        edit = tree.insert_before(tree.statement(backward), line)
    elif tree.block(tree.statement(step)):
        edit = tree.insert_after(tree.statement(step), line)
    else:
        return None
    return Fix(say("Clear the gradients of {optimizer}", optimizer=optimizer), Applicability.SAFE, (edit,))


RULE = Rule(code="GL401", severity=Severity.WARNING, check=check)
