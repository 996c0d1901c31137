"""A `DistributedSampler` is never told the epoch: it gives the same order in each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import TRUE, Const, External, Object
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.frames import Args
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

SAMPLER = "torch.utils.data.DistributedSampler"


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.complete:
        return
    told = {event.owner for event in flow.called(f"{SAMPLER}.set_epoch")}
    made = {event.result: event for event in flow.called(SAMPLER)}
    for event in flow.of(events.Iterated):
        sampler = _sampler(event.loader)
        if sampler is None or sampler in told or sampler not in made or not _shuffles(sampler):
            continue
        if event.loader.cells.get("escaped") or sampler.cells.get("escaped"):
            continue
        outer = {loop.place for loop in made[sampler].loops}
        epochs = next((loop for loop in event.loops if loop.place not in outer and not loop.unrolled), None)
        if epochs is None or epochs.place is None or not _trains(flow, event):
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            say("every epoch sees the same order: the sampler shuffles with the epoch's number, and nobody calls "
                "`set_epoch`"),
            (Step(epochs.place, say("this loop should begin with `sampler.set_epoch(epoch)`")),
             Step(made[sampler].place, say("the sampler is made here"))),
        )  # fmt: skip


def _sampler(loader: Object) -> Object | None:
    """The DistributedSampler of a loader, also inside of a batch sampler."""
    for name in ("sampler", "batch_sampler"):
        value = loader.cells.get(name)
        if isinstance(value, Object) and isinstance(value.cls, External):
            return value if value.cls.name == SAMPLER else _sampler(value)
    return None


def _shuffles(sampler: Object) -> bool:
    args = sampler.cells.get("args")
    value = args.get(3, "shuffle", TRUE) if isinstance(args, Args) else None
    return isinstance(value, Const) and value.value is True


def _trains(flow: Flow, begun: events.Iterated) -> bool:
    """Whether the loop that begins to iterate there goes backward, this time: an evaluation may have any order."""
    place = begun.place
    for event in flow.events[flow.events.index(begun) + 1 :]:
        if isinstance(event, events.Iterated) and event.place == place:
            return False
        if isinstance(event, events.Backward) and any(_at(loop.place, place) for loop in event.loops):
            return True
    return False


def _at(loop: Place | None, place: Place) -> bool:
    return loop is not None and loop.path == place.path and loop.start <= place.start and place.end <= loop.end


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Tell the sampler the epoch at the top of the loop over the epochs.

    Needs: the first step of the trail is what that loop goes over; the last one is the call that makes the sampler,
    which is given a name in the same function or at the top level.
    """
    if len(finding.trail) < 2:
        return None
    epochs, made = finding.trail[0].place, finding.trail[-1].place
    tree = context.scope_tree(epochs)
    if tree is None or made.path != epochs.path or context.scope(made) != context.scope(epochs):
        whole = context.file_tree(epochs.path) if made.path == epochs.path else None
        if whole is None:
            return None
        tree = whole
    cst = tree.cst
    loop: Any = next((one for one in tree.nodes(cst.For) if tree.place(one.iter) == epochs), None)
    call: Any = tree.exactly(made, cst.Call)
    assign: Any = tree.parent(call) if call is not None else None
    if loop is None or call is None or not isinstance(assign, cst.Assign) or not isinstance(loop.target, cst.Name):
        return None
    name: Any = assign.targets[0].target
    if len(assign.targets) != 1 or not isinstance(name, cst.Name):
        return None
    scopes = [next((o for o in tree.ancestors(node) if isinstance(o, cst.FunctionDef)), None) for node in (loop, call)]
    if scopes[1] is not None and scopes[0] is not scopes[1]:
        return None
    epoch = loop.target.value
    if not isinstance(loop.body, cst.IndentedBlock):
        return None
    line = f"{name.value}.set_epoch({epoch})"
    edit = tree.insert_before(loop.body.body[0], line)
    counted = _COUNTS.search(tree.code(loop.iter)) is not None  # of anything else torch's generator may make no seed
    return Fix(say("Tell the sampler the epoch"), Applicability.SAFE if counted else Applicability.UNSAFE, (edit,))


_COUNTS = re.compile(r"\b(?:t?range|count)\(")


RULE = Rule(code="GL605", severity=Severity.WARNING, check=check)
