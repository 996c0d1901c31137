"""The gradients of an optimizer's parameters are computed, and its `step()` is never called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Class, Leaf, Object
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.training import optimizer_leaves
from ...messages import say
from ...rule import Rule
from ..graph.untrained_parameters import untrained
from ._shared import known, not_called, written

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete:
        return
    made: dict[Object, events.OptimizerMade] = {event.optimizer: event for event in flow.of(events.OptimizerMade)}
    stepped = {event.optimizer for event in flow.of(events.Step)}
    if any(optimizer.cells.get("exact") is not True for optimizer in stepped):
        return  # it may hold the parameters of another one
    moved = {leaf for optimizer in stepped for leaf in optimizer_leaves(optimizer)}
    cut: set[int] | None = None
    for optimizer, creation in made.items():
        leaves = set(optimizer_leaves(optimizer))
        if optimizer in stepped or not leaves or leaves & moved or not known(flow, optimizer):
            continue
        if any(written(leaf) or leaf.cells.get("grad-read") for leaf in leaves) or not_called(flow, optimizer, "step"):
            continue
        if isinstance(optimizer.cls, Class):
            continue  # its step is the project's own, whatever it does
        # A backward of its own: what it reaches besides is nobody else's to train.
        own = [
            event
            for event in flow.of(events.Backward)
            if event.loops and not event.grad and leaves & set(event.reached) and not moved & set(event.reached)
        ]
        if own and cut is None:
            # Had the line not been cut, the loss would reach what another optimizer moves: untrained-parameters' to tell.
            cut = {id(event) for event, _, _, _ in untrained(flow)}
        own = [event for event in own if id(event) not in (cut or ())]
        if own:
            yield Finding(
                "", "", RULE.severity, own[0].value_place,
                say("{loss} goes backward for an optimizer that never steps: what it holds stays as it was "
                    "initialized", loss=flow.code(own[0].value_place)),
                (Step(creation.place, say("this optimizer's step() is never called")),),
            )  # fmt: skip
            continue
        shared = [] if own else _shared(flow, optimizer, leaves, moved)
        if shared:
            yield Finding(
                "", "", Severity.WARNING, shared[0].value_place,
                say("{loss} gives gradients to {names}, and the optimizer that holds them never steps: they stay as they "
                    "were initialized", loss=flow.code(shared[0].value_place), names=flow.names(creation.leaves)),
                (Step(creation.place, say("this optimizer's step() is never called")),),
                data=(("shared", "yes"),),
            )  # fmt: skip


def _shared(flow: Flow, optimizer: Object, leaves: set[Leaf], moved: set[Leaf]) -> list[events.Backward]:
    """The backwards of a loop in which gradients of this optimizer are cleared, and which reach what another one moves.

    None if a step stands in a branch that a setting leaves out: then it is not forgotten.
    """
    cleared = any(event.optimizer is optimizer and event.loops for event in flow.of(events.Zero))
    if not cleared or flow.left - {"print"} or any(leaf.cells.get("written") for leaf in leaves):
        return []
    return [
        event
        for event in flow.of(events.Backward)
        if event.loops and event.always and not event.grad and not event.guess and not event.opaque
        if moved & set(event.reached) and leaves <= set(event.reached)
    ]


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Step after the backward.

    Needs: the place is the receiver of `backward`; the last step of the trail is the call that makes the optimizer
    (`torch.optim.SGD(...)`), bound to a name or an attribute of self there.
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    name = _name(context, finding.trail[-1].place, finding.place)
    receiver = tree.exactly(finding.place, tree.cst.BaseExpression)
    if name is None or receiver is None or not tree.block(tree.statement(receiver)):
        return None
    edit = tree.insert_after(tree.statement(receiver), f"{name}.step()")
    # What the loss reaches besides is another optimizer's to train: this one may be meant to stay as it is.
    safety = Applicability.UNSAFE if finding.get("shared") else Applicability.SAFE
    return Fix(say("Step {name}", name=name), safety, (edit,))


def _name(context: FixContext, made: Place, at: Place) -> str | None:
    """What the optimizer is called at `at`; None where it cannot be reached by its name."""
    tree = context.scope_tree(made)
    if tree is None:
        return None
    cst = tree.cst
    call = tree.exactly(made, cst.Call)
    assign = call and tree.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return None
    name = tree.code(assign.targets[0].target)
    scope = context.scope(made)
    visible = scope in (context.scope(at), context.file(at.path)) if "." not in name else name.startswith("self.")
    return name if visible else None


RULE = Rule(code="GL403", severity=Severity.ERROR, check=check)
