"""A module is made: its parameters, and what a container is filled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    FLOAT,
    NEW_MODES,
    NONE,
    TRUE,
    UNKNOWN,
    Class,
    Const,
    External,
    Leaf,
    Mapping,
    Object,
    Sequence,
    Tensor,
    Value,
    join_all,
)
from ...findings import Place
from .. import events
from ..frames import Args
from ..objects import AVERAGED, WRAPPERS, find, is_module
from ..python.containers import fill
from ..python.iteration import Items, iterate
from .classes import BIAS_AT, CONTAINERS
from .parameters import leaves_of

if TYPE_CHECKING:
    from ..interp import Interpreter


def make_module(run: Interpreter, name: str, args: Args, place: Place, e: ir.Call | None) -> Object:
    """An instance of a class of `torch.nn`."""
    obj = Object(External(name), place, label=name.rpartition(".")[2])
    initialize(run, obj, name, args, place)
    run.objects.append(obj)
    made(run, obj, place)
    return obj


def made(run: Interpreter, obj: Object, place: Place) -> None:
    instance = run.frame.instance
    training = instance.cells.get("training") if instance is not None else None
    leaves = tuple(leaves_of(run, obj)[0]) if instance is not None and is_module(obj) else ()
    run.record(
        events.Made(place, run.stack, obj, instance, len(run.frame.loops), run.certain_in_forward(), training, leaves)
    )


def initialize(run: Interpreter, obj: Object, name: str, args: Args, place: Place) -> None:
    """What `Class.__init__` of torch does to an object that is (or derives from) `name`."""
    obj.cells.setdefault("training", True)
    obj.cells.setdefault("modes", NEW_MODES)
    run.state.set(obj.cells, "init", True)
    info = torchlib.module(name)
    run.state.set(obj.cells, "args", args)
    if name in WRAPPERS:
        inner = args.get(0, "model" if name == AVERAGED else "module", UNKNOWN) or UNKNOWN
        if name == AVERAGED and isinstance(obj.cls, Class):
            inner = UNKNOWN  # a copy, which is made where torch's own class is called (`library/torch.py`)
        run.state.set(obj.attrs, "module", inner)
        return
    kind = CONTAINERS.get(name)
    if kind == "sequence":
        items: tuple[Value, ...] | None
        first = args.get(0, "modules", None)
        if name == "torch.nn.Sequential" and not isinstance(first, Mapping):
            if args.spread:
                run.state.set(obj.cells, "items", None)
                run.state.set(obj.cells, "each", join_all(args.positional) if args.positional else UNKNOWN)
                run.state.set(obj.cells, "members", args.members)
                return
            items = tuple(args.positional)
        elif first is None:
            items = ()
        else:
            found = iterate(run, first, None)
            if isinstance(first, Mapping):
                values = [v for v in first.cells.values() if isinstance(v, Value)]
                found = Items(join_all(values) if values else UNKNOWN, values if first.complete else None)  # type: ignore[arg-type]
            if found.items is None or args.spread:
                run.state.set(obj.cells, "items", None)
                run.state.set(obj.cells, "each", found.each)
                run.state.set(obj.cells, "members", first.cells.get("members") if isinstance(first, Sequence) else None)
                return
            items = tuple(found.items)
            if isinstance(first, Mapping):
                keys = tuple(key[1] for key in first.cells if isinstance(key, tuple))
                run.state.set(obj.cells, "keys", keys if "rest" not in first.cells else None)
        run.state.set(obj.cells, "items", items)
        return
    if kind == "mapping":
        first = args.get(0, "modules" if name == "torch.nn.ModuleDict" else "parameters", None)
        if not isinstance(first, Mapping):
            given, first = first, Mapping({}, place)
            if given is not None:
                fill(run, first, given)
        run.state.set(obj.cells, "mapping", first)
        return
    affine = args.keywords.get("elementwise_affine", args.keywords.get("affine"))
    bare = isinstance(affine, Const) and affine.value is False
    if info is not None and info.parameters and not bare and "leaf" not in obj.cells:
        names = own_parameters(run, obj, info, args)
        kind = "parameter" if names else "weights"
        freeze = args.get(None, "freeze", None)
        for parameter in names or ("",):
            leaf = Leaf(parameter or info.short, place, kind)
            if run.state.mode.kind == "inference":
                leaf.cells["inference"] = True
            if isinstance(freeze, Const) and freeze.value:
                leaf.cells["requires_grad"] = False
            if parameter:
                run.state.set(
                    obj.attrs, parameter, Tensor(leaf=leaf, node=leaf.node, dtype=FLOAT, storage=leaf.storage)
                )
            else:
                run.state.set(obj.cells, "leaf", leaf)
        if names and "bias" in info.parameters and "bias" not in names:
            run.state.set(obj.attrs, "bias", NONE)


def own_parameters(run: Interpreter, obj: Object, info: torchlib.Module, args: Args) -> tuple[str, ...]:
    """The parameters of a layer whose class uses them itself, in a forward of its own; nothing if that isn't known.

    A layer of torch takes all its parameters at once, and one leaf stands for them; here each may go its own way.
    """
    if info.short not in BIAS_AT or args.spread or find(obj.cls, "forward", run) is None:
        return ()
    at = BIAS_AT[info.short]
    bias = run.truth(args.get(at, "bias", TRUE) or TRUE) if at is not None else False
    return () if bias is None else ("weight", "bias") if bias else ("weight",)


# The parts of the interpreter know each other: these come when this one is complete.
