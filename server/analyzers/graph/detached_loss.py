"""`backward()` starts from a tensor that has lost its graph: no parameter can get a gradient from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Tensor
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.trails import call_steps, cut_steps
from ...rule import Rule
from ._mending import mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if not isinstance(value, Tensor) or not value.dead or value.opaque:
            continue
        if not value.cuts:
            frozen = _frozen(flow, event)
            if frozen is not None:
                yield Finding(
                    "", "", RULE.severity, event.value_place,
                    "everything that this loss is computed from is frozen: `backward()` raises, since nothing requires grad",
                    (Step(frozen, "this turns the parameters' gradients off"),),
                )  # fmt: skip
            continue
        if any(cut.mode is not None and cut.mode.persistent for cut in value.cuts):
            continue  # backward-under-grad-off says it
        trail: tuple[Step, ...] = cut_steps(value.cuts, event.value_place)
        mode = next((cut.mode for cut in value.cuts if cut.mode is not None), None)
        if mode is not None and mode.stack is not event.stack:
            # The mode was set by a caller: how it comes to hold here.
            trail = (*reversed(call_steps(event.stack, mode.stack)), *trail)
        elif mode is None and len(value.cuts) == 1:
            # A function that was called on the way cuts the line.
            trail = (*call_steps(value.cuts[0].stack, event.stack), *trail)
        yield Finding(
            "", "", RULE.severity, event.value_place,
            "this loss has lost its graph: `backward()` raises, since no parameter can be reached from it", trail,
        )  # fmt: skip


def _frozen(flow: Flow, backward: events.Backward) -> Place | None:
    """Where the program has frozen all that its optimizers hold; None if that is not known."""
    leaves = [leaf for event in flow.of(events.OptimizerMade) for leaf in event.leaves]
    if not flow.whole or not flow.complete or flow.tainted or not leaves:
        return None
    if any(leaf.cells.get("requires_grad") is not False or leaf.cells.get("escaped") for leaf in leaves):
        return None
    for event in reversed(flow.events[: flow.events.index(backward)]):
        if isinstance(event, events.GradFlag) and event.value is False:
            return event.place
        if isinstance(event, events.Called) and event.name == "Module.requires_grad_":
            return event.place
    return None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back.

    Needs: the place is the receiver of `backward`; each cut on the way is a step of the trail, and the origin is the
    last: the whole call (`pred.detach()`, `torch.tensor(losses)`), the attribute (`pred.data`), or the context manager
    (`torch.no_grad()` in the `with` or the decorator). The trail is empty if the receiver is the cut.
    """
    places = [step.place for step in finding.trail] or [finding.place]
    mended = mend(context, finding.place, places)
    if mended is None:
        return None
    return Fix(mended.message, Applicability.SAFE if mended.safe else Applicability.UNSAFE, mended.edits)


RULE = Rule(code="GL102", severity=Severity.ERROR, check=check)
