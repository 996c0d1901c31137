"""The function that `torch.func.grad` gets does not depend on its argument: the gradient is exactly zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Raised):
        if event.rule != "constant-gradient":
            continue
        trail = tuple(
            Step(
                place,
                say("the line from the argument is cut here")
                if why == "cut"
                else say("the result is computed from other things than the argument"),
            )
            for place, why in event.trail
        )
        yield Finding(
            "", "", RULE.severity, event.place,
            say("what the function in {call} returns does not depend on its first argument as torch sees it: the "
                "gradient is exactly zero, and nothing is raised", call=flow.code(event.place)), trail,
        )  # fmt: skip


RULE = Rule(code="GL706", severity=Severity.WARNING, check=check)
