"""Gradients are never cleared: each step applies those of all earlier batches once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ..graph._mending import cleared
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

    updates = {event.place for event in flow.of(events.Applied)}
    told: set[Place] = set()
    for event in flow.of(events.Applied):
        cells = event.leaf.cells
        if event.place in told or cells.get("escaped") or cells.get("grad-changed"):
            continue
        reads = cells.get("grad-read-at")
        if not isinstance(reads, dict) or not all(any(_within(read, update) for update in updates) for read in reads):
            continue  # whoever else reads the gradient may clear it
        told.add(event.place)
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{update} also applies the gradients of earlier passes: nothing clears them in between",
                update=flow.code(event.place)),
            (Step(event.backward, say("backward adds to the gradients that the update before has already applied")),),
            data=(("by", "hand"),),
        )  # fmt: skip


def _within(inner: Place, outer: Place) -> bool:
    return inner.path == outer.path and outer.start <= inner.start and inner.end <= outer.end


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
    trail is the whole call of `backward`. Where `by` is "hand", the place is the update (`w -= rate * w.grad`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    if finding.get("by") == "hand":
        return _by_hand(tree, finding)
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


def _by_hand(tree: Tree, finding: Finding) -> Fix | None:
    """The gradient is cleared behind the update, where nobody reads it later."""
    update: Any = tree.exactly(finding.place, tree.cst.AugAssign)
    if update is None:
        return None
    name = tree.code(update.target).removesuffix(".data")
    edits = cleared(tree, {name: update})
    return Fix(say("Clear the gradient of {name}", name=f"`{name}`"), Applicability.SAFE, edits) if edits else None


RULE = Rule(code="GL401", severity=Severity.WARNING, check=check)
