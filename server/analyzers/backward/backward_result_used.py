"""The result of `backward()` (always None) is kept in place of the loss, and then used as if it were one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    given = {event.place for event in flow.of(events.Backward)}
    for event in flow.of(events.NoneUsed):
        if event.origin is not None and event.origin in given:
            yield Finding(
                "", "", RULE.severity, event.origin,
                f"`backward()` returns None: what keeps its result has no `.{event.name}`",
                (Step(event.place, f"`.{event.name}` of None is asked for here"),),
            )  # fmt: skip


RULE = Rule(code="GL303", severity=Severity.ERROR, check=check)
