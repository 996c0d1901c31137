"""What is set of a tensor, and makes it a leaf or another one: `requires_grad`, `grad`, `data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import INFERENCE, NONE, UNKNOWN, Const, Leaf, Object, ParameterOf, Tensor, Value, replace
from ...findings import Place
from .. import events
from ..frames import Args
from ..operations import as_tensor, graph_of, possible_leaves
from .gradients import Grad, change_grad, clear

if TYPE_CHECKING:
    from ..interp import Interpreter


def set_tensor_attribute(
    run: Interpreter, owner: Value, name: str, value: Value, place: Place, target: ir.Attr
) -> None:
    """`x.requires_grad = ...`, `x.grad = ...`, `x.data = ...`"""
    leaves: tuple[Leaf, ...] = ()
    if isinstance(owner, ParameterOf):
        leaves = owner.leaves
    elif isinstance(owner, Tensor) and owner.leaf is not None:
        leaves = (owner.leaf,)
    elif isinstance(owner, Tensor) and name == "grad":
        change_grad(run, tuple(possible_leaves(owner)), decays=True)
    if name == "requires_grad":
        truth = run.truth(value)
        before = owner if isinstance(owner, Tensor) else None
        run.record(
            events.GradFlag(
                place, run.stack, "requires_grad = ...", owner, truth, before, run.assigned_e, run.condition
            )
        )
        if leaves:
            part = isinstance(owner, Tensor) and owner.tag == "part"
            _modules.set_flags(run, leaves, truth, not part and (not isinstance(owner, ParameterOf) or owner.all_of))
        elif isinstance(owner, Tensor) and truth is True:
            _become_leaf(run, owner, place, target.value)
    elif name == "grad":
        if isinstance(value, Const) and value.value is None:
            clear(run, leaves, place, None)
        else:
            if not leaves:
                run.notes["retains"] = True  # a tensor that is no leaf has one by hand
            for leaf in leaves:
                run.state.put(leaf.cells, "grad-changed", True)
                run.state.set(leaf.cells, "grad", Grad("?"))
    elif name == "data":
        for leaf in leaves:
            run.state.put(leaf.cells, "written", True)
            if run.frame.instance is not None or run.notes.get("stepped"):
                run.state.put(leaf.cells, "kept-by-hand", True)
        other = memory_of(value)
        if isinstance(owner, Tensor) and owner.leaf is not None and other is not None and other is not owner.leaf:
            run.record(events.Shared(place, run.stack, owner.leaf, other))
    else:
        run.record(events.Attribute(place, run.stack, owner, name, value, value_place=run.assigned))


def memory_of(value: Value) -> Leaf | None:
    """The parameter whose memory a value surely is: itself, or its `.data`."""
    if not isinstance(value, Tensor):
        return None
    of = value.storage.cells.get("of") if value.storage is not None else None
    return value.leaf or (of if isinstance(of, Leaf) else None)


def _become_leaf(run: Interpreter, owner: Tensor, place: Place, reached: ir.Expr) -> None:
    """A tensor without graph is told to require grad: from now on it is a leaf of its own."""
    leaf = Leaf("tensor", place, "tensor")
    frame = run.frame
    new = replace(owner, leaf=leaf, node=leaf.node, certain=owner.certain)
    for name, value in list(frame.scope.names.items()):
        if value is owner:
            run.state.set(frame.scope.names, name, new)
    if isinstance(reached, ir.Attr):
        holder = run.eval(reached.value)
        if isinstance(holder, Object) and holder.attrs.get(reached.name) is owner:
            run.state.set(holder.attrs, reached.name, new)


def tensor_flag(run: Interpreter, owner: Value, name: str, args: Args, e: ir.Call | None) -> Value:
    """`x.requires_grad_(...)`, `x.retain_grad()`, `x.register_hook(f)`"""
    place = run.place(e.at) if e is not None else None
    if name != "requires_grad_":
        if isinstance(owner, Tensor) and owner.leaf is not None:
            run.state.put(owner.leaf.cells, "grad-read", True)  # somebody looks at its gradient
        if name == "retain_grad":
            run.notes["retains"] = True
            return NONE
        if name == "register_hook" and e is not None and args.positional:
            tensor = as_tensor(owner) if isinstance(owner, ParameterOf) else owner
            if isinstance(tensor, Tensor):
                _hooks.check_tensor_hook(run, tensor, args.positional[0], args.place(0, "hook") or run.place(e.at))
        if name == "register_post_accumulate_grad_hook":
            _hooks.after_accumulation(run, args)
        return UNKNOWN
    flag = args.get(0, "requires_grad", Const(True))
    truth = run.truth(flag) if flag is not None else True
    if place is not None:
        before = owner if isinstance(owner, Tensor) else None
        run.record(
            events.GradFlag(place, run.stack, f".requires_grad_({'' if truth else truth})", owner, truth, before)
        )
    if isinstance(owner, ParameterOf):
        _modules.set_flags(run, owner.leaves, truth, owner.all_of)
        return owner
    assert isinstance(owner, Tensor)
    if owner.leaf is not None:
        _modules.set_flags(run, (owner.leaf,), truth, owner.tag != "part")
        return owner
    node, _ = graph_of(owner)
    if truth is True and node is None:
        if run.state.mode.kind == INFERENCE:
            new = replace(owner, certain=False)  # a leaf to some operations, and none to others
        else:
            leaf = Leaf("tensor", place, "tensor")
            leaf.storage = owner.storage or leaf.storage
            new = replace(owner, leaf=leaf, node=leaf.node, certain=owner.certain)
        if e is not None and isinstance(e.func, ir.Attr):
            _tensors.rebind(run, e.func.value, new, owner)
        return new
    return owner


# The parts of the interpreter know each other: these come when this one is complete.
from .. import hooks as _hooks  # noqa: E402
from .. import modules as _modules  # noqa: E402
from .. import tensors as _tensors  # noqa: E402
