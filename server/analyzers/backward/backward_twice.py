"""A part of a graph is walked backward a second time, after the first backward has freed it."""

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
        if not event.freed:
            continue
        node, first = event.freed[-1]
        trail = []
        if first != event.place:
            trail.append(Step(first, "this backward has freed the graph"))
        if node.place is not None:
            trail.append(Step(node.place, f"{node.op} was recorded here and belongs to both graphs"))
        carried = first == event.place
        message = (
            "the graph of an earlier pass is walked again: something computed there is still part of this loss"
            if carried
            else "a part of this loss's graph was freed by an earlier backward: add the losses, or detach what is carried over"
        )
        yield Finding("", "", RULE.severity, event.value_place, message, tuple(trail))


RULE = Rule(code="GL302", severity=Severity.ERROR, check=check)
