"""Attributes and methods of torch's objects that are no modules: each kind has a file of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import NONE, UNKNOWN, External, Mapping, Method, Number, Object, ParameterOf, Sequence, Value
from ...findings import Place
from ..events import called_event
from ..frames import Args
from .distributions import call_distribution, distribution_tensor
from .optimizers import call_optimizer, is_optimizer, optimizer_leaves
from .scalers import SCALERS, call_scaler

if TYPE_CHECKING:
    from ..interp import Interpreter


def object_attribute(run: Interpreter, obj: Object, name: str, place: Place) -> Value | None:
    """An attribute of an optimizer, scaler, scheduler, loader, distribution, ..."""
    if is_optimizer(obj):
        if name == "param_groups":
            each = ParameterOf(optimizer_leaves(obj), all_of=obj.cells.get("exact") is True)
            group = Mapping(
                {("key", "params"): Sequence("list", {"items": None, "each": each}), "rest": Number()}, place, False
            )
            return Sequence("list", {"items": None, "each": group})
        if name in ("state", "defaults"):
            return UNKNOWN
    cls = obj.cls.name if isinstance(obj.cls, External) else ""
    moments = ("mean", "loc", "scale", "probs", "logits", "stddev", "variance")
    if cls.startswith("torch.distributions.") and name in moments:
        return distribution_tensor(run, obj, place, name)
    if cls == "torch.utils.data.DataLoader" and name == "dataset":
        value = obj.cells.get("dataset")
        return value if isinstance(value, Value) else UNKNOWN
    if cls.startswith("torch.utils.data.") and name in ("sampler", "batch_sampler"):
        value = obj.cells.get(name)
        return value if isinstance(value, Value) else UNKNOWN
    return Method(obj, name)


def call_object_method(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    """A method of an instance of a library's class that is no module."""
    if _stacks.is_stack(obj):
        return _stacks.call_method(run, obj, name, args, e)
    if _threads.is_pool(obj):
        return _threads.call_method(run, obj, name, args, e)
    if isinstance(obj.cls, External) and obj.cls.name == _hooks.HANDLE:
        return _hooks.remove(run, obj) if name == "remove" else UNKNOWN
    cls = _modules.library_class(obj)
    if is_optimizer(obj):
        return call_optimizer(run, obj, name, args, e)
    if cls in SCALERS:
        return call_scaler(run, obj, name, args, e)
    if torchlib.scheduler(cls) is not None or cls.startswith("torch.optim.lr_scheduler."):
        if e is not None:
            called_event(run, f"Scheduler.{name}", args, e, NONE, obj)
        return NONE
    if cls.startswith("torch.distributions."):
        return call_distribution(run, obj, name, args, e)
    if cls == "torch.utils.tensorboard.SummaryWriter" or cls.startswith("torch.profiler"):
        return UNKNOWN
    if e is not None:
        called_event(run, f"{cls}.{name}", args, e, NONE, obj)
    return UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
from .. import hooks as _hooks  # noqa: E402
from .. import modules as _modules  # noqa: E402
from .. import stacks as _stacks  # noqa: E402
from .. import threads as _threads  # noqa: E402
