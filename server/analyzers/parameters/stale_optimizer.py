"""Parameters came, or were unfrozen, after the optimizer was made: it goes on without them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Leaf, Mapping, Object, ParameterOf, Parameters, Range, Sequence, Tensor, Value
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.objects import is_module
from ...flow.training import parts_of
from ...messages import say
from ...rule import Rule
from ._held import all_known, held

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete or not all_known(flow):
        return
    optimized = held(flow)
    made: list[events.OptimizerMade] = []
    changes: dict[Leaf, tuple[events.Event, str]] = {}
    missed: dict[Leaf, None] = {}
    alive: set[Leaf] = set()
    for event in flow.among(
        events.OptimizerMade, events.Step, events.Backward, events.Attribute, events.Registered, events.GradFlag, events.Called
    ):  # fmt: skip
        if isinstance(event, events.OptimizerMade):
            made.append(event)
        elif isinstance(event, events.Step):
            missed.update(dict.fromkeys(alive))
            alive = set()
        elif isinstance(event, events.Backward) and not event.grad:
            alive |= {leaf for leaf in event.reached if leaf in changes}
        elif made:
            for leaf, how in _changed(flow, event):
                if leaf not in optimized and not leaf.cells.get("escaped"):
                    changes.setdefault(leaf, (event, how))
    told: set[Place] = set()
    for leaf in missed:
        event, how = changes[leaf]
        optimizer = _meant(flow, made, leaf, event, how)
        if optimizer is None or event.place in told:
            continue
        told.add(event.place)
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} comes into the model after the optimizer was made from its parameters: no optimizer holds "
                "it, and it is not trained", code=flow.code(event.place))
            if how == "new"
            else say("{code} is unfrozen after the optimizer was made from the model's parameters: no optimizer "
                     "holds it, and it is not trained", code=flow.code(event.place)),
            (Step(optimizer.place, say("the optimizer is made here, without it")),),
        )  # fmt: skip


def _changed(flow: Flow, event: events.Event) -> Iterable[tuple[Leaf, str]]:
    """The leaves that this event puts into a module, or unfreezes."""
    if isinstance(event, events.Attribute) and isinstance(event.owner, Object) and is_module(event.owner):
        if event.in_forward is None:
            yield from (
                (leaf, "new") for leaf in _leaves(flow, event.value) if event.value is event.owner.attrs.get(event.name)
            )
    elif isinstance(event, events.Registered):
        yield from ((leaf, "new") for leaf in _leaves(flow, event.value))
    elif isinstance(event, events.GradFlag) and event.value is not False:
        yield from ((leaf, "unfrozen") for leaf in _leaves(flow, event.target))
    elif isinstance(event, events.Called) and event.name == "Module.requires_grad_" and event.owner is not None:
        flag = event.args[0] if event.args else event.keywords.get("requires_grad")
        if getattr(flag, "value", True) is not False:
            yield from ((leaf, "unfrozen") for leaf in _leaves(flow, event.owner))
    elif isinstance(event, events.Called) and event.name == "weight_norm":
        yield from ((leaf, "new") for leaf in _leaves(flow, event.args[0] if event.args else None))


def _leaves(flow: Flow, value: Value | None) -> list[Leaf]:
    if isinstance(value, ParameterOf):
        return list(value.leaves)
    if isinstance(value, Tensor):
        return [value.leaf] if value.leaf is not None and value.leaf.kind != "tensor" else []
    if isinstance(value, Object) and is_module(value):
        assert flow.run is not None
        return leaves_of(flow.run, value)[0]
    return []


def _meant(
    flow: Flow, made: list[events.OptimizerMade], leaf: Leaf, event: events.Event, how: str
) -> events.OptimizerMade | None:
    """The optimizer, made before, whose parameters come from a module that now registers the leaf."""
    assert flow.run is not None
    order = {id(e): i for i, e in enumerate(flow.events)}
    for obj in flow.objects:
        if not is_module(obj) or obj.cells.get("escaped"):
            continue
        around = leaves_of(flow.run, obj)[0]
        if leaf not in around:
            continue
        for optimizer in made:
            if order[id(optimizer)] > order[id(event)]:
                continue
            owners = _owners(optimizer)
            if any(owner is obj for owner in owners):
                return optimizer
            if how == "unfrozen" and any(other in optimizer.leaves for other in around):
                return optimizer
    if how == "unfrozen" and len(made) == 1 and order[id(made[0])] < order[id(event)]:
        return made[0] if _was_frozen(flow, leaf, made[0]) else None
    return None


def _was_frozen(flow: Flow, leaf: Leaf, optimizer: events.OptimizerMade) -> bool:
    """Whether the leaf was frozen on purpose when the (only) optimizer was made, and nobody looks at its gradient."""
    if leaf.cells.get("grad-read") or leaf.cells.get("grad-changed"):
        return False
    frozen = False
    for event in flow.among(events.OptimizerMade, events.GradFlag, events.Called):
        if event is optimizer:
            return frozen
        if isinstance(event, events.GradFlag) and leaf in _leaves(flow, event.target):
            frozen = event.value is False
        elif (
            isinstance(event, events.Called)
            and event.name == "Module.requires_grad_"
            and leaf in _leaves(flow, event.owner)
        ):
            frozen = bool(event.args) and getattr(event.args[0], "value", None) is False
    return False


def _owners(made: events.OptimizerMade) -> list[Value]:
    """The modules whose `parameters()` an optimizer was made from."""
    found: list[Value] = []
    todo: list[object] = list(made.arguments)
    while todo:
        value = todo.pop()
        if isinstance(value, Sequence) and isinstance(of := value.cells.get("source"), Parameters):
            value = of
        if isinstance(value, Parameters):
            found.append(value.owner)
        elif isinstance(value, (Sequence, Range)):
            todo += parts_of(value)
        elif isinstance(value, Mapping):
            todo.append(value.cells.get(("key", "params")))
    return found


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the optimizer after the replacement.

    Needs: the place is the target that is assigned (`model.fc`); the last step of the trail is the call that makes the
    optimizer.
    """
    tree = context.scope_tree(finding.place)
    if tree is None or not finding.trail:
        return None
    cst = tree.cst
    target = tree.exactly(finding.place, cst.BaseExpression)
    made: Any = tree.exactly(finding.trail[-1].place, cst.Call)
    assign: Any = made and tree.parent(made)
    if target is None or not isinstance(assign, cst.Assign) or not tree.together(assign, target):
        return None
    optimizer = tree.code(assign.targets[0].target)
    between = tree.text(tree.span(assign)[1], tree.span(target)[0])
    if optimizer in between or not tree.block(tree.statement(assign)):
        return None
    edits = tree.move_after(assign, tree.statement(target))
    return Fix(say("Make the optimizer afterwards"), Applicability.SAFE, edits)


RULE = Rule(code="GL508", severity=Severity.WARNING, check=check)
