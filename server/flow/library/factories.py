"""Functions of torch that make a tensor of something else: `torch.zeros`, `torch.tensor`, `nn.Parameter`, `Variable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    ANY_RANK,
    FALSE,
    FLOAT,
    INT,
    MANY,
    SCALAR,
    TRUE,
    UNKNOWN,
    Array,
    Const,
    Cut,
    External,
    Leaf,
    ParameterOf,
    Sequence,
    Storage,
    Tensor,
    Unknown,
    Value,
    replace,
)
from ...findings import Place
from .. import events, shapes
from ..events import called_event
from ..frames import Args
from ..operations import Inputs, lost_here
from ..tensors import INT_DTYPES, rewrap, with_flag
from ..training import memory_of

if TYPE_CHECKING:
    from ..interp import Interpreter


def make_tensor(run: Interpreter, name: str, factory: torchlib.Factory, args: Args, place: Place | None) -> Value:
    dtype = INT if factory.dtype == "int" else FLOAT
    wanted = args.get(None, "dtype", None)
    if isinstance(wanted, External):
        dtype = INT if wanted.name in INT_DTYPES else FLOAT
    rank = ANY_RANK
    sizes = args.positional
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        items = sizes[0].cells.get("items")
        sizes = list(items) if isinstance(items, tuple) else [UNKNOWN]
    known = [s.value for s in sizes if isinstance(s, Const)]
    if name.rpartition(".")[2] in ("zeros", "ones", "rand", "randn", "empty") and len(known) == len(sizes):
        if not known or all(k == 1 for k in known):
            rank = SCALAR
        elif any(isinstance(k, int) and k > 1 for k in known):
            rank = MANY
    shape = shapes.of_factory(name, args)
    made = Tensor(rank=rank, dtype=dtype, storage=Storage(), made=place, shape=shape)
    return with_flag(run, made, args, place, f"{name}(...)")


def t_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else None
    data = args.get(0, "data", UNKNOWN) or UNKNOWN
    return replace(rewrap(run, data, args, place, "torch.tensor(...)"), shape=shapes.of_literal(data))


def t_float_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`torch.Tensor(t)` and `torch.FloatTensor(t)` are aliases of a tensor; of a list, copies without graph (facts)."""
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if isinstance(value, (Tensor, ParameterOf)):
        return value
    if isinstance(value, (Sequence, Array)):
        return rewrap(run, value, Args([value], {}), place, "torch.Tensor(...)")
    return Tensor(dtype=FLOAT, storage=Storage(), made=place, certain=not isinstance(value, Unknown))


def t_int_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return Tensor(dtype=INT, storage=Storage())


def t_as_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if isinstance(value, (Tensor, ParameterOf)):
        return value
    return rewrap(run, value, args, place, "torch.as_tensor(...)")


def t_from_numpy(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    cuts = (value.cut,) if isinstance(value, Array) and value.cut is not None else ()
    return Tensor(None, cuts, True, storage=Storage(), made=place)


def t_parameter(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`nn.Parameter(data)`: a new leaf; a graph in `data` is left behind."""
    value = args.get(0, "data", UNKNOWN) or UNKNOWN
    place = run.place(e.at) if e is not None else None
    leaf = Leaf("", place, "parameter")
    if run.state.mode.kind == "inference":
        leaf.cells["inference"] = True
    flag = args.get(1, "requires_grad", TRUE)
    leaf.cells["requires_grad"] = run.truth(flag) if flag is not None else True
    found = Inputs()
    found.add(run, value)
    cuts = tuple(found.cuts)
    if found.nodes and found.sure and place is not None and not (isinstance(value, Tensor) and value.leaf is not None):
        cuts = (*cuts, lost_here(run, Cut("nn.Parameter(...)", "leaf", place, tuple(found.nodes), stack=run.stack)))
    if cuts and e is not None:
        called_event(run, "torch.nn.Parameter", args, e, Tensor(cuts=cuts))
    rank = value.rank if isinstance(value, Tensor) else ANY_RANK
    leaf.cells["lost"] = cuts
    other = memory_of(value)
    if other is not None and place is not None:
        run.record(events.Shared(place, run.stack, leaf, other))
    made = Tensor(leaf=leaf, node=leaf.node, rank=rank, dtype=FLOAT, storage=leaf.storage, made=place)
    if run.frame.instance is not None and e is not None:
        called_event(run, "parameter-in-forward", args, e, made)
    return made


def t_variable(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`Variable(t)`: a new leaf of any tensor that has a graph (facts: it is no no-op)."""
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if not isinstance(value, Tensor) or value.opaque:
        return value if isinstance(value, Tensor) else Tensor(certain=False)
    flag = args.get(1, "requires_grad", FALSE)
    truth = run.truth(flag) if flag is not None else False
    found = Inputs()
    found.add(run, value)
    cuts = list(found.cuts)
    if found.nodes and place is not None:
        cuts.append(lost_here(run, Cut("Variable(...)", "rewrap", place, tuple(found.nodes), stack=run.stack)))
    if truth is True:
        leaf = Leaf("Variable(...)", place, "tensor")
        if place is not None:
            run.record(events.GradFlag(place, run.stack, "Variable(..., requires_grad=True)", value, True, value))
        return Tensor(
            leaf=leaf, node=leaf.node, cuts=tuple(cuts), rank=value.rank, dtype=value.dtype, storage=leaf.storage
        )
    return Tensor(None, tuple(cuts), truth is False, value.rank, value.dtype, storage=value.storage, made=place)


FACTORIES: dict[str, Callable[[Interpreter, Args, ir.Call | None], Value]] = {
    "torch.tensor": t_tensor,
    "torch.Tensor": t_float_tensor,
    "torch.FloatTensor": t_float_tensor,
    "torch.LongTensor": t_int_tensor,
    "torch.IntTensor": t_int_tensor,
    "torch.as_tensor": t_as_tensor,
    "torch.asarray": t_as_tensor,
    "torch.from_numpy": t_from_numpy,
    "torch.nn.Parameter": t_parameter,
    "torch.nn.parameter.Parameter": t_parameter,
    "torch.autograd.Variable": t_variable,
    "torch.autograd.variable.Variable": t_variable,
}
