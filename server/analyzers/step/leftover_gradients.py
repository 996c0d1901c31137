"""A step also applies gradients that another loss has left in the parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    stale = {event.place for event in flow.of(events.Step) if event.stale}  # never cleared: other rules say that
    for event in flow.of(events.Step):
        if (
            not event.leftover
            or len(event.leftover) < event.pending
            or not event.loops
            or event.place in stale
            or not known(flow, event.optimizer)
        ):
            continue
        leaf, made, other = event.leftover[0]
        if leaf.cells.get("grad-changed"):
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{step} also applies what another loss has left in these gradients: clear them before the "
                "`backward()` of its own loss", step=flow.code(event.place)),
            (Step(made, say("this loss, which another optimizer steps for, reaches these parameters too")),
             Step(other, say("the other optimizer steps here and leaves their gradients as they are"))),
        )  # fmt: skip


RULE = Rule(code="GL416", severity=Severity.WARNING, check=check)
