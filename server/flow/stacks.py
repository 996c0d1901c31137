"""`contextlib.ExitStack`: blocks that end together, where the stack ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeGuard

from .. import ir
from ..facts import NONE, UNKNOWN, Context, External, Mode, Object, Value, replace
from ..findings import Place
from .frames import Args

if TYPE_CHECKING:
    from .interp import Interpreter

STACK = "contextlib.ExitStack"


def is_stack(value: object) -> TypeGuard[Object]:
    return isinstance(value, Object) and isinstance(value.cls, External) and value.cls.name == STACK


def make(run: Interpreter, place: Place | None) -> Object:
    return Object(External(STACK), place, {}, {"entered": False}, label="ExitStack")


def enter(run: Interpreter, stack: Object) -> tuple[Value, Callable[[], None]]:
    """`with stack:`"""
    before = run.state.mode
    run.state.set(stack.cells, "in-with", True)

    def leave() -> None:
        close(run, stack, before)

    return stack, leave


def close(run: Interpreter, stack: Object, before: Mode | None) -> None:
    """What was entered is left, in reverse; grad mode is then as it was before the first."""
    first = stack.cells.get("before")
    restored = first if isinstance(first, Mode) else before
    if stack.cells.get("entered") is not False and restored is not None:
        run.state.mode = restored
    leaves = stack.cells.get("leaves", ())
    mode = run.state.mode
    for leave in reversed(leaves if isinstance(leaves, tuple) else ()):
        leave()
    run.state.mode = mode
    run.state.set(stack.cells, "entered", False)


def call_method(run: Interpreter, stack: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    if name == "enter_context" and args.positional and e is not None and e.args:
        before = run.state.mode
        entered, leave = _modes.enter(run, args.positional[0], e.args[0])
        now = run.state.mode
        if now is not before:
            if stack.cells.get("entered") is False:
                run.state.set(stack.cells, "before", before)
            run.state.set(stack.cells, "entered", True)
            if not stack.cells.get("in-with"):
                run.state.mode = replace(now, persistent=True, stack=run.stack)  # until somebody closes the stack
        leaves = stack.cells.get("leaves", ())
        run.state.set(stack.cells, "leaves", (*leaves, leave) if isinstance(leaves, tuple) else None)
        return NONE if isinstance(entered, Context) else entered
    if name in ("close", "__exit__"):
        close(run, stack, None)
        return NONE
    return stack if name == "__enter__" else UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
from . import modes as _modes  # noqa: E402
