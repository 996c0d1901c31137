"""`backward` is named but not called: no gradient is computed, and nothing is learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.NotCalled):
        if isinstance(event.owner, Tensor) and event.name == "backward":
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} is named but not called, so no gradient is computed: put `()` behind it",
                    code=flow.code(event.place)),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call it."""
    end = finding.place.end
    return Fix(say("Call it"), Applicability.SAFE, (Edit(finding.place.path, end, end, "()"),))


RULE = Rule(code="GL304", severity=Severity.ERROR, check=check)
