"""Threads: each has a grad mode of its own, on when it starts, whatever the mode is where it is started (claim M15)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from .. import ir
from ..facts import (
    DEFAULT_MODE,
    FOREIGN,
    MAYBE,
    NONE,
    UNKNOWN,
    Const,
    External,
    Function,
    Mode,
    Object,
    Range,
    Sequence,
    Value,
)
from .frames import Args

if TYPE_CHECKING:
    from .interp import Interpreter

POOLS = frozenset({"concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool"})
FUTURE = "concurrent.futures.Future"


def is_pool(value: object) -> TypeGuard[Object]:
    return isinstance(value, Object) and isinstance(value.cls, External) and value.cls.name in (*POOLS, FUTURE)


def thread(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`threading.Thread(target=f, args=(...))`; it is taken to run at once."""
    target = args.get(1, "target", None)
    if isinstance(target, Function):
        given = args.get(3, "args", None)
        items = given.cells.get("items") if isinstance(given, Sequence) else ()
        inner = Args(list(items) if isinstance(items, tuple) else [], {}, not isinstance(items, tuple))
        _elsewhere(run, DEFAULT_MODE, target, inner)
    return FOREIGN


def pool(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """A pool of threads. With one worker, what a task does to grad mode holds for the tasks after it."""
    first = args.positional[0] if args.positional else args.keywords.get("max_workers", args.keywords.get("processes"))
    name = next(iter(POOLS))
    cells: dict[str, object] = {"mode": DEFAULT_MODE, "single": isinstance(first, Const) and first.value == 1}
    return Object(External(name), run.place(e.at) if e is not None else None, {}, cells, label="pool")


def call_method(run: Interpreter, owner: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    """`pool.submit(f, ...)`, `pool.map(f, items)`, `future.result()`"""
    if name == "result":
        value = owner.cells.get("result")
        return value if isinstance(value, Value) else UNKNOWN
    if name in ("submit", "apply", "apply_async") and args.positional:
        if name == "submit":
            inner = Args(args.positional[1:], args.keywords, args.spread, args.places[1:])
        else:
            given = args.get(1, "args", Sequence("tuple", {"items": ()}))
            items = given.cells.get("items") if isinstance(given, Sequence) else None
            inner = Args(list(items) if isinstance(items, tuple) else [], {}, not isinstance(items, tuple))
        result = _task(run, owner, args.positional[0], inner)
        if name == "apply":
            return result
        return Object(External(FUTURE), owner.place, {}, {"result": result}, label="future")
    if name in ("map", "imap", "imap_unordered", "starmap") and len(args.positional) >= 2:
        eaches = [_python.iterate(run, value, None).each for value in args.positional[1:]]
        inner = Args(eaches, {}, spread=name == "starmap")
        return Range(_task(run, owner, args.positional[0], inner))
    if name in ("shutdown", "close", "join", "terminate", "cancel", "add_done_callback"):
        return NONE
    for value in args.all():
        _calls.escape(run, value)
    return UNKNOWN


def _task(run: Interpreter, owner: Object, task: Value, args: Args) -> Value:
    mode = owner.cells.get("mode")
    result, after = _elsewhere(run, mode if isinstance(mode, Mode) else Mode(MAYBE), task, args)
    if after is not mode:
        single = owner.cells.get("single") is True
        run.state.set(owner.cells, "mode", after if single or after.kind == DEFAULT_MODE.kind else Mode(MAYBE))
    return result


def _elsewhere(run: Interpreter, mode: Mode, task: Value, args: Args) -> tuple[Value, Mode]:
    """Call a task in another thread, which stands in that mode: its result, and the mode in which it leaves it."""
    here = run.state.mode
    run.state.mode = mode
    result = _calls.call(run, task, args, None)
    after, run.state.mode = run.state.mode, here
    return result, after


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import python as _python  # noqa: E402
