"""Every forward before a step runs under `no_sync()`: the gradients of the processes are never averaged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import External, Leaf, Object
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...messages import say
from ...rule import Rule
from .ddp_module_call import DDP

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    wrappers = [
        obj
        for obj in flow.objects
        if isinstance(obj.cls, External) and obj.cls.name == DDP and not obj.cells.get("escaped")
    ]
    if flow.run is None or not wrappers:
        return
    held = {id(wrapper): set(leaves_of(flow.run, wrapper)[0]) for wrapper in wrappers}
    forwards: dict[int, list[events.Forward]] = {}
    for event in flow.among(events.Forward, events.Step):
        if isinstance(event, events.Forward) and id(event.module) in held:
            forwards.setdefault(id(event.module), []).append(event)
        elif isinstance(event, events.Step):
            for wrapper in wrappers:
                if held[id(wrapper)] & set(event.leaves):
                    yield from _alone(event, wrapper, forwards.pop(id(wrapper), []), held[id(wrapper)])


def _alone(step: events.Step, wrapper: Object, forwards: list[events.Forward], leaves: set[Leaf]) -> Iterable[Finding]:
    """The finding for a step, if no forward since the last one lets the processes average."""
    places = [event.unsynced for event in forwards]
    if not places or not all(isinstance(place, Place) for place in places) or not step.pending:
        return
    if any(leaf.cells.get("grad-read") for leaf in leaves):
        return  # the gradients are looked at: they may be averaged by hand
    place = places[-1]
    assert place is not None
    trail = [Step(step.place, say("this step applies what each process has computed for itself"))]
    if wrapper.place is not None:
        trail.append(Step(wrapper.place, say("the model is wrapped here")))
    yield Finding(
        "", "", RULE.severity, place,
        say("every forward before the step runs under `no_sync()`: the gradients are not averaged, and each process "
            "trains alone; the last one has to stand outside"), tuple(trail),
    )  # fmt: skip


RULE = Rule(code="GL606", severity=Severity.WARNING, check=check)
