"""`torch.func`: `grad`, which is zero where the result does not depend on the argument, and `functional_call`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    FLOAT,
    NONE,
    ON,
    UNKNOWN,
    External,
    Function,
    Leaf,
    Mapping,
    Mode,
    Node,
    Object,
    ParameterOf,
    Sequence,
    Tensor,
    Unknown,
    Value,
    replace,
)
from ..findings import Place
from . import events
from .frames import Args
from .operations import Inputs

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


def functional_call(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`functional_call(module, parameters, args)`: the module's forward with other parameters in the place of its own."""
    module, given = args.get(0, "module", UNKNOWN), args.get(1, "parameter_and_buffer_dicts", UNKNOWN)
    inputs = args.get(2, "args", NONE)
    items = inputs.cells.get("items") if isinstance(inputs, Sequence) and inputs.kind == "tuple" else None
    if not isinstance(module, Object) or isinstance(inputs, Unknown):
        for value in args.all():
            _calls.escape(run, value)
        return UNKNOWN
    inner = Args(list(items), {}) if isinstance(items, tuple) else Args([inputs or NONE], {})
    result = _calls.call(run, module, inner, e)
    own = given.cells.get("rest") if isinstance(given, Mapping) and given.cells.keys() <= {"rest", "covers"} else None
    if isinstance(own, ParameterOf) and own.all_of and set(own.leaves) == set(_modules.leaves_of(run, module)[0]):
        return result
    if not isinstance(result, Tensor):
        return UNKNOWN
    replaced = _in_place_of(run, module, given, result, run.place(e.at) if e is not None else None)
    if replaced is not None:
        return replaced
    found = Inputs()
    found.add(run, given)
    nodes = (*((result.node,) if result.node is not None else ()), *found.nodes)
    node = (
        Node("functional_call", run.place(e.at) if e is not None else None, nodes, phi=True, opaque=True)
        if nodes
        else None
    )
    return replace(result, node=node, certain=False)


def _in_place_of(
    run: Interpreter, module: Object, given: Value | None, result: Tensor, place: Place | None
) -> Tensor | None:
    """What a module's forward gives where tensors that surely have a graph stand in the place of its parameters; None if
    that is not known.

    Of which of them is not known, the graph may have both; in the place of all, none of its own is left in it.
    """
    leaves, exact = _modules.leaves_of(run, module)
    below = _training.walk(result.node)
    if not isinstance(given, Mapping) or not exact or not result.certain or result.opaque or below.opaque:
        return None
    if result.node is None or set(leaves).isdisjoint(below.sure) or not (given.complete or given.cells.get("covers")):
        return None
    found = Inputs()
    for value in given.cells.values():
        if isinstance(value, Value):
            one = Inputs()
            one.add(run, value)
            if not one.sure or one.unknown or isinstance(value, (Sequence, Mapping)):
                return None
            found.add(run, value)
    if not found.nodes:
        return None
    covers = given.cells.get("covers")
    if not isinstance(covers, tuple) or not set(leaves) <= set(covers):
        node = Node("functional_call", place, (result.node, *found.nodes), phi=True)
        return replace(result, node=node, cuts=(*result.cuts, *found.cuts))
    others = [leaf.node for leaf in below.sure if leaf not in leaves and leaf.node is not None]
    perhaps = [leaf.node for leaf in below.maybe if leaf not in leaves and leaf.node is not None]
    if perhaps:
        others.append(Node("phi", None, tuple(perhaps), phi=True))
    cuts = tuple(dict.fromkeys((*below.cuts, *found.cuts)))
    node = Node("functional_call", place, (*dict.fromkeys(found.nodes), *others), cuts, stack=run.stack)
    return replace(result, node=node, cuts=cuts)


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import training as _training  # noqa: E402
