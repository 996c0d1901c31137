"""`backward()` starts from a tensor that has lost its graph: no parameter can get a gradient from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import call_steps, cut_steps
from ...rule import Rule
from ._mending import mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if not isinstance(value, Tensor) or not value.dead or value.opaque or not value.cuts:
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
