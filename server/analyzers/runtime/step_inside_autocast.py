"""The optimizer steps inside the `autocast` block that the next forward runs in, which goes on with old weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Leaf
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    stepped: dict[Leaf, events.Step] = {}
    for event in flow.among(events.Step, events.Forward):
        if isinstance(event, events.Step) and isinstance(event.autocast, events.Autocast):
            stepped.update((leaf, event) for leaf in event.leaves)
        elif isinstance(event, events.Forward) and isinstance(event.autocast, events.Autocast):
            leaf = event.module.cells.get("leaf")
            step = (
                stepped.get(leaf) if isinstance(leaf, Leaf) and event.mode is not None and event.mode.records else None
            )
            if step is not None and step.autocast is event.autocast:
                yield Finding(
                    "", "", RULE.severity, step.place,
                    say("autocast keeps its copies of the weights until its block ends: the next forward does not "
                        "see this step"),
                    (Step(event.autocast.place, say("the block goes on over the next forward")),),
                )  # fmt: skip


RULE = Rule(code="GL601", severity=Severity.WARNING, check=check)
