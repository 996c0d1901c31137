"""The loss of this `backward()` was computed while a global switch held gradients off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Fix, FixContext
from ...findings import Finding, Severity
from ...rule import Rule
from ._switch import end_switch

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    return ()


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Give the switch an end, where it stands.

    Needs: the place is the receiver of `backward`; the trail ends at the whole call of the switch.
    """
    if not finding.trail:
        return None
    return end_switch(finding.trail[-1].place, [finding.place], context)


RULE = Rule(code="GL202", severity=Severity.ERROR, check=check)
