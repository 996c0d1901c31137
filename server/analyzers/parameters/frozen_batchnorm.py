"""A frozen part of the model holds batch norms in training mode: their running statistics go on changing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Const, Leaf, Object, ParameterOf, Parameters, Tensor
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.frames import Args
from ...flow.modules import leaves_of, library_class, submodules
from ...flow.objects import is_module
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

NORMS = frozenset(f"torch.nn.{name}" for name in ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"])


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete or next(flow.forwards(*NORMS), None) is None:
        return
    elsewhere = _trained_elsewhere(flow)
    frozen: dict[Leaf, Place] = {}
    switched: dict[int, Place] = {}
    running: dict[int, tuple[Object, Place | None, Place]] = {}
    told: set[Place] = set()
    for event in flow.among(events.GradFlag, events.Called, events.Forward, events.Step):
        if isinstance(event, events.GradFlag):
            _freeze(frozen, _leaves(flow, event.target), event.value, event.place)
        elif isinstance(event, events.Called) and event.owner is not None and event.name.startswith("Module."):
            if event.name == "Module.requires_grad_":
                flag = event.args[0] if event.args else event.keywords.get("requires_grad", Const(True))
                value = flag.value if isinstance(flag, Const) else None
                _freeze(frozen, _leaves(flow, event.owner), bool(value) if value is not None else None, event.place)
            elif event.name == "Module.train" and isinstance(event.owner, Object) and flow.run is not None:
                switched.update({id(module): event.place for module in submodules(flow.run, event.owner)})
        elif isinstance(event, events.Forward) and event.training is True and library_class(event.module) in NORMS:
            leaf = event.module.cells.get("leaf")
            if isinstance(leaf, Leaf) and leaf in frozen and _keeps_statistics(event.module):
                running[id(event.module)] = event.module, switched.get(id(event.module)), frozen[leaf]
        elif isinstance(event, events.Step) and running:
            for norm, train, froze in running.values():
                part = _frozen_part(flow, norm, frozen)
                if part is None or any(_moves(leaf, elsewhere) for leaf in _leaves(flow, part)):
                    continue
                if any(leaf in frozen for leaf in event.leaves if leaf in _leaves(flow, part)):
                    continue
                place = train or froze
                if place not in told:
                    told.add(place)
                    yield _finding(place, froze, norm)
            running.clear()


def _moves(leaf: Leaf, elsewhere: set[Leaf]) -> bool:
    cells = leaf.cells
    return leaf in elsewhere or bool(leaf.storage.cells) or bool(cells.get("written") or cells.get("escaped"))


def _trained_elsewhere(flow: Flow) -> set[Leaf]:
    """Leaves that an optimizer holds, that are thawed somewhere, or whose module gets new values in a loop.

    Their freezing is a phase, or they follow others (a teacher, a target network): no state to keep.
    """
    held = {leaf for event in flow.of(events.OptimizerMade) for leaf in event.leaves}
    for event in flow.of(events.GradFlag):
        if event.value is not False:
            held.update(_leaves(flow, event.target))
    followers: set[Leaf] = set()
    for event in flow.of(events.Called):
        if event.loops and event.name in ("Module.state_dict", "Module.load_state_dict"):
            leaves = _leaves(flow, event.owner)
            if held.isdisjoint(leaves):  # a checkpoint is of the whole model
                followers.update(leaves)
    return held | followers


def _finding(place: Place, froze: Place, norm: Object) -> Finding:
    steps = (
        [Step(froze, say("its parameters are frozen here")), Step(norm.place, say("this batch norm"))]
        if norm.place
        else []
    )
    return Finding(
        "", "", RULE.severity, place,
        say("a frozen part of the model stays in training mode: its batch norms go on changing their running "
            "statistics, and so its output; `eval()` of that part holds them still"),
        tuple(step for step in steps if step.place != place),
    )  # fmt: skip


def _freeze(frozen: dict[Leaf, Place], leaves: list[Leaf], value: bool | None, place: Place) -> None:
    for leaf in leaves:
        if value is False:
            frozen[leaf] = place
        else:
            frozen.pop(leaf, None)


def _leaves(flow: Flow, value: object) -> list[Leaf]:
    if isinstance(value, (ParameterOf, Parameters)):
        return list(value.leaves)
    if isinstance(value, Tensor):
        return [value.leaf] if value.leaf is not None else []
    if isinstance(value, Object) and is_module(value) and flow.run is not None:
        return leaves_of(flow.run, value)[0]
    return []


def _keeps_statistics(norm: Object) -> bool:
    made = norm.cells.get("args")
    if not isinstance(made, Args) or made.spread:
        return False
    flag = made.get(4, "track_running_stats", None)
    return flag is None or (isinstance(flag, Const) and flag.value is True)


def _frozen_part(flow: Flow, norm: Object, frozen: dict[Leaf, Place]) -> Object | None:
    """A module around the norm all of whose parameters are frozen, and not norms alone."""
    assert flow.run is not None
    for obj in flow.objects:
        if obj is norm or not is_module(obj) or obj.cells.get("escaped"):
            continue
        inside = submodules(flow.run, obj)
        leaves = _leaves(flow, obj)
        others = [m for m in inside if isinstance(m.cells.get("leaf"), Leaf) and library_class(m) not in NORMS]
        if any(m is norm for m in inside) and others and all(leaf in frozen for leaf in leaves):
            return obj
    return None


RULE = Rule(code="GL513", severity=Severity.WARNING, check=check)
