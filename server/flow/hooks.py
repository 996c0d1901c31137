"""Hooks: when those of modules run, and what torch refuses that a hook of the backward returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    FLOAT,
    NONE,
    OFF,
    UNKNOWN,
    Array,
    Const,
    External,
    Function,
    Mode,
    Number,
    Object,
    Sequence,
    Tensor,
    Text,
    Value,
)
from ..findings import Place
from . import events
from .frames import Args
from .operations import graph_of

if TYPE_CHECKING:
    from .interp import Interpreter

HANDLE = "torch.utils.hooks.RemovableHandle"
# Where a module keeps its hooks, by the method that registers them.
KEPT = {
    "register_forward_hook": "hooks",
    "register_forward_pre_hook": "pre_hooks",
}


def register(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    """`module.register_..._hook(f)`: a handle, whose `remove()` takes the hook away again."""
    place = run.place(e.at) if e is not None else obj.place
    hook = args.get(0, "hook", UNKNOWN) or UNKNOWN
    if name == "register_full_backward_hook" and e is not None:
        check_backward_hook(run, hook, args.place(0, "hook") or run.place(e.at))
    key = KEPT.get(name)
    if key is None:
        return UNKNOWN
    plain = "with_kwargs" not in args.keywords and not args.spread
    kept = obj.cells.get(key, ())
    hook = hook if plain else UNKNOWN
    run.state.set(obj.cells, key, (*kept, hook) if isinstance(kept, tuple) else None)
    return Object(External(HANDLE), place, {}, {"of": obj, "key": key, "hook": hook}, label="handle")


def remove(run: Interpreter, handle: Object) -> Value:
    """`handle.remove()`"""
    owner, key, hook = (handle.cells.get(name) for name in ("of", "key", "hook"))
    if isinstance(owner, Object) and isinstance(key, str):
        kept = owner.cells.get(key, ())
        left = tuple(h for h in kept if h is not hook) if isinstance(kept, tuple) else None
        run.state.set(owner.cells, key, left)
    return NONE


def before_forward(run: Interpreter, obj: Object, args: Args) -> Args:
    """The arguments as the pre-hooks of a module leave them."""
    kept = obj.cells.get("pre_hooks", ())
    if kept == ():
        return args
    if not isinstance(kept, tuple):
        return Args([UNKNOWN for _ in args.positional], dict.fromkeys(args.keywords, UNKNOWN), True)
    for hook in kept:
        changed = _calls.call(run, hook, Args([obj, Sequence("tuple", {"items": tuple(args.positional)})], {}), None)
        if isinstance(changed, Const) and changed.value is None:
            continue
        items = changed.cells.get("items") if isinstance(changed, Sequence) and changed.kind == "tuple" else None
        known = list(items) if isinstance(items, tuple) else [changed]
        args = Args(known, args.keywords, args.spread, args.places)
    return args


def after_forward(run: Interpreter, obj: Object, args: Args, result: Value) -> Value:
    """The result as the forward hooks of a module leave it."""
    kept = obj.cells.get("hooks", ())
    if not isinstance(kept, tuple):
        return UNKNOWN
    for hook in kept:
        inputs = Sequence("tuple", {"items": tuple(args.positional)})
        changed = _calls.call(run, hook, Args([obj, inputs, result], {}), None)
        if not (isinstance(changed, Const) and changed.value is None):
            result = changed
    return result


# ---------------------------------------------------------------- an optimizer that steps within the backward


def after_accumulation(run: Interpreter, args: Args) -> None:
    """`p.register_post_accumulate_grad_hook(f)`: each backward calls it, and what it steps is stepped then.

    When that is, among the other gradients of the backward, is not followed: nothing is claimed of these optimizers.
    """
    for hook in args.all():
        stepped: list[events.Event] = []
        if isinstance(hook, Function):
            _tried(run, hook, [UNKNOWN], stepped)
        _calls.escape(run, hook)
        for event in stepped:
            if isinstance(event, events.Step):
                _calls.escape(run, event.optimizer)


# ---------------------------------------------------------------- what a hook of the backward returns


def check_tensor_hook(run: Interpreter, tensor: Tensor, hook: Value, place: Place) -> None:
    """Record `Raised` if a hook of a tensor surely returns something else than a gradient of the tensor's size."""
    if not isinstance(hook, Function) or graph_of(tensor)[0] is None:
        return
    gradient = Tensor(rank=tensor.rank, dtype=FLOAT, shape=tensor.shape)
    result = _tried(run, hook, [gradient])
    wrong = _no_gradient(result)
    if not wrong and isinstance(result, Tensor) and _other_size(tensor, result):
        wrong = "size"
    if wrong:
        run.record(events.Raised(place, run.stack, "hook-result", "tensor", _made(result), {"got": wrong}))


def check_backward_hook(run: Interpreter, hook: Value, place: Place) -> None:
    """The same for a full backward hook of a module: it returns None or a tuple, one item for each input."""
    if not isinstance(hook, Function):
        return
    gradients = (Sequence("tuple", {"items": None, "each": Tensor(dtype=FLOAT)}) for _ in range(2))
    result = _tried(run, hook, [UNKNOWN, *gradients])
    wrong = "tensor" if isinstance(result, Tensor) else _no_gradient(result)
    if wrong and wrong != "sequence":
        run.record(events.Raised(place, run.stack, "hook-result", "module", _made(result), {"got": wrong}))


def _made(result: Value) -> tuple[tuple[Place, str], ...]:
    """Where the hook makes what it returns."""
    place = result.made if isinstance(result, Tensor) else result.source if isinstance(result, Number) else None
    return ((place, "returned"),) if place is not None else ()


def _tried(run: Interpreter, hook: Function, args: list[Value], seen: list[events.Event] | None = None) -> Value:
    """What a hook returns, without what else it does; that is put into `seen`."""
    state, recorded = run.state, len(run.events)
    mark = state.mark()
    state.mode = Mode(OFF)
    try:
        return _calls.call(run, hook, Args(args, {}), None)
    finally:
        state.undo(mark)
        if seen is not None:
            seen.extend(run.events[recorded:])
        del run.events[recorded:]


def _no_gradient(value: Value) -> str:
    """What a value surely is that can be no gradient: "number", "array", "text", "sequence"; empty otherwise."""
    if isinstance(value, Const):
        return "" if value.value is None else "text" if isinstance(value.value, str) else "number"
    if isinstance(value, Number):
        return "number"
    return {Array: "array", Text: "text", Sequence: "sequence"}.get(type(value), "")


def _other_size(tensor: Tensor, result: Tensor) -> bool:
    """Whether two tensors surely differ in size."""
    if {tensor.rank, result.rank} == {"scalar", "many"}:
        return True
    if tensor.shape is None or result.shape is None:
        return False
    if len(tensor.shape) != len(result.shape):
        return True
    pairs = zip(tensor.shape, result.shape, strict=True)
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
