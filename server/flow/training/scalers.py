"""`GradScaler`: scaled losses, and where it stands with each optimizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ... import ir
from ...facts import NONE, UNKNOWN, External, Number, Object, Tensor, Unknown, Value, replace
from ...findings import Place
from .. import events
from ..frames import Args
from ..operations import Inputs, recorded
from .gradients import grad_of
from .optimizers import is_optimizer, optimizer_leaves, step

if TYPE_CHECKING:
    from ..interp import Interpreter


@dataclass(frozen=True, eq=False)
class Phases:
    """Where a GradScaler stands with each optimizer since its last `update`: "unscaled" or "stepped", None: not known."""

    of: tuple[tuple[Object, str | None, Place | None], ...] = ()

    def get(self, optimizer: Object) -> tuple[str | None, Place | None]:
        return next(((phase, place) for known, phase, place in self.of if known is optimizer), ("ready", None))

    def put(self, optimizer: Object, phase: str, place: Place) -> Phases:
        return Phases((*(entry for entry in self.of if entry[0] is not optimizer), (optimizer, phase, place)))

    def join(self, other: Phases) -> Phases:
        joined = []
        for optimizer in dict.fromkeys(o for o, _, _ in (*self.of, *other.of)):
            one, two = self.get(optimizer), other.get(optimizer)
            joined.append((optimizer, one[0] if one[0] == two[0] else None, one[1] or two[1]))
        return Phases(tuple(joined))


# `torch.amp.GradScaler` is `torch.GradScaler`.
SCALERS = frozenset({"torch.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"})


def call_scaler(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else obj.place
    assert place is not None
    value = args.positional[0] if args.positional else UNKNOWN
    optimizer = value if isinstance(value, Object) and is_optimizer(value) else None
    if disabled(run, obj):
        if name == "step" and optimizer is not None:
            step(run, optimizer, place)
        return value if name == "scale" else Number() if name == "get_scale" else NONE
    phases = obj.cells.get("phases")
    if e is not None:
        phase, before = None, None
        if isinstance(phases, Phases) and optimizer is not None:
            phase, before = phases.get(optimizer)
        elif isinstance(phases, Phases) and name == "update" and not phases.of and not args.all():
            phase = "ready"
        fresh = [grad_of(leaf) for leaf in optimizer_leaves(optimizer)] if optimizer is not None else []
        unscaled = bool(fresh) and all(g.state == "fresh" and g.scaled is False for g in fresh)
        run.record(events.Scaling(place, run.stack, obj, name, optimizer, phase, before, unscaled))
    if name == "scale":
        run.state.set(obj.cells, "scaled", place)
        if isinstance(value, Tensor):
            found = Inputs()
            found.add(run, value)
            result = recorded(run, "scale", found, place, value.rank, saves=True)
            return replace(result, tag="scaled", cuts=value.cuts if result.node is None else result.cuts)
        return value if isinstance(value, Unknown) else UNKNOWN
    if name in ("unscale_", "step") and optimizer is None:
        run.state.set(obj.cells, "phases", None)  # with which one is not known
    elif name in ("unscale_", "step") and optimizer is not None:
        for leaf in optimizer_leaves(optimizer):
            run.state.set(leaf.cells, "grad", replace(grad_of(leaf), scaled=False))
        if isinstance(phases, Phases):
            now = "unscaled" if name == "unscale_" else "stepped"
            run.state.set(obj.cells, "phases", phases.put(optimizer, now, place))
        if name == "step":
            step(run, optimizer, place, via="scaler")
    elif name == "update":
        run.state.set(obj.cells, "phases", Phases())
    return NONE if name in ("update", "unscale_") else Number() if name == "get_scale" else UNKNOWN


def disabled(run: Interpreter, scaler: Object) -> bool:
    """A GradScaler that was made with `enabled=False`: `step` is the optimizer's own, the rest does nothing."""
    made = scaler.cells.get("args")
    if not isinstance(made, Args):
        return False
    index = 5 if isinstance(scaler.cls, External) and scaler.cls.name == "torch.GradScaler" else 4
    enabled = made.get(index, "enabled", None)
    return enabled is not None and run.truth(enabled) is False


# The parts of the interpreter know each other: these come when this one is complete.
