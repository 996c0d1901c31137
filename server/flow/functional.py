"""`torch.func.grad`: the gradient with respect to an argument, which is zero where the result does not depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    FLOAT,
    ON,
    UNKNOWN,
    External,
    Function,
    Leaf,
    Mapping,
    Mode,
    Object,
    ParameterOf,
    Sequence,
    Tensor,
    Value,
)
from ..findings import Place
from . import events
from .frames import Args

if TYPE_CHECKING:
    from .interp import Interpreter

TRANSFORMS = frozenset({"torch.func.grad", "torch.func.grad_and_value"})


def make(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    """The transformed function."""
    function = args.get(0, "func", UNKNOWN)
    if not isinstance(function, Function) or len(args.all()) != 1 or args.spread:  # `argnums`, `has_aux`
        for value in args.all():
            _calls.escape(run, value)
        return UNKNOWN
    place = run.place(e.at) if e is not None else None
    return Object(External(name), place, {}, {"function": function}, label=name)


def is_transform(value: Object) -> bool:
    return isinstance(value.cls, External) and value.cls.name in TRANSFORMS


def apply(run: Interpreter, transform: Object, args: Args, e: ir.Call | None) -> Value:
    """Call it: `func` is run with its first argument as something to be differentiated."""
    function = transform.cells["function"]
    assert isinstance(function, Function)
    first = args.get(0, "", UNKNOWN) if args.positional else UNKNOWN
    leaf = Leaf("argument", transform.place, "tensor")
    wanted = _differentiated(first, leaf) if first is not None else None
    mode = run.state.mode
    run.state.mode = Mode(ON)  # an outer `no_grad` does not stop it
    given = [wanted if wanted is not None else UNKNOWN, *args.positional[1:]]
    result = _calls.call(run, function, Args(given, args.keywords, args.spread, args.places), e)
    run.state.mode = mode
    if wanted is not None and isinstance(result, Tensor) and not result.opaque and result.certain:
        found = _training.walk(result.node)
        if not found.opaque and leaf not in (*found.sure, *found.maybe):
            place = transform.place or (run.place(e.at) if e is not None else None)
            if place is not None:
                run.record(events.Raised(place, run.stack, "constant-gradient", "", _trail(result), {}))
    return UNKNOWN


def _trail(result: Tensor) -> tuple[tuple[Place, str], ...]:
    if result.cuts:
        return ((result.cuts[-1].place, "cut"),)
    return ((result.made, "made"),) if result.made is not None else ()


def _differentiated(value: Value, leaf: Leaf) -> Value | None:
    """The argument with every tensor in it a leaf; None if not all of it is known."""
    if isinstance(value, (Tensor, ParameterOf)):
        shape = value.shape if isinstance(value, Tensor) else None
        return Tensor(leaf=leaf, node=leaf.node, dtype=FLOAT, storage=leaf.storage, shape=shape)
    if isinstance(value, Mapping):
        cells = {key: _differentiated(v, leaf) for key, v in value.cells.items() if isinstance(v, Value)}
        if len(cells) != len(value.cells.keys() - {"covers"}) or any(v is None for v in cells.values()):
            return None
        return Mapping(dict(cells), value.place, value.complete)
    if isinstance(value, Sequence):
        items = value.cells.get("items")
        if not isinstance(items, tuple):
            return None
        made = tuple(_differentiated(v, leaf) for v in items)
        return None if any(v is None for v in made) else Sequence(value.kind, {"items": made}, value.place)
    return None


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import training as _training  # noqa: E402
