"""A step also applies gradients that another loss has left in the parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Leaf
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.training import walk
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
        if leaf.cells.get("grad-changed") or _together(flow, event, leaf, made, other):
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{step} also applies what another loss has left in these gradients: clear them before the "
                "`backward()` of its own loss", step=flow.code(event.place)),
            (Step(made, say("this loss, which another optimizer steps for, reaches these parameters too")),
             Step(other, say("the other optimizer steps here and leaves their gradients as they are"))),
        )  # fmt: skip


def _together(flow: Flow, step: events.Step, leaf: Leaf, made: Place, left: Place) -> bool:
    """Whether the two losses of a step are parts of one training.

    The loss of the other optimizer reached that one's parameters *through* the leaf, and the loss of this step goes back
    to them, too, or through the graph of the first one again: whoever trains an encoder by what the generator makes of
    its codes trains both. What a discriminator's loss leaves in the generator is none of that: it is not on the way.
    """
    before: list[events.Backward] = []
    for event in flow.events:
        if event is step:
            break
        if isinstance(event, events.Backward) and not event.grad and leaf in event.reached:
            before.append(event)
    first = next((b for b in reversed(before) if b.place == made), None)
    last = before[-1] if before else None
    if first is None or last is None or first is last:
        return False
    others = {one for s in flow.of(events.Step) if s.place == left for one in s.leaves} - set(step.leaves)
    if others.isdisjoint(last.reached) and set(first.nodes).isdisjoint(last.nodes):
        return False
    return any(
        not others.isdisjoint((*below.sure, *below.maybe))
        for below in (walk(node) for node in first.nodes if any(n.leaf is leaf for n in node.inputs))
    )


RULE = Rule(code="GL416", severity=Severity.WARNING, check=check)
