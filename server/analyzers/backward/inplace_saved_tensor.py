"""A tensor that backward needs was changed in place after it was saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        if not event.changed:
            continue
        node, place = event.changed[0]
        trail = [Step(event.value_place, "this backward needs the value as it was, and raises")]
        if node.place is not None:
            trail.append(Step(node.place, f"{node.op} has saved it for backward here"))
        yield Finding(
            "", "", RULE.severity, place,
            "this changes a tensor in place that a backward still needs as it was when it was saved", tuple(trail),
        )  # fmt: skip


RULE = Rule(code="GL305", severity=Severity.ERROR, check=check)
