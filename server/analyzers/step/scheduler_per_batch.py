"""A schedule that counts epochs is stepped for every batch: the rate is gone after the first epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Const, Sequence
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._scheduler import argument, creation, optimizer_of

if TYPE_CHECKING:
    from ...flow import Flow

FEW = 5  # a step size that no schedule over batches has
STEEP = 0.9  # a factor which, taken for every batch, leaves nothing of the rate after a hundred


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.called("Scheduler.step"):
        optimizer, name = optimizer_of(event)
        made = creation(flow, event)
        if optimizer is None or made is None or len(event.loops) < 2 or event.args:
            continue
        epochs, batches = event.loops[-2:]
        if epochs.unrolled or batches.unrolled or batches.counted or not epochs.counted or epochs in made.loops:
            continue
        # The same turn of the same loop takes the optimizer's step: the inner loop is the one over batches.
        if not any(step.loops == event.loops and step.optimizer is optimizer for step in flow.of(events.Step)):
            continue
        if event.branches or batches.length == 1 or not _counts_epochs(event, name, epochs.length):
            continue
        assert batches.place is not None
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{step} runs for every batch, and its schedule counts epochs: step it after the loop over the "
                "batches", step=flow.code(event.place)),
            (Step(batches.place, say("this is the loop over the batches")),
             Step(made.place, say("the schedule is set here"))),
        )  # fmt: skip


def _counts_epochs(event: events.Called, name: str, epochs: int | None) -> bool:
    """Whether the schedule's own numbers are numbers of epochs, as far as that can be proven."""
    short = name.rpartition(".")[2]
    if short == "StepLR":
        size, gamma = _number(argument(event, 1, "step_size")), _number(argument(event, 2, "gamma", Const(0.1)))
        return size is not None and gamma is not None and gamma <= 0.5 and size <= max(FEW, epochs or 0)
    if short == "ExponentialLR":
        gamma = _number(argument(event, 1, "gamma"))
        return gamma is not None and 0 < gamma <= STEEP
    if short == "MultiStepLR":
        milestones = argument(event, 1, "milestones")
        items = milestones.cells.get("items") if isinstance(milestones, Sequence) else None
        numbers = [_number(item) for item in items] if isinstance(items, tuple) else [None]
        return epochs is not None and bool(numbers) and all(n is not None and n <= epochs for n in numbers)
    if short == "CosineAnnealingLR":
        return epochs is not None and epochs > 1 and _number(argument(event, 1, "T_max")) == epochs
    return False


def _number(value: object) -> float | None:
    known = value.value if isinstance(value, Const) else None
    return known if isinstance(known, (int, float)) and not isinstance(known, bool) else None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Step it when the loop over the batches has ended.

    Needs: the place is the whole call of `step`; the first step of the trail is what that loop goes over.
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    loop: Any = next((one for one in tree.nodes(cst.For) if tree.place(one.iter) == finding.trail[0].place), None)
    if call is None or loop is None or not isinstance(tree.parent(call), cst.Expr) or loop.orelse is not None:
        return None
    if len(tree.block(tree.statement(call))) < 2:
        return None
    # Below a condition it may not be there at all, and below the loop nothing comes of one that returns.
    plain = tree.parent(tree.statement(call)) is loop.body
    leaves = any(
        loop in tree.ancestors(one) and tree.enclosing(one, cst.FunctionDef) is tree.enclosing(loop, cst.FunctionDef)
        for one in tree.nodes(cst.Return)
    )
    safety = Applicability.SAFE if plain and not leaves else Applicability.UNSAFE
    return Fix(say("Step it after the loop over the batches"), safety, tree.move_after(tree.parent(call), loop))


RULE = Rule(code="GL415", severity=Severity.WARNING, check=check)
