"""An optimizer with a memory is made again for the same parameters in every turn of the training loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import FOREIGN, NONE, Const, Range, Value, Writes
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.modules import library_class
from ...messages import say
from ...rule import Rule
from ._shared import known

if TYPE_CHECKING:
    from ...flow import Flow

RESETS = ("Module.load_state_dict", "Module.apply")


def check(flow: Flow) -> Iterable[Finding]:
    made: dict[object, events.OptimizerMade] = {}
    for event in flow.of(events.OptimizerMade):
        before = made.get(event.place)
        made[event.place] = event
        if before is None or not event.loops or event.branches or not event.leaves or event.leaves != before.leaves:
            continue
        if not remembers(event) or not _same_options(before, event) or not known(flow, event.optimizer):
            continue
        step = _step_between(flow, before, event)
        if step is not None:
            loop = event.loops[-1].place
            assert loop is not None
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{made} is made again in every turn of the loop: what it has learned of its parameters is "
                    "forgotten each time", made=flow.code(event.place)),
                (Step(loop, say("this loop makes it again")),
                 Step(step.place, say("it steps here, and is thrown away"))),
            )  # fmt: skip


def remembers(event: events.OptimizerMade) -> bool:
    """Whether the optimizer keeps a state from step to step, such as moments."""
    name = library_class(event.optimizer).rpartition(".")[2]
    if name == "SGD":
        momentum = event.options.get(2, "momentum", Const(0)) if event.options is not None else None
        return isinstance(momentum, Const) and bool(momentum.value)
    return name not in ("", "LBFGS", "Optimizer")


def _same_options(one: events.OptimizerMade, other: events.OptimizerMade) -> bool:
    """Whether both were given the same numbers: a new learning rate in each turn is a reason to make a new one."""
    if one.options is None or other.options is None or one.options.spread or other.options.spread:
        return False
    pairs = list(zip(one.options.positional[1:], other.options.positional[1:], strict=False))
    pairs += [
        (value, other.options.keywords.get(name)) for name, value in one.options.keywords.items() if name != "params"
    ]
    return all(_same(a, b) for a, b in pairs)


def _same(a: Value, b: Value | None) -> bool:
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value
    return a is b and (a is FOREIGN or not isinstance(a, type(FOREIGN)))


def _step_between(flow: Flow, before: events.OptimizerMade, after: events.OptimizerMade) -> events.Step | None:
    """The step of the first one, if the loop that makes it goes over the same data in each turn."""
    outer = after.loops[-1]
    if outer.unrolled:
        return None
    if isinstance(outer.over, Range) and id(outer.over.each) in flow.selected:
        return None  # each turn chooses something of its own: other data, another task
    depth = len(before.loops)
    start, end = flow.events.index(before), flow.events.index(after)
    between = flow.events[start:end]
    if any(isinstance(e, events.Called) and e.name in RESETS for e in between):
        return None
    steps = [e for e in between if isinstance(e, events.Step) and e.optimizer is before.optimizer]
    several = outer.over is not NONE and not outer.counted  # it goes over something, which may be different tasks
    if several and any(len(step.loops) > depth for step in steps):
        return None
    for step in steps:
        inner = step.loops[depth:]
        if len(inner) > 1 or any(loop.counted for loop in inner):
            return None  # a training of its own, with epochs or a number of steps
    places = {step.place for step in steps}
    for leaf in before.leaves:
        writes = leaf.storage.cells.get("writes")
        if isinstance(writes, Writes) and not (writes.exact and set(writes.places) <= places):
            return None  # the weights are set anew
    return steps[0] if steps else None


RULE = Rule(code="GL411", severity=Severity.WARNING, check=check)
