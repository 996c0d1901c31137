"""`.grad` is None here, and something is asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity
from ...flow import events
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

_WHY = {
    "non-leaf": "the tensor is the result of an operation, and only leaves keep their gradient (or call `retain_grad()`)",
    "no-grad": "the tensor does not require grad",
    "no-backward": "no backward has reached it yet",
    "cleared": "it was cleared and no backward has reached it since",
}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.NoneUsed):
        if event.why not in _WHY or (event.why in ("no-backward", "cleared") and not flow.whole):
            continue
        yield Finding(
            "", "", RULE.severity, event.place, f"`.grad` is None here, and has no `.{event.name}`: {_WHY[event.why]}"
        )


RULE = Rule(code="GL107", severity=Severity.ERROR, check=check)
