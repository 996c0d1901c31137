"""A module is called: its forward and its hooks, or what torch's own class computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    ANY_RANK,
    LOSS,
    MANY,
    SCALAR,
    UNKNOWN,
    Class,
    Const,
    Cut,
    External,
    Function,
    Leaf,
    Object,
    Sequence,
    Storage,
    Tensor,
    Value,
    replace,
)
from ...findings import Place
from .. import events, shapes
from ..frames import Args
from ..objects import WRAPPERS, bound, find
from ..operations import (
    Inputs,
    bump,
    graph_of,
    is_average,
    is_packed,
    leaf_graph,
    packed,
    recorded,
    refuse_inference,
    save,
)
from .classes import CONTAINERS, NEEDS_WHAT_IT_WROTE, RECURRENT, library_class
from .parameters import leaves_of

if TYPE_CHECKING:
    from ..interp import Interpreter


def call_module(run: Interpreter, obj: Object, args: Args, e: ir.Call | None, through: str = "call") -> Value:
    """`module(x)`: its forward, and its forward hooks."""
    place = run.place(e.at) if e is not None else obj.place
    cls, cells = library_class(obj), obj.cells
    if cells.get("closed"):
        return Tensor(certain=False)
    member = find(obj.cls, "forward", run)
    own = obj.attrs.get("forward")
    if isinstance(own, Value):
        member = (own, obj.cls)  # it was put into the instance
    elif (cells.get("loose") and member is None) or ("patched", cls) in run.state.shared:
        for value in args.all():
            _calls.escape(run, value)
        return Tensor(certain=False)
    if cls in WRAPPERS and isinstance(obj.cls, External):
        inner = obj.attrs.get("module", UNKNOWN)
        result = _calls.call(run, inner, args, e) if isinstance(inner, Value) else UNKNOWN
        if place is not None:
            event = events.Forward(place, run.stack, obj, None, run.state.mode, tuple(args.positional), result)
            unsynced = obj.cells.get("unsynced")
            event.unsynced = unsynced if isinstance(unsynced, Place) else None
            run.record(event)
        return result
    if "pre_hooks" in cells:
        args = _hooks.before_forward(run, obj, args)
    outer, run.compiled = run.compiled, run.compiled or compiled_at(obj)
    if member is not None and member[0] is own:
        run.instance = obj
        result = _calls.call(run, member[0], args, e)
        run.instance = None
    elif member is not None and isinstance(member[0], Function):
        result = _calls.call(run, bound(member[0], obj), args, e)
    elif member is not None:
        return UNKNOWN
    elif "items" in cells or cls in CONTAINERS:
        result = call_container_module(run, obj, cls, args, e)
    else:
        info = torchlib.module(cls)
        if info is None or (isinstance(obj.cls, Class) and obj.cls.open):
            for value in args.all():
                _calls.escape(run, value)
            return UNKNOWN
        result = apply_module(run, obj, info, args, place)
    run.compiled = outer
    if place is not None:
        modes, shared = cells.get("modes"), run.state.shared
        run.record(
            events.Forward(
                place, run.stack, obj, cells.get("training"), run.state.mode, tuple(args.positional), result,
                modes if isinstance(modes, frozenset) else frozenset(), run.frame.instance, None, args,
                shared.get("autocast"),
            )
        )  # fmt: skip
    return _hooks.after_forward(run, obj, args, result) if "hooks" in cells else result


def compiled_at(obj: Object) -> Place | None:
    """Where a module was given to `torch.compile`."""
    place = obj.cells.get("compiled")
    return place if isinstance(place, Place) else None


def call_container_module(run: Interpreter, obj: Object, cls: str, args: Args, e: ir.Call | None) -> Value:
    items = obj.cells.get("items")
    if cls != "torch.nn.Sequential":
        return UNKNOWN
    value: Value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(items, tuple):
        for item in items:
            value = _calls.call(run, item, Args([value], {}), e)
        return value
    # A Sequential of unknown length: everything in it was applied, in some order.
    leaves, exact = leaves_of(run, obj)
    found = Inputs()
    found.add(run, value)
    for leaf in leaves:
        node, sure = leaf_graph(leaf)
        if node is not None:
            found.nodes.append(node)
            found.sure = found.sure or sure
    found.unknown = found.unknown or not exact
    place = run.place(e.at) if e is not None else None
    return recorded(run, obj.label or "Sequential", found, place, saves=None)


def apply_module(run: Interpreter, obj: Object, info: torchlib.Module, args: Args, place: Place | None) -> Value:
    """Call an instance of a class of `torch.nn` that has its own kernel."""
    found = Inputs()
    for value in args.all():
        found.add(run, value)
    lost: list[Cut] = []
    if info.grad == "none" and found.nodes and found.sure and place is not None:
        lost.append(Cut(info.short, "op", place, tuple(found.nodes), stack=run.stack))
        found.nodes, found.sure = [], False
    leaf = obj.cells.get("leaf")
    saved: list[tuple[Storage, int]] = []
    needs_weight = bool(found.nodes)
    if isinstance(leaf, Leaf):
        node, sure = leaf_graph(leaf)
        if node is not None:
            if found.nodes or info.name in RECURRENT:
                save(saved, leaf.storage)
            found.nodes.append(node)
            found.sure = found.sure or sure
        elif not sure:
            found.unknown = True
    if obj.attrs:
        for name in ("weight", "bias"):
            replaced = obj.attrs.get(name)
            if isinstance(replaced, Tensor):
                found.add(run, replaced)
                if name == "weight" and needs_weight and replaced.storage is not None and graph_of(replaced)[1]:
                    save(saved, replaced.storage)
    found.cuts.extend(lost)
    rank = module_rank(run, obj, info, found)
    first = args.positional[0] if args.positional else None
    made_args = obj.cells.get("args")
    inplace = None
    if info.inplace and isinstance(made_args, Args) and isinstance(first, Tensor) and not first.opaque:
        flag = made_args.get(None, "inplace", None)
        position = made_args.positional[-1] if made_args.positional else None
        if (flag is not None and run.truth(flag) is True) or (
            isinstance(position, Const) and position.value is True and flag is None
        ):
            inplace = first
    out_storage = None
    if inplace is not None and inplace.storage is not None and place is not None:
        bump(run, inplace.storage, obj.place or place)
        out_storage = inplace.storage
        run.record(events.InPlace(place, run.stack, inplace, info.name, run.state.mode))
    out_storage = out_storage or Storage()
    if found.nodes:
        if run.state.mode.records and (isinstance(leaf, Leaf) or "in" in info.saves) and not info.loss:
            refuse_inference(run, [v for v in args.positional[:1] if isinstance(v, Tensor)])
        for what in info.saves:
            if what == "out" or (inplace is not None and info.name in NEEDS_WHAT_IT_WROTE):
                save(saved, out_storage)
            elif isinstance(first, Tensor) and first.storage is not None and inplace is None:
                save(saved, first.storage)
    result = recorded(
        run, info.short, found, place, rank, storage=out_storage, saved=tuple(saved),
        saves=True if saved or info.parameters else None, op=info.name, zero=info.grad == "zero",
    )  # fmt: skip
    if info.loss and result.node is not None and isinstance(made_args, Args):
        result.node.average = info.reduction is not None and is_average(made_args, info.reduction)
    if info.loss:
        result = replace(result, measure=LOSS)
    if info.name in RECURRENT and is_packed(first):
        return Sequence("tuple", {"items": (packed(result, place), _shaped(info.outputs[1], result))})  # type: ignore[index]
    shape = first.shape if isinstance(first, Tensor) else None
    if info.name in RECURRENT and isinstance(info.outputs, tuple) and len(info.outputs) == 2:
        outputs, states = shapes.of_recurrent(info.name, made_args, shape)
        if outputs is not None:
            last = _shaped(info.outputs[1], shapes.shaped(result, states))
            return Sequence("tuple", {"items": (shapes.shaped(result, outputs), last)})
    shape = shapes.of_layer(info.name, info.sizes == "same", made_args, shape)
    return _shaped(info.outputs, shapes.shaped(result, shape))


def _shaped(outputs: object, tensor: Tensor) -> Value:
    if isinstance(outputs, tuple):
        return Sequence("tuple", {"items": tuple(_shaped(o, tensor) for o in outputs)})
    return tensor


def module_rank(run: Interpreter, obj: Object, info: torchlib.Module, found: Inputs) -> str:
    if info.loss:
        made = obj.cells.get("args")
        if info.reduction is not None and isinstance(made, Args):
            value = made.get(info.reduction, "reduction", Const("mean"))
            if not isinstance(value, Const):
                return ANY_RANK
            return SCALAR if value.value != "none" else shapes.unreduced(found.tensors)
        return SCALAR if info.shape == "scalar" else ANY_RANK
    if info.shape == "scalar":
        return SCALAR
    if info.shape == "elementwise":
        ranks = {t.rank for t in found.tensors}
        if ranks == {SCALAR} and not found.unknown:
            return SCALAR
        if MANY in ranks and info.sizes == "same":
            return MANY
    return MANY if shapes.features(info.name, obj.cells.get("args")) > 1 else ANY_RANK


# The parts of the interpreter know each other: these come when this one is complete.
from .. import calls as _calls  # noqa: E402
from .. import hooks as _hooks  # noqa: E402
