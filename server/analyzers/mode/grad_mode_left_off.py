"""A global switch turns gradients off and nobody turns them on again before the training that comes later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._leftover import left_off
from ._switch import end_switch

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        found = left_off(event)
        if found is None:
            continue
        mode, sure = found
        assert mode.place is not None
        yield Finding(
            "", "", RULE.severity if sure else Severity.WARNING, mode.place,
            say("{how} turns gradients off for all that runs later, and a loss that is to train is computed then",
                how=f"`{mode.how}`"),
            (Step(event.value_place, say("the loss of this backward is computed with gradients off")),),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Put a context manager around what the switch was meant for.

    Needs: the place is the whole call (`torch.set_grad_enabled(False)`, `torch.no_grad().__enter__()`); the steps of
    the trail are the receivers of the backward calls that it reaches.
    """
    return end_switch(finding.place, [step.place for step in finding.trail], context)


RULE = Rule(code="GL201", severity=Severity.ERROR, check=check)
