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
            message = _message(flow.code(event.place), event.message, str(event.data["got"]))
            yield Finding("", "", RULE.severity, event.place, message, trail)


def _message(hook: str, kind: str, got: str) -> str:
    if kind == "module":
        return say(
            "{hook} returns what is no gradient, and `backward()` raises: a full backward hook returns None or a tuple "
            "with a gradient for each input of the module",
            hook=hook,
        )
    if got == "size":
        return say(
            "{hook} returns a tensor of another size, and `backward()` raises: a tensor's hook returns None or a gradient "
            "of the tensor's own size",
            hook=hook,
        )
    return say(
        "{hook} returns what is no tensor, and `backward()` raises: a tensor's hook returns None or the gradient",
        hook=hook,
    )


RULE = Rule(code="GL705", severity=Severity.ERROR, check=check)
