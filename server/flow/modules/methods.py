"""Methods that every `nn.Module` has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    FLOAT,
    NONE,
    TRUE,
    UNKNOWN,
    Const,
    Context,
    Mapping,
    Object,
    Range,
    Sequence,
    StateOf,
    Storage,
    Switched,
    Tensor,
    Text,
    Value,
    alternatives,
    join_all,
    replace,
)
from ...findings import Place
from .. import events
from ..frames import Args
from ..objects import AVERAGED
from ..operations import bump
from .classes import library_class
from .forward import call_module
from .members import grow
from .parameters import leaves_of, parameters_of, registered, set_flags, submodules, uncertain_leaves

if TYPE_CHECKING:
    from ..interp import Interpreter


APPLY_LIMIT = 32  # modules for which the function that `apply` was given is followed


def call_module_method(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else None
    if name in ("parameters", "named_parameters"):
        found = parameters_of(run, obj, name == "named_parameters", place)
        if args.positional or args.keywords or args.spread:
            recurse = args.get(1 if found.named else 0, "recurse", TRUE)
            plain = not args.spread and recurse is not None and run.truth(recurse) is True
            found.cells["renamed"] = True
            return found if plain else replace(found, exact=False)
        return found
    if name in ("train", "eval"):
        mode = args.get(0, "mode", Const(True)) if name == "train" else Const(False)
        truth = run.truth(mode) if mode is not None else True
        kind = "train" if truth else "?" if truth is None else "eval" if registered(run, obj) else "own"
        switched = frozenset({Switched(kind, place)})
        for module in submodules(run, obj):
            run.state.set(module.cells, "training", truth)
            run.state.set(module.cells, "modes", switched)
        if place is not None:
            called(run, place, f"Module.{name}", args, obj)
        return obj
    if name == "update_parameters" and library_class(obj) == AVERAGED:
        return NONE  # the averages are copied under `no_grad`
    if name == "zero_grad":
        _training.clear(run, leaves_of(run, obj)[0], place, None, zeros=_training.keeps_zeros(run, args))
        return NONE
    if name == "requires_grad_":
        flag = args.get(0, "requires_grad", Const(True))
        truth = run.truth(flag) if flag is not None else True
        doubtful = uncertain_leaves(run, obj)
        set_flags(run, [leaf for leaf in leaves_of(run, obj)[0] if leaf not in doubtful], truth)
        set_flags(run, tuple(doubtful), truth, sure=False)
        if place is not None:
            called(run, place, "Module.requires_grad_", args, obj)
        return obj
    if name in (
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "bfloat16",
        "type",
        "share_memory",
        "apply",
        "to_empty",
        "compile",
    ):
        if place is not None:
            called(run, place, f"Module.{name}", args, obj)
        if name == "compile":
            run.state.set(obj.cells, "compiled", place)
        if name == "apply" and args.positional:
            for index, module in enumerate(submodules(run, obj)):
                if index < APPLY_LIMIT:
                    _calls.call(run, args.positional[0], Args([module], {}), None)
                else:
                    _calls.escape(run, module)
                    _replacing.loosen(run, module)
        return obj
    if name in ("modules", "children", "named_modules", "named_children"):
        objects = (
            submodules(run, obj)
            if name.endswith("modules")
            else [c for c in registered(run, obj) if isinstance(c, Object)]
        )
        named = name.startswith("named")
        shown = [Sequence("tuple", {"items": (Text(), o)}) if named else o for o in objects]
        if leaves_of(run, obj)[1] and objects:
            return Sequence("generator", {"items": tuple(shown)}, place)
        each: Value = join_all(objects) if objects else UNKNOWN  # type: ignore[assignment]
        return Range(Sequence("tuple", {"items": (Text(), each)}) if named else each)
    if name in ("append", "extend", "insert", "add_module", "register_module"):
        return grow(run, obj, name, args, place, e)
    if name in ("register_parameter", "__setattr__"):
        key = args.get(0, "name", UNKNOWN) or UNKNOWN
        value = args.get(1, "param" if name == "register_parameter" else "value", UNKNOWN) or UNKNOWN
        if place is not None and name == "register_parameter":
            run.record(events.Registered(place, run.stack, obj, value))
        if isinstance(key, Const) and isinstance(key.value, str):
            run.state.set(obj.attrs, key.value, value)
        else:
            _replacing.put_unnamed(run, obj, value)
            run.state.set(obj.attrs, f"[{place.start if place else 0}]", value)
            run.state.set(obj.cells, "dynamic", True)
        return NONE
    if name == "get_submodule":
        return _replacing.below(run, obj, args.get(0, "target", UNKNOWN) or UNKNOWN)
    if name == "set_submodule":
        _replacing.put_below(run, obj, args, e)
        return NONE
    if name == "register_buffer" and args.positional and isinstance(args.positional[0], Const):
        value = args.get(1, "tensor", NONE) or NONE
        if place is not None and isinstance(value, Tensor) and value.leaf is not None:
            running = run.frame.function
            own = running is not None and running.bound is obj
            given = args.place(1, "tensor")
            run.record(
                events.Attribute(
                    place, run.stack, obj, str(args.positional[0].value), value, own, run.frame.instance, given
                )
            )
        run.state.set(obj.attrs, args.positional[0].value, value)
        return NONE
    if name == "state_dict":
        if place is not None:
            memory = Storage({"of": tuple(leaves_of(run, obj)[0])})
            mapping = Mapping({"rest": Tensor(tag="state", dtype=FLOAT, storage=memory)}, place, complete=False)
            mapping.cells["of"] = frozenset({StateOf(obj, place)})
            called(run, place, "Module.state_dict", args, obj, mapping)
            return mapping
        return UNKNOWN
    if name == "load_state_dict":
        if place is not None:
            called(run, place, "Module.load_state_dict", args, obj)
            if run.notes.get("stepped") and _from_another(args.get(0, "state_dict", None), obj):
                for leaf in leaves_of(run, obj)[0]:
                    run.state.put(leaf.cells, "kept-by-hand", True)
            if not args.spread and all(name == "state_dict" for name in args.keywords) and len(args.positional) < 2:
                doubtful = uncertain_leaves(run, obj)
                for leaf in leaves_of(run, obj)[0]:  # all of them are there, and written in place
                    if leaf not in doubtful:
                        bump(run, leaf.storage, place)
        return UNKNOWN
    if name.startswith("register_") and name.endswith("hook"):
        return _hooks.register(run, obj, name, args, e)
    if name == "no_sync":
        return Context(None, name="no_sync", place=place, owner=obj)
    if name in ("forward", "__call__"):
        return call_module(run, obj, args, e, through=name)
    if name in ("buffers", "named_buffers"):
        tensor = Tensor(dtype=FLOAT)
        return Range(Sequence("tuple", {"items": (Text(), tensor)}) if name == "named_buffers" else tensor)
    if name == "__init__":
        return NONE
    return UNKNOWN


def _from_another(state: Value | None, obj: Object) -> bool:
    """Whether weights that are loaded are those of another module, or computed: the module follows what is trained."""
    return any(
        isinstance(option, Mapping)
        and not (isinstance(of := option.cells.get("of"), frozenset) and all(one.module is obj for one in of))
        for option in (alternatives(state) if state is not None else ())
    )


def called(run: Interpreter, place: Place, name: str, args: Args, owner: Value, result: Value = NONE) -> None:
    run.record(
        events.Called(
            place, run.stack, name, tuple(args.positional), dict(args.keywords), result, owner, args,
            run.state.mode, run.frame.instance, len(run.frame.loops), run.frame.branches == 0,
        )
    )  # fmt: skip


# The parts of the interpreter know each other: these come when this one is complete.
from .. import calls as _calls  # noqa: E402
from .. import hooks as _hooks  # noqa: E402
from .. import replacing as _replacing  # noqa: E402
from .. import training as _training  # noqa: E402
