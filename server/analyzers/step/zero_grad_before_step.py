"""Gradients are cleared between `backward()` and `step()`: the step finds none, and nothing is learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...rule import Rule
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Step):
        if event.pending or event.stale or not event.empty or event.again is not None or event.closure:
            continue
        if not known(flow, event.optimizer):
            continue
        cleared = event.empty[-1][1]
        trail = [Step(event.place, "the step finds no gradient")]
        made = _made(flow, event)
        if made is not None:
            trail.append(Step(made, "the gradients are computed here"))
        yield Finding(
            "", "", RULE.severity, cleared,
            "the gradients are cleared after `backward()` and before the step that should apply them", tuple(trail),
        )  # fmt: skip


def _made(flow: Flow, step: events.Step) -> Place | None:
    leaves = {leaf for leaf, _ in step.empty}
    for event in reversed(flow.events[: flow.events.index(step)]):
        if isinstance(event, events.Backward) and leaves & set(event.reached):
            return event.place
    return None


RULE = Rule(code="GL402", severity=Severity.ERROR, check=check)
