"""Optimizers: which leaves they hold, and what a step applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    INFERENCE,
    NONE,
    ON,
    UNKNOWN,
    Const,
    Leaf,
    Mapping,
    Mode,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Tensor,
    Union,
    Value,
    element,
    replace,
)
from ...findings import Place
from .. import events
from ..frames import Args
from ..operations import bump, possible_leaves
from .gradients import Grad, clear, grad_of, keeps_zeros

if TYPE_CHECKING:
    from ..interp import Interpreter


class Held(tuple[Leaf, ...]):
    """The leaves that an optimizer holds; after a branch that added some, those that it may hold."""

    def join(self, other: Held) -> Held:
        return Held(dict.fromkeys((*self, *other)))


def make_optimizer(run: Interpreter, obj: Object, args: Args, place: Place) -> None:
    """What `Optimizer.__init__(params, ...)` remembers."""
    params = args.get(0, "params", UNKNOWN) or UNKNOWN
    leaves, exact, used = parameters_in(run, params, place)
    run.state.set(obj.cells, "leaves", Held(dict.fromkeys(leaves)))
    run.state.set(obj.cells, "exact", exact)
    run.state.set(obj.cells, "made", place)
    run.objects.append(obj)
    run.record(
        events.OptimizerMade(
            place,
            run.stack,
            obj,
            tuple(leaves),
            exact,
            used,
            (params,),
            in_loop=bool(run.frame.loops),
            argument_place=args.place(0, "params"),
            options=args,
        )
    )


def is_empty(value: Sequence) -> bool:
    """Whether it is `[p for p in parameters if p.requires_grad]` where each was frozen, and nothing was added since."""
    return "nothing" in value.cells and value.cells.get("each") is value.cells["nothing"]


def parameters_in(run: Interpreter, value: Value, place: Place) -> tuple[list[Leaf], bool, Place | None]:
    """The leaves in what an optimizer (or clip_grad_norm_) was given; whether all are known; where it was used up."""
    if isinstance(value, Parameters) or (isinstance(value, Sequence) and value.kind == "generator"):
        used = value.cells.get("used")
        if isinstance(used, Place):
            return [], True, used
        run.state.set(value.cells, "used", place)
    if isinstance(value, Parameters):
        return list(value.leaves), value.exact, None
    if isinstance(value, ParameterOf):
        return list(value.leaves), value.all_of, None
    if isinstance(value, Tensor):
        return possible_leaves(value), value.leaf is not None or value.certain, None
    if isinstance(value, Sequence) and is_empty(value):
        return [], True, None
    if isinstance(value, (Sequence, Range)):
        leaves: list[Leaf] = []
        exact, used_up = True, None
        for item in parts_of(value):
            if isinstance(item, Sequence) and item.kind == "tuple":
                pair = item.cells.get("items")
                item = pair[1] if isinstance(pair, tuple) and len(pair) == 2 else item
            # What a list was made of was iterated over then: it is in the list, used up or not.
            inner = item
            if "parts" in getattr(value, "cells", {}):
                if isinstance(item, Parameters):
                    inner = replace(item, cells={})
                elif isinstance(item, Sequence) and item.kind == "generator":
                    cells = {key: cell for key, cell in item.cells.items() if key != "used"}
                    inner = Sequence(item.kind, cells, item.place)
            found, complete, used = parameters_in(run, inner, place) if isinstance(inner, Value) else ([], False, None)
            leaves += found
            exact, used_up = exact and complete, used_up or used
        return leaves, exact, used_up
    if isinstance(value, Mapping):
        inner_value = value.cells.get(("key", "params"))
        if isinstance(inner_value, Value):
            return parameters_in(run, inner_value, place)
        return [], False, None
    if isinstance(value, Union):
        leaves = []
        for option in value.options:
            leaves += parameters_in(run, option, place)[0]
        return leaves, False, None
    return [], False, None


def parts_of(value: Sequence | Range) -> tuple[Value, ...]:
    """What a sequence of unknown length was put together from, or its items, or the join of them."""
    if isinstance(value, Range):
        return (value.each,)
    parts = value.cells.get("parts")
    if isinstance(parts, tuple):
        return parts
    items = value.cells.get("items")
    if isinstance(items, tuple):
        return items
    return (element(value),)  # type: ignore[return-value]


def is_optimizer(value: Value) -> bool:
    return isinstance(value, Object) and (
        torchlib.optimizer(_modules.library_class(value)) is not None
        or _modules.library_class(value) == "torch.optim.Optimizer"
    )


def optimizer_leaves(optimizer: Object) -> tuple[Leaf, ...]:
    leaves = optimizer.cells.get("leaves", ())
    return leaves if isinstance(leaves, tuple) else ()


def step(run: Interpreter, optimizer: Object, place: Place, via: str = "", closure: bool = False) -> None:
    """The leaves move; their gradients stay where they are."""
    run.notes["stepped"] = True
    leaves = optimizer_leaves(optimizer)
    empty, stale, dropped, leftover = [], [], [], []
    pending = 0
    scaled = again = None
    before: dict[Place | None, None] = {}  # the steps that have applied the stale ones
    grads = [grad_of(leaf) for leaf in leaves]
    states = {grad.state for grad in set(grads)}
    put = run.state.set
    applied: dict[Grad, Grad] = {}  # many leaves hold the same
    several = run.notes.get("drawn")
    one_of_many = bool(several) and optimizer in several  # type: ignore[operator]
    for leaf, grad in zip(leaves, grads, strict=True):
        if grad.state == "none" and grad.lost is not None:
            empty.append((leaf, grad.lost))
        elif grad.state == "stale" and grad.place is not None:
            stale.append((leaf, grad.place))
            before[grad.by] = None
        elif grad.state in ("fresh", "?"):
            pending += 1
        if grad.scaled and grad.state in ("fresh", "stale"):
            scaled = grad.place
        if grad.state == "used" and states <= {"used", "none"}:
            again = grad.by
        if grad.state == "fresh" and grad.dropped is not None:
            dropped.append((leaf, *grad.dropped))
        if grad.state == "fresh" and grad.leftover is not None:
            leftover.append((leaf, *grad.leftover))
        if grad.state in ("fresh", "stale"):
            new = applied.get(grad)
            if new is None:
                new = Grad("used", grad.place, by=place, scaled=grad.scaled)
                new = applied[grad] = Grad("?", scaled=None) if one_of_many else new
            put(leaf.cells, "grad", new)
        if grad.state != "none" and not one_of_many:
            bump(run, leaf.storage, place)
    put(optimizer.cells, "stepped", place)
    own = set(leaves)
    for other in run.objects:
        for leaf in () if other is optimizer else optimizer_leaves(other):
            grad = grad_of(leaf)
            if grad.state == "fresh" and grad.crossed is None and leaf not in own:
                put(leaf.cells, "grad", replace(grad, crossed=place))
    run.record(
        events.Step(
            place, run.stack, optimizer, leaves, tuple(empty), pending, tuple(stale), scaled, again, tuple(dropped),
            run.guards, via, closure, run.state.shared.get("autocast"), tuple(leftover),
            None if place in before or None in before else next(iter(before), None),
        )
    )  # fmt: skip


def call_optimizer(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else obj.place
    assert place is not None
    if name == "step":
        closure = args.get(0, "closure", None)
        result: Value = NONE
        if closure is not None and not (isinstance(closure, Const) and closure.value is None):
            mode = run.state.mode
            if mode.kind != INFERENCE:
                run.state.mode = Mode(ON, place, "Optimizer.step (enable_grad)")
            result = _calls.call(run, closure, Args([], {}), e)
            run.state.mode = mode
        step(run, obj, place, closure=closure is not None)
        return result
    if name == "zero_grad":
        clear(run, optimizer_leaves(obj), place, obj, zeros=keeps_zeros(run, args))
        return NONE
    if name == "add_param_group":
        leaves, exact, _ = parameters_in(run, args.get(0, "param_group", UNKNOWN) or UNKNOWN, place)
        run.state.set(obj.cells, "leaves", Held(dict.fromkeys((*optimizer_leaves(obj), *leaves))))
        run.record(events.ParametersAdded(place, run.stack, obj, tuple(leaves)))
        if not exact:
            run.state.set(obj.cells, "exact", False)
        return NONE
    if name == "state_dict":
        return Mapping({}, place, complete=False)
    if name == "__init__":
        return NONE
    return UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
from .. import calls as _calls  # noqa: E402
from .. import modules as _modules  # noqa: E402
