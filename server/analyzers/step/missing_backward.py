"""An optimizer steps, and no backward ever gives its parameters a gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Class, Leaf, Object, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.objects import is_module
from ...flow.training import grad_of, optimizer_leaves, walk
from ...messages import say
from ...rule import Rule
from ..graph._hidden import hidden
from ..graph.untrained_parameters import untrained
from ..parameters import stale_optimizer
from ._shared import known, written

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete or flow.tainted:
        return
    backwards = list(flow.of(events.Backward))
    if any(not isinstance(event.value, Tensor) or event.opaque or not event.value.live for event in backwards):
        return  # it may reach anything, or another rule says that it fails
    if next(iter(hidden(flow)), None) is not None:
        return  # the loss was made to look as if it had a graph, which hidden-error says
    reached = {leaf for event in backwards if not event.grad for leaf in event.reached}
    named = any(event.name == "backward" for event in flow.of(events.NotCalled))
    behind_cuts = {leaf for _, _, leaves, _ in untrained(flow) for leaf in leaves}
    said: set[Object] = set()
    for step in flow.of(events.Step):
        optimizer = step.optimizer
        leaves = set(optimizer_leaves(optimizer))
        if optimizer in said or not leaves or not step.loops or named or isinstance(optimizer.cls, Class):
            continue
        if optimizer.cells.get("exact") is not True or not known(flow, optimizer) or leaves & (reached | behind_cuts):
            continue
        flags = {leaf.cells.get("requires_grad") for leaf in leaves}
        if any(leaf.cells.get("grad-changed") for leaf in leaves) or len(flags) != 1 or None in flags:
            continue
        # Frozen ones may be meant to wait: it takes a backward that trains what nobody steps for.
        returned = _returned(backwards, leaves)
        if returned is not None:
            evidence = returned if flags == {True} and _left_alone(leaves) else None
        else:
            evidence = (_used(flow, leaves) if flags == {True} else None) or _astray(flow)
            if evidence is None and flags == {True} and _left_alone(leaves):
                evidence = _copied(flow, leaves)
        made = next((event.place for event in flow.of(events.OptimizerMade) if event.optimizer is optimizer), None)
        if evidence is None:
            continue
        said.add(optimizer)
        if any(step.place == made for finding in stale_optimizer.check(flow) for step in finding.trail):
            continue  # its parameters were replaced, which stale-optimizer says
        yield Finding(
            "", "", RULE.severity, step.place,
            say("{step} finds no gradients: no `backward()` ever reaches the parameters that the optimizer holds",
                step=flow.code(step.place)),
            (evidence, Step(made, say("the optimizer is made here"))) if made is not None else (evidence,),
        )  # fmt: skip


def _returned(backwards: list[events.Backward], leaves: set[Leaf]) -> Step | None:
    """The last `autograd.grad` whose graph has these leaves."""
    for event in reversed(backwards):
        if event.grad and leaves & set(event.reached):
            cuts = [cut for other in backwards if not other.grad for cut in other.cuts if cut.place == event.place]
            if cuts:
                return Step(event.place, say("without `create_graph=True` what this returns is a constant to the loss"))
            return Step(event.place, say("this returns gradients, and nothing puts them into `.grad`"))
    return None


def _left_alone(leaves: set[Leaf]) -> bool:
    """Whether nothing is ever in the `.grad` of any of them, and nobody writes their values by hand."""
    return all(grad_of(leaf).state == "none" and not written(leaf) and not leaf.cells.get("written") for leaf in leaves)


def _used(flow: Flow, leaves: set[Leaf]) -> Step | None:
    """The last result of a module that is computed from these leaves."""
    for event in reversed(flow.among(events.Forward)):
        if isinstance(event, events.Forward) and isinstance(event.result, Tensor) and event.result.live:
            assert event.result.node is not None
            if leaves & set(walk(event.result.node).sure):
                return Step(event.place, say("this is computed from them, and nothing goes backward through it"))
    return None


def _copied(flow: Flow, leaves: set[Leaf]) -> Step | None:
    """The deep copy of a module with these leaves, where something else goes backward in a loop."""
    assert flow.run is not None
    if any(leaf.cells.get("kept-by-hand") for leaf in leaves):
        return None
    if not any(event.loops and not event.grad and event.reached for event in flow.of(events.Backward)):
        return None
    for event in flow.of(events.Called):
        module = event.args[0] if event.name == "copy.deepcopy" and event.args else None
        if isinstance(module, Object) and is_module(module) and leaves & set(leaves_of(flow.run, module)[0]):
            return Step(event.place, say("a copy has parameters of its own: what is computed with it trains those"))
    return None


def _astray(flow: Flow) -> Step | None:
    """A backward that reaches nothing but what no optimizer holds."""
    held = {leaf for event in flow.of(events.OptimizerMade) for leaf in event.leaves}
    for event in flow.of(events.Backward):
        if event.loops and not event.grad and event.reached and held.isdisjoint(event.reached):
            return Step(event.value_place, say("this backward reaches only parameters that no optimizer holds"))
    return None


RULE = Rule(code="GL417", severity=Severity.ERROR, check=check)
