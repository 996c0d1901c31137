"""The scheduler steps before the optimizer: the first value of its schedule is skipped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ...torchlib import scheduler as known_scheduler
from ._scheduler import optimizer_of

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    stepped: dict[int, events.Step] = {}
    early: dict[Place, int] = {}  # the scheduler's steps that came before any of the optimizer's
    for event in flow.among(events.Step, events.Called):
        if isinstance(event, events.Step):
            stepped.setdefault(id(event.optimizer), event)
        elif isinstance(event, events.Called) and event.name == "Scheduler.step" and event.loops:
            if event.args or event.keywords or event.spread:
                continue  # `step(epoch)` says where in the schedule it is
            optimizer, name = optimizer_of(event)
            info = known_scheduler(name)
            if optimizer is None or optimizer.cells.get("escaped") or info is None or info.metric:
                continue
            first = stepped.get(id(optimizer))
            if first is None:
                early[event.place] = early.get(event.place, 0) + 1
            elif early.pop(event.place, 0) == 1 and event.loops[-1].index and not event.loops[-1].unrolled:
                yield Finding(
                    "", "", RULE.severity, event.place,
                    say("{step} comes before the optimizer's step: the first value of its schedule is never used",
                        step=flow.code(event.place)),
                    (Step(first.place, say("the optimizer steps after it")),),
                )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Step the scheduler after the optimizer.

    Needs: the place is the whole call (`scheduler.step()`); the last step of the trail is the optimizer's
    (`optimizer.step()`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    scheduler = tree.exactly(finding.place, cst.Call)
    step = tree.exactly(finding.trail[-1].place, cst.Call)
    if scheduler is None or step is None or not tree.together(scheduler, step):
        return None
    small: Any = tree.parent(scheduler)
    if not isinstance(small, cst.Expr) or not tree.block(tree.statement(scheduler)):
        return None
    edits = tree.move_after(small, tree.statement(step))
    return Fix(say("Step the scheduler after the optimizer"), Applicability.SAFE, edits)


RULE = Rule(code="GL409", severity=Severity.WARNING, check=check)
