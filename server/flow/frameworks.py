"""What a framework does with what a method of the user's returns: Lightning goes backward from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import ir
from ..facts import Class, Const, External, Function, Mapping, Number, Object, Tensor, Union, Value
from ..findings import Place
from . import events
from .objects import find

if TYPE_CHECKING:
    from .interp import Interpreter

STEP = "training_step"
# Whoever defines one of these takes the loss into his own hands.
OWN_HANDS = ("backward", "training_step_end", "automatic_optimization", "manual_backward")


def is_lightning(cls: object) -> bool:
    return isinstance(cls, Class) and any(
        isinstance(base, External)
        and base.name.startswith(("pytorch_lightning.", "lightning."))
        and base.name.endswith(".LightningModule")
        for base in cls.mro
    )


def step_returned(run: Interpreter, function: Function, result: Value) -> None:
    """A `training_step` was run alone: record the backward that Lightning calls on its result, where that fails.

    Of a result that has its graph nothing is recorded: what else there is between it and the optimizers is not known.
    """
    owner, code = function.bound, function.code
    if function.decorators or not isinstance(code, ir.Def) or code.name != STEP or not isinstance(owner, Object):
        return
    if not is_lightning(owner.cls) or "automatic_optimization" in owner.attrs:
        return
    if any(find(owner.cls, name, run) is not None for name in OWN_HANDS):
        return
    returned = list(_returned(code.body))
    if len(returned) != 1:
        return
    loss = returned[0]
    if isinstance(result, Union):
        others = [o for o in result.options if not (isinstance(o, Const) and o.value is None)]
        result = others[0] if len(others) == 1 else result
    if isinstance(result, Mapping):
        found = result.cells.get(("key", "loss"))
        if not isinstance(found, Value):
            return
        result = found
        if isinstance(loss, ir.Dict):
            keys = [key.value if isinstance(key, ir.Const) else None for key in loss.keys]
            loss = loss.values[keys.index("loss")] if "loss" in keys else loss
    number = isinstance(result, Number) and result.source is not None
    if not number and not (isinstance(result, Tensor) and result.dead and result.cuts and not result.opaque):
        return
    start, end = ir.unpack(loss.at)
    place = Place(function.module.path, function.base + start, function.base + end)
    event = events.Backward(place, run.stack, result, place, run.state.mode, False, False)
    event.cuts = result.cuts if isinstance(result, Tensor) else ()
    run.record(event)


def _returned(body: ir.Body) -> Iterator[ir.Expr]:
    """What a function returns, `None` left out: that skips the step."""
    for s in body:
        if isinstance(s, ir.Return):
            if s.value is not None and not (isinstance(s.value, ir.Const) and s.value.value is None):
                yield s.value
        elif not isinstance(s, (ir.Def, ir.Class)):
            for part in ("body", "orelse", "final"):
                block = getattr(s, part, None)
                if isinstance(block, tuple):
                    yield from _returned(block)
            for handler in getattr(s, "handlers", ()):
                yield from _returned(handler.body)


__all__ = ["is_lightning", "step_returned"]
