"""A hook of the backward returns something that torch does not take for a gradient: `backward()` raises."""

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
        if event.rule == "hook-result":
            trail = tuple(Step(place, say("this is what the hook returns")) for place, _ in event.trail)
            yield Finding("", "", RULE.severity, event.place, _message(event.message, str(event.data["got"])), trail)


def _message(kind: str, got: str) -> str:
    if kind == "module":
        return say(
            "a full backward hook returns None or a tuple with a gradient for each input of the module: this one "
            "returns something else, and `backward()` raises"
        )
    if got == "size":
        return say("a tensor's hook returns None or a gradient of the tensor's own size: this one returns another size, "
                   "and `backward()` raises")  # fmt: skip
    return say("a tensor's hook returns None or a tensor: this one returns something else, and `backward()` raises")


RULE = Rule(code="GL705", severity=Severity.ERROR, check=check)
