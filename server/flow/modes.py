"""Grad mode: the objects that switch it, as calls, in `with`, and as decorators (claims M1 to M30)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    INFERENCE,
    MAYBE,
    NONE,
    OFF,
    ON,
    UNKNOWN,
    Const,
    Context,
    Function,
    Mode,
    Object,
    Sequence,
    Union,
    Value,
)
from ..findings import Place
from ..messages import say
from . import events
from .frames import Args

if TYPE_CHECKING:
    from .interp import Interpreter

# What each grad-mode class of torch does when entered; `set_grad_enabled` acts when it is made (claim M6).
ENTERED = {
    "torch.no_grad": OFF,
    "torch.enable_grad": ON,
    "torch.inference_mode": INFERENCE,
    "torch.set_grad_enabled": None,
}


def make_context(run: Interpreter, name: str, args: Args, e: ir.Call) -> Value:
    """`torch.no_grad()`, `torch.set_grad_enabled(flag)`, ...: the object, and what making it does at once."""
    place = run.place(e.at)
    short = name.rpartition(".")[2]
    flag = args.get(0, "mode", None)
    if name == "torch.no_grad" and isinstance(flag, Function):
        return _calls.with_mode(flag, Context(Mode(OFF, place, "@torch.no_grad"), name="torch.no_grad"), place)
    if name == "torch.inference_mode":
        truth = True if flag is None else run.truth(flag)
        if isinstance(flag, Function):
            return _calls.with_mode(flag, Context(Mode(INFERENCE, place, "@torch.inference_mode"), name=name), place)
        kind = MAYBE if truth is None else INFERENCE if truth else ON
        return Context(
            Mode(kind, place, f"torch.inference_mode({'' if truth else 'False'})", stack=run.stack), None, name
        )
    if name == "torch.set_grad_enabled":
        truth = None if flag is None else run.truth(flag)
        kind = MAYBE if truth is None else ON if truth else OFF
        how = f"torch.set_grad_enabled({truth})" if truth is not None else "torch.set_grad_enabled(...)"
        before = run.state.mode
        mode = Mode(kind, place, how, persistent=True, stack=run.stack)
        switch(run, mode)
        return Context(mode, before, name)
    return Context(Mode(ENTERED[name], place, f"torch.{short}()", stack=run.stack), None, name)  # type: ignore[arg-type]


def switch(run: Interpreter, mode: Mode, record: bool = True) -> None:
    """Set grad mode. Inside inference mode nothing but leaving it turns recording on (claim M30)."""
    before = run.state.mode
    if before.kind == INFERENCE and mode.kind in (ON, OFF, MAYBE) and not mode.how.startswith("torch.inference_mode"):
        mode = Mode(INFERENCE, before.place, before.how, before.persistent, before.stack)
    if record:
        run.record(events.Switch(mode.place or run.place(0), run.stack, mode, before, mode.persistent))  # type: ignore[arg-type]
    run.state.mode = mode
    modes = run.notes.get("modes")
    if isinstance(modes, list):
        modes.append(mode)


def block_mode(context: Context, before: Mode) -> Mode:
    """The mode inside `with context:`."""
    assert context.mode is not None
    mode = context.mode
    if context.before is not None:
        # `set_grad_enabled`: it is in force since it was made; entering does nothing more.
        return before
    return Mode(mode.kind, mode.place, mode.how, False, mode.stack)


def call_context(run: Interpreter, context: Context, name: str, e: ir.Call | None) -> Value:
    """`context.__enter__()` and `context.__exit__(...)`: what a block does, without its end (facts)."""
    entered = ("entered", context)
    if context.mode is None or e is None or (context.before is not None and name == "__enter__"):
        return UNKNOWN
    if name == "__exit__":
        before = context.before or run.state.shared.get(entered)
        run.state.mode = before if isinstance(before, Mode) else Mode(MAYBE, run.place(e.at), "__exit__")
        return NONE
    function = e.func
    temporary = isinstance(function, ir.Attr) and isinstance(function.value, ir.Call)
    mode = context.mode
    if mode.kind == INFERENCE and temporary:
        return NONE  # its guard is thrown away with the object, which undoes it at once
    run.state.set(run.state.shared, entered, run.state.mode)
    local = run.frame.function is not None and isinstance(function, ir.Attr) and isinstance(function.value, ir.Name)
    if mode.kind == INFERENCE and local:
        run.state.mode = Mode(MAYBE, mode.place, mode.how)  # until the object goes, at the end of the function
        return NONE
    switch(run, Mode(mode.kind, run.place(e.at), f"{mode.how}.__enter__()", True, run.stack))
    return NONE


def enter(run: Interpreter, value: Value, e: ir.Expr) -> tuple[Value, Callable[[], None]]:
    """`with value as x:`: what `x` is, and what happens at the end of the block."""
    if isinstance(value, Context):
        before = run.state.mode
        if value.owner is not None:
            return value, _enter_no_sync(run, value.owner, value.place)
        if value.place is not None:
            return value, _enter_autocast(run, value.place)
        if value.mode is None:
            return value, lambda: None
        if value.before is None:
            switch(run, block_mode(value, before), record=False)
            restored = before
        else:
            restored = value.before
            modes = run.notes.get("modes")
            if isinstance(modes, list) and value.mode in modes:
                modes.remove(value.mode)  # leaving the block undoes it, also on an exception
            inside = run.state.mode
            run.state.mode = Mode(inside.kind, inside.place, inside.how, False, inside.stack)

        def leave() -> None:
            run.state.mode = restored

        return value, leave
    if isinstance(value, Union):
        if any(_mode_in(o) is not None for o in value.options):
            return _maybe(run, value)
        return UNKNOWN, lambda: None
    name = getattr(value, "name", "")
    if isinstance(name, str) and name in ENTERED:
        run.record(events.BareContext(run.place(e.at), run.stack, name, False, in_with=True))
        return UNKNOWN, lambda: None
    if isinstance(value, Object):
        return _enter_object(run, value, e)
    if isinstance(value, Sequence) and value.kind == "contextmanager":
        return _enter_generator(run, value)
    if isinstance(value, Function) or value is UNKNOWN:
        return UNKNOWN, _unknown_block(run)
    return UNKNOWN, lambda: None


def _enter_autocast(run: Interpreter, place: Place) -> Callable[[], None]:
    """Copies of weights are kept until the outermost block ends: each entering of that one is another `Autocast`."""
    cells = run.state.shared
    if cells.get("autocast") is not None:
        return lambda: None
    run.state.set(cells, "autocast", events.Autocast(place))

    def leave() -> None:
        run.state.set(cells, "autocast", None)

    return leave


def _enter_no_sync(run: Interpreter, wrapper: Object, place: Place | None) -> Callable[[], None]:
    """Forwards of a DistributedDataParallel in this block leave the gradients of each process to itself."""
    before = wrapper.cells.get("unsynced")
    run.state.set(wrapper.cells, "unsynced", place)

    def leave() -> None:
        run.state.set(wrapper.cells, "unsynced", before)

    return leave


def _unknown_block(run: Interpreter) -> Callable[[], None]:
    return lambda: None


def _mode_in(value: Value) -> Mode | None:
    """The grad mode inside a block under this context, if it sets one."""
    if isinstance(value, Context):
        return value.mode
    mode = value.cells.get("at_yield") if isinstance(value, Sequence) else None
    return mode if isinstance(mode, Mode) else None


def _maybe(run: Interpreter, value: Union) -> tuple[Value, Callable[[], None]]:
    """One of several contexts: the mode inside is known only if they agree."""
    before = run.state.mode
    kinds = set()
    place: Place | None = None
    for option in value.options:
        mode = _mode_in(option)
        if mode is not None:
            kinds.add(mode.kind)
            place = mode.place or place
        else:
            kinds.add(before.kind)
    kind = kinds.pop() if len(kinds) == 1 else MAYBE
    run.state.mode = Mode(kind, place, say("one of several contexts"))

    def leave() -> None:
        run.state.mode = before

    return value, leave


def _enter_object(run: Interpreter, value: Object, e: ir.Expr) -> tuple[Value, Callable[[], None]]:
    if _stacks.is_stack(value):
        return _stacks.enter(run, value)
    entering = _objects.find(value.cls, "__enter__", run)
    leaving = _objects.find(value.cls, "__exit__", run)
    result: Value = value
    # `__exit__` runs on an exception too: what these two switch is not stuck then.
    outer = run.notes.get("modes")
    run.notes["modes"] = None if leaving is not None else outer
    try:
        if entering is not None and isinstance(entering[0], Function):
            result = _calls.call(run, _objects.bound(entering[0], value), Args([], {}), None)
    finally:
        run.notes["modes"] = outer

    def leave() -> None:
        if leaving is not None and isinstance(leaving[0], Function):
            none = Const(None)
            kept, run.notes["modes"] = run.notes.get("modes"), None
            _calls.call(run, _objects.bound(leaving[0], value), Args([none, none, none], {}), None)
            run.notes["modes"] = kept

    return result, leave


def _enter_generator(run: Interpreter, value: Sequence) -> tuple[Value, Callable[[], None]]:
    """A `@contextmanager` function: its body has run; `cells` tell the mode at its `yield` and at its end."""
    yielded, at_yield, at_end = (value.cells[k] for k in ("value", "at_yield", "at_end"))
    run.state.mode = at_yield  # type: ignore[assignment]
    modes = run.notes.get("modes")
    if isinstance(modes, list) and not value.cells.get("protected"):
        modes.append(at_yield)  # an exception in the block comes out of the `yield`, and nothing restores the mode

    def leave() -> None:
        run.state.mode = at_end  # type: ignore[assignment]

    return yielded, leave  # type: ignore[return-value]


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import stacks as _stacks  # noqa: E402
