"""A global switch turns gradients off and nobody turns them on again before the training that comes later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Fix, FixContext
from ...facts import Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule
from ._switch import end_switch

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if not isinstance(value, Tensor) or not value.dead or value.opaque:
            continue
        mode = next((c.mode for c in value.cuts if c.mode is not None and c.mode.persistent), None)
        if mode is None or mode.place is None:
            continue
        yield Finding(
            "", "", RULE.severity, mode.place,
            f"{mode.how} turns gradients off for all that runs later, and a loss that is to train is computed then",
            (Step(event.value_place, "the loss of this backward is computed with gradients off"),),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Put a context manager around what the switch was meant for.

    Needs: the place is the whole call (`torch.set_grad_enabled(False)`, `torch.no_grad().__enter__()`); the steps of
    the trail are the receivers of the backward calls that it reaches.
    """
    return end_switch(finding.place, [step.place for step in finding.trail], context)


RULE = Rule(code="GL201", severity=Severity.ERROR, check=check)
