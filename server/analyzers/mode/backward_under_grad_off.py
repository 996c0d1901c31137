"""The loss of this `backward()` was computed while a global switch held gradients off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import import_steps, mode_note
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
        trail = (*import_steps(mode.stack), Step(mode.place, mode_note(mode)))
        yield Finding(
            "", "", RULE.severity if sure else Severity.WARNING, event.value_place,
            say("{loss} was computed with gradients off, which {how} left behind: {call} raises",
                how=f"`{mode.how}`", loss=flow.code(event.value_place), call=event.how)
            if sure
            else say("{loss} may have been computed with gradients off, which {how} left behind: {call} "
                     "raises then", how=f"`{mode.how}`", loss=flow.code(event.value_place), call=event.how), trail,
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Give the switch an end, where it stands.

    Needs: the place is the receiver of `backward`; the trail ends at the whole call of the switch.
    """
    if not finding.trail:
        return None
    return end_switch(finding.trail[-1].place, [finding.place], context)


RULE = Rule(code="GL202", severity=Severity.ERROR, check=check)
