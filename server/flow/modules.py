"""`nn.Module` and its library: what is registered, which parameters train, what calling one does."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    ANY_RANK,
    FLOAT,
    LOSS,
    MANY,
    NEW_MODES,
    NONE,
    SCALAR,
    TRUE,
    UNKNOWN,
    Class,
    Const,
    Context,
    Cut,
    External,
    Function,
    Leaf,
    Mapping,
    Method,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    StateOf,
    Storage,
    Super,
    Switched,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    element,
    join,
    join_all,
    replace,
)
from ..findings import Place
from . import events, shapes
from .frames import Args
from .objects import AVERAGED, MODULE, MODULE_METHODS, WRAPPERS, bound, find, is_module, remember
from .operations import (
    Inputs,
    bump,
    graph_of,
    is_average,
    is_packed,
    leaf_graph,
    packed,
    possible_leaves,
    recorded,
    refuse_inference,
    save,
)
from .python import Items, fill, iterate

if TYPE_CHECKING:
    from .interp import Interpreter

CONTAINERS = {"torch.nn.Sequential": "sequence", "torch.nn.ModuleList": "sequence", "torch.nn.ModuleDict": "mapping",
              "torch.nn.ParameterList": "sequence", "torch.nn.ParameterDict": "mapping"}  # fmt: skip
# From the second time step on the input of the weights is a result of the weights: they are always saved.
RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
# Made with `inplace=True`, their backward computes from the output; of the input, which it would need else, nothing is left.
NEEDS_WHAT_IT_WROTE = frozenset(
    {"torch.nn.LeakyReLU", "torch.nn.ELU", "torch.nn.CELU", "torch.nn.SELU", "torch.nn.RReLU"}
)


def library_class(obj: Object) -> str:
    """The class of torch whose behaviour the object has where the project overrides nothing."""
    cls = obj.cls
    if type(cls) is External:
        return cls.name
    if type(cls) is Class:
        for base in cls.mro:
            if isinstance(base, External) and base.name.startswith("torch."):
                return base.name
    return ""


# ---------------------------------------------------------------- making


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


# Layers with a weight and maybe a bias: the position of the argument that decides.
BIAS_AT = {"Linear": 2, "Bilinear": 3, "Conv1d": 7, "Conv2d": 7, "Conv3d": 7, "ConvTranspose1d": 7, "ConvTranspose2d": 7,
           "ConvTranspose3d": 7, "Embedding": None}  # fmt: skip


def own_parameters(run: Interpreter, obj: Object, info: torchlib.Module, args: Args) -> tuple[str, ...]:
    """The parameters of a layer whose class uses them itself, in a forward of its own; nothing if that isn't known.

    A layer of torch takes all its parameters at once, and one leaf stands for them; here each may go its own way.
    """
    if info.short not in BIAS_AT or args.spread or find(obj.cls, "forward", run) is None:
        return ()
    at = BIAS_AT[info.short]
    bias = run.truth(args.get(at, "bias", TRUE) or TRUE) if at is not None else False
    return () if bias is None else ("weight", "bias") if bias else ("weight",)


def registers(run: Interpreter, owner: Object, name: str, value: Value, place: Place) -> None:
    """An attribute of a module is set: registering before `Module.__init__` raises."""
    needs = is_module(value) or (
        isinstance(value, Tensor) and value.leaf is not None and value.leaf.kind == "parameter"
    )
    if needs and owner.cells.get("init") is False:
        run.record(events.Raised(place, run.stack, "missing-super-init", name, data={"owner": owner}))
    if (
        isinstance(value, Tensor)
        and value.leaf is not None
        and value.leaf.kind == "parameter"
        and value.leaf.label == ""
    ):
        value.leaf.label = name


def replace_item(run: Interpreter, owner: Object, name: str, value: Value) -> bool:
    """`setattr(sequential, "0", layer)`: the members of a container are attributes, too."""
    items, mapping = owner.cells.get("items"), owner.cells.get("mapping")
    if isinstance(items, tuple) and name.isdigit() and int(name) < len(items):
        run.state.set(owner.cells, "items", (*items[: int(name)], value, *items[int(name) + 1 :]))
        return True
    if isinstance(mapping, Mapping) and ("key", name) in mapping.cells:
        run.state.set(mapping.cells, ("key", name), value)
        return True
    if "items" in owner.cells and name.isdigit():
        _replacing.loosen(run, owner)
        return True
    return False


def take_apart(run: Interpreter, owner: Object) -> None:
    """A module may have lost a parameter: there is room for a plain tensor now."""
    run.state.set(owner.cells, "parametrized", True)
    leaf = owner.cells.get("leaf")
    if isinstance(leaf, Leaf):
        leaf.cells["taken-apart"] = True


def replace_weight(run: Interpreter, owner: Object, name: str, value: Value) -> None:
    """A layer of torch gets another parameter for its own: it is the layer's leaf, if the layer has no other one."""
    leaf = owner.cells.get("leaf")
    if name != "weight" or not isinstance(leaf, Leaf) or not isinstance(value, Tensor) or value.leaf is None:
        return
    info, made = torchlib.module(library_class(owner)), owner.cells.get("args")
    if info is None or value.leaf.kind == "tensor" or not isinstance(made, Args):
        return
    bias = made.keywords.get("bias")
    if len(info.parameters) == 1 or (isinstance(bias, Const) and bias.value is False):
        if run.frame.instance is not None:
            leaf.cells["kept-by-hand"] = True
        run.state.set(owner.cells, "leaf", value.leaf)


def refuse_plain(run: Interpreter, owner: Object, name: str, value: Value, place: Place) -> None:
    """A tensor that is no parameter is assigned where a module has one: torch raises."""
    if not isinstance(value, Tensor) or value.opaque or owner.cells.get("parametrized") or owner.cells.get("escaped"):
        return
    if value.leaf is not None and value.leaf.kind != "tensor":
        return
    if not value.certain and ((value.leaf is None and value.node is None) or possible_leaves(value)):
        return  # it may be a parameter
    now = owner.attrs.get(name)
    own = isinstance(now, Tensor) and now.leaf is not None and now.leaf.kind == "parameter" and now.certain
    if now is None and name in ("weight", "bias") and isinstance(owner.cells.get("leaf"), Leaf):
        info = torchlib.module(library_class(owner))
        made = owner.cells.get("args")
        own = info is not None and name in info.parameters and isinstance(made, Args) and not made.spread
        own = own and not (name == "bias" and not _has_bias(owner, made))  # type: ignore[arg-type]
    if own:
        run.record(events.Raised(place, run.stack, "tensor-for-parameter", name, data={"value": run.assigned}))


def _has_bias(owner: Object, made: Args) -> bool:
    """Whether a layer surely has a bias: it was made with nothing that could leave it out."""
    return "bias" not in made.keywords and all(not isinstance(v, Const) or v.value is not False for v in made.all())


# ---------------------------------------------------------------- parameters


def leaves_of(run: Interpreter, value: Value) -> tuple[list[Leaf], bool]:
    """The registered parameters of a module in order, and whether these are surely all."""
    leaves: dict[Leaf, None] = {}
    exact = _collect(run, value, set(), leaves)
    return list(leaves), exact


def _collect(run: Interpreter, value: Value, seen: set[int], leaves: dict[Leaf, None]) -> bool:
    """Adds the registered parameters; whether these are surely all."""
    if not isinstance(value, Object) or id(value) in seen:
        return isinstance(value, (Object, Const, Number, Text, Function, Tensor, Sequence, Mapping, External))
    seen.add(id(value))
    cells = value.cells
    exact = not cells.get("dynamic") and not cells.get("escaped")
    own = cells.get("leaf")
    if own is not None:
        leaves[own] = None  # type: ignore[index]
    for child in registered(run, value):
        if isinstance(child, Object):
            complete = _collect(run, child, seen, leaves)
            exact = exact and complete
        elif isinstance(child, Tensor):
            leaves.update(dict.fromkeys(possible_leaves(child)))
        elif isinstance(child, Union):
            exact = False
            for option in child.options:
                _collect(run, option, seen, leaves)
        else:
            exact = False
    if isinstance(value.cls, Class) and value.cls.open:
        exact = False
    return exact


def named_leaves(
    run: Interpreter, obj: Object, prefix: str | None = "", seen: set[int] | None = None
) -> Iterator[tuple[Value, Leaf]]:
    """`named_parameters()` of a module whose members are all known; a layer of torch comes as one, under all its names.

    A name that is not known for sure is a `Text`.
    """
    seen = set() if seen is None else seen
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if obj.cells.get("compiled"):
        prefix = None  # `torch.compile` gives another module, with this one in it
    own = obj.cells.get("leaf")
    if isinstance(own, Leaf) and id(own) not in seen:
        seen.add(id(own))
        info = torchlib.module(library_class(obj))
        names: tuple[Const, ...] = ()
        if prefix is not None and info is not None and not obj.cells.get("parametrized"):
            names = tuple(Const(f"{prefix}{name}") for name in _layer_names(info.parameters))
        yield (Union(names) if len(names) > 1 else names[0] if names else Text()), own
    for name, child in _children(obj):
        path = None if prefix is None or name is None else f"{prefix}{name}"
        if isinstance(child, Tensor) and child.leaf is not None and child.leaf.kind != "tensor":
            if id(child.leaf) not in seen:
                seen.add(id(child.leaf))
                yield (Text() if path is None else Const(path)), child.leaf
        elif isinstance(child, Object) and is_module(child):
            yield from named_leaves(run, child, None if path is None else f"{path}.", seen)


def _children(obj: Object) -> list[tuple[str | None, object]]:
    """What is registered in a module, with the names; None where a name is not known."""
    found: list[tuple[str | None, object]] = [
        (None if name.startswith("[") else name, v) for name, v in obj.attrs.items()
    ]
    items, mapping = obj.cells.get("items"), obj.cells.get("mapping")
    if isinstance(items, tuple):
        keys = obj.cells.get("keys", range(len(items)))
        known = keys is not None and len(keys) == len(items)  # type: ignore[arg-type]
        found += zip(map(str, keys) if known else [None] * len(items), items, strict=True)  # type: ignore[call-overload]
    if isinstance(mapping, Mapping):
        found += [(str(key[1]), value) for key, value in mapping.cells.items() if isinstance(key, tuple)]
    return found


def named_item(obj: Object, name: str) -> Value | None:
    """A layer of a Sequential by the name that it has in it: `model.head` of `Sequential(OrderedDict(head=...))`."""
    items, keys = obj.cells.get("items"), obj.cells.get("keys")
    if isinstance(items, tuple) and isinstance(keys, tuple) and len(keys) == len(items) and name in keys:
        return items[keys.index(name)]  # type: ignore[no-any-return]
    return None


LAYERS_NAMED = 12  # of layers that are numbered; deeper ones are called alike
_NUMBERED = re.compile(r"(?<=_l)0|(?<=layers\.)0")


@functools.cache
def _layer_names(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """What the parameters of a layer of torch may be called, with those of further layers; nothing if that is not known."""
    names: dict[str, None] = {}
    for name in parameters:
        for index in range(LAYERS_NAMED) if _NUMBERED.search(name) else (0,):
            names[_NUMBERED.sub(str(index), name)] = None
            if "_l0" in name:
                names[_NUMBERED.sub(str(index), name) + "_reverse"] = None
                names[f"weight_hr_l{index}"] = None
    return tuple(names) if not any(re.search(r"\.\d", _NUMBERED.sub("", name)) for name in parameters) else ()


def thaw_any(run: Interpreter) -> None:
    """Something that is not known is told to require grad: any leaf that does not may be it."""
    for obj in run.objects:
        leaves = [obj.cells.get("leaf"), *(v.leaf for v in obj.attrs.values() if isinstance(v, Tensor))]
        for leaf in leaves:
            if isinstance(leaf, Leaf) and leaf.cells.get("requires_grad") is False:
                run.state.set(leaf.cells, "requires_grad", None)


def uncertain_leaves(run: Interpreter, obj: Object) -> set[Leaf]:
    """Parameters that a module may have or not: it has one of several."""
    found: set[Leaf] = set()
    for module in submodules(run, obj):
        for child in registered(run, module):
            if isinstance(child, Tensor) and child.leaf is None:
                found.update(possible_leaves(child))
            elif isinstance(child, Union):
                for option in child.options:
                    found.update(leaves_of(run, option)[0])
    return found


APPLY_LIMIT = 32  # modules for which the function that `apply` was given is followed
HOLDS = frozenset({"items", "members", "each", "mapping"})  # cells with what is registered without a name


def registered(run: Interpreter, obj: Object) -> list[Value]:
    """The child modules, own parameters, and unknown members of a module."""
    if not obj.attrs and HOLDS.isdisjoint(obj.cells):
        return []  # most layers of torch
    found: list[Value] = []
    for value in obj.attrs.values():
        kind = type(value)
        if (
            (kind is Object and is_module(value))
            or (kind is Tensor and any(leaf.kind in ("parameter", "weights") for leaf in possible_leaves(value)))  # type: ignore[arg-type]
            or (kind is Union and any(is_module(o) for o in value.options))  # type: ignore[union-attr]
            or kind is Unknown
        ):
            found.append(value)  # type: ignore[arg-type]
    items = obj.cells.get("items")
    if isinstance(items, tuple):
        found += [i for i in items if isinstance(i, (Object, Tensor, Unknown, Union))]
    elif isinstance(obj.cells.get("members"), tuple):
        found += obj.cells["members"]  # type: ignore[arg-type]
    elif "each" in obj.cells:
        each = obj.cells["each"]
        if isinstance(each, Value):
            found.append(each)
    mapping = obj.cells.get("mapping")
    if isinstance(mapping, Mapping):
        found += [v for v in mapping.cells.values() if isinstance(v, (Object, Tensor, Unknown, Union))]
    return found


def submodules(run: Interpreter, obj: Object) -> list[Object]:
    """The module and everything registered below it."""
    found: dict[int, Object] = {}
    _below(run, obj, found)
    return list(found.values())


def _below(run: Interpreter, obj: Object, found: dict[int, Object]) -> None:
    if id(obj) in found:
        return
    found[id(obj)] = obj
    for child in registered(run, obj):
        for option in child.options if isinstance(child, Union) else (child,):
            if isinstance(option, Object) and is_module(option):
                _below(run, option, found)


def parameters_of(run: Interpreter, owner: Object, named: bool, place: Place | None) -> Parameters:
    leaves, exact = leaves_of(run, owner)
    return Parameters(owner, named, tuple(leaves), exact, place)


# ---------------------------------------------------------------- attributes and methods


def library_attribute(run: Interpreter, obj: Object, name: str, e: ir.Attr) -> Value | None:
    """An attribute that torch's class gives to its instances; None if it gives none."""
    place = run.place(e.at)
    cls = library_class(obj)
    if is_module(obj):
        if name in ("weight", "bias") and isinstance(obj.cells.get("leaf"), Leaf):
            leaf = obj.cells["leaf"]
            assert isinstance(leaf, Leaf)
            info = torchlib.module(cls)
            whole = info is not None and len(info.parameters) == 1
            return Tensor(leaf=leaf, node=leaf.node, dtype=FLOAT, storage=leaf.storage, tag="" if whole else "part")
        if name == "_parameters":
            take_apart(run, obj)  # whoever looks there may take a parameter out
        if name in _replacing.MEMBERS:
            return _replacing.members_of(obj, name)
        if name == "training":
            training = obj.cells.get("training")
            return Const(training) if isinstance(training, bool) else UNKNOWN
        if isinstance(obj.cells.get("mapping"), Mapping) and name in (
            "keys",
            "values",
            "items",
            "update",
            "pop",
            "get",
        ):
            return Method(obj.cells["mapping"], name)  # type: ignore[arg-type]
        if name in MODULE_METHODS or (name == "update_parameters" and cls == AVERAGED):
            return Method(obj, name)
        member = named_member(run, obj, name)
        if member is not None:
            return member
        if isinstance(obj.cls, Class) and obj.cls.open:
            return UNKNOWN
        return None
    if cls.startswith("torch.") or isinstance(obj.cls, External):
        return _training.object_attribute(run, obj, name, place)
    return None


def named_member(run: Interpreter, obj: Object, name: str) -> Value | None:
    """What a container of torch registers under a name: `self.layers.first` is `self.layers["first"]`."""
    mapping = obj.cells.get("mapping")
    if isinstance(mapping, Mapping) and not name.startswith("_"):
        found = _objects.get_item(run, mapping, Const(name), None)  # type: ignore[arg-type]
        return None if isinstance(found, Unknown) else found
    return named_item(obj, name)


def set_named_member(run: Interpreter, obj: Object, name: str, value: Value) -> bool:
    """`self.layers.first = module`: a container registers it among the others; false where that is no container of torch."""
    if library_class(obj) == "torch.nn.ParameterDict":
        registered_there = isinstance(value, Tensor) and value.leaf is not None and value.leaf.kind != "tensor"
    else:
        registered_there = is_module(value) and library_class(obj) != "torch.nn.ParameterList"
    if not registered_there:
        return False
    mapping, items = obj.cells.get("mapping"), obj.cells.get("items")
    if isinstance(mapping, Mapping):
        run.state.set(mapping.cells, ("key", name), value)
        return True
    if not isinstance(items, tuple) or run.frame.repeating:
        return False
    keys = obj.cells.get("keys", tuple(map(str, range(len(items)))))
    if not isinstance(keys, tuple) or len(keys) != len(items):
        return False
    if name in keys:
        at = keys.index(name)
        run.state.set(obj.cells, "items", (*items[:at], value, *items[at + 1 :]))
    else:
        run.state.set(obj.cells, "items", (*items, value))
        run.state.set(obj.cells, "keys", (*keys, name))
    return True


def drop_named_member(run: Interpreter, obj: Object, name: str) -> None:
    """`del self.layers.first`"""
    mapping, keys, items = (obj.cells.get(cell) for cell in ("mapping", "keys", "items"))
    if isinstance(mapping, Mapping) and ("key", name) in mapping.cells:
        run.state.delete(mapping.cells, ("key", name))
    elif isinstance(keys, tuple) and isinstance(items, tuple) and name in keys and len(keys) == len(items):
        at = keys.index(name)
        run.state.set(obj.cells, "items", (*items[:at], *items[at + 1 :]))
        run.state.set(obj.cells, "keys", (*keys[:at], *keys[at + 1 :]))


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
        return _grow(run, obj, name, args, place, e)
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
            mapping = Mapping({"rest": Tensor(tag="state", dtype=FLOAT)}, place, complete=False)
            mapping.cells["of"] = frozenset({StateOf(obj, place)})
            called(run, place, "Module.state_dict", args, obj, mapping)
            return mapping
        return UNKNOWN
    if name == "load_state_dict":
        if place is not None:
            called(run, place, "Module.load_state_dict", args, obj)
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


def called(run: Interpreter, place: Place, name: str, args: Args, owner: Value, result: Value = NONE) -> None:
    run.record(
        events.Called(
            place, run.stack, name, tuple(args.positional), dict(args.keywords), result, owner, args,
            run.state.mode, run.frame.instance, len(run.frame.loops), run.frame.branches == 0,
        )
    )  # fmt: skip


def set_flags(run: Interpreter, leaves: list[Leaf] | tuple[Leaf, ...], value: bool | None, sure: bool = True) -> None:
    """`requires_grad` of leaves; not `sure`: of some of them."""
    for leaf in leaves:
        new = value if sure or leaf.cells.get("requires_grad") is value else None
        run.state.set(leaf.cells, "requires_grad", new)


def _grow(run: Interpreter, obj: Object, name: str, args: Args, place: Place | None, e: ir.Call | None = None) -> Value:
    values = list(args.positional)
    if place is not None and values:
        run.record(events.Registered(place, run.stack, obj, values[-1]))
    if name in ("add_module", "register_module"):
        if len(values) != 2:
            return NONE
        known = isinstance(values[0], Const)
        if known and set_named_member(run, obj, str(values[0].value), values[1]):  # type: ignore[attr-defined]
            return NONE
        if "items" not in obj.cells:
            run.state.set(obj.attrs, values[0].value if known else f"[{place.start if place else 0}]", values[1])  # type: ignore[attr-defined]
            if not known:
                if e is None or not _python.is_new(run, obj, e.args[0] if e.args else None):
                    _replacing.put_unnamed(run, obj, values[1])
                run.state.set(obj.cells, "dynamic", True)
            return NONE
        items = obj.cells.get("items")
        if isinstance(items, tuple):
            keys = obj.cells.get("keys", tuple(map(str, range(len(items)))))
            known = isinstance(keys, tuple) and len(values) == 2 and isinstance(values[0], Const)
            run.state.set(obj.cells, "keys", (*keys, values[0].value) if known else None)  # type: ignore[attr-defined,misc]
        name = "append"
    items = obj.cells.get("items", ())
    new = values[-1:] if name != "extend" else None
    new_each: Value = UNKNOWN
    if name == "extend" and values:
        found = iterate(run, values[0], None)
        new = found.items
        if new is None:
            new_each = found.each
    if new is not None and isinstance(items, tuple) and not run.frame.repeating:
        run.state.set(obj.cells, "items", (*items, *new))
        return obj
    remember(run, obj.cells, new)
    each = join_all(new) if new else new_each if new is None else UNKNOWN
    old = element(Sequence("list", obj.cells)) if items != () else None
    run.state.set(
        obj.cells, "each", each if old is None or (isinstance(old, Unknown) and items == ()) else join(old, each)
    )
    run.state.set(obj.cells, "items", None)
    return obj


def iterate_object(run: Interpreter, obj: Object) -> Items | None:
    cls = library_class(obj)
    if "items" in obj.cells:
        items = obj.cells["items"]
        if isinstance(items, tuple):
            return Items(join_all(items) if items else UNKNOWN, list(items))  # type: ignore[arg-type]
        return Items(obj.cells.get("each", UNKNOWN))  # type: ignore[arg-type]
    if "mapping" in obj.cells:
        return iterate(run, obj.cells["mapping"], None)  # type: ignore[arg-type]
    if cls.startswith("torch.utils.data."):
        run.record(events.Iterated(run.place_now(), run.stack, obj))
        return Items(_training.data_of(run, obj))
    return None


def module_item(run: Interpreter, obj: Object, index: Value) -> Value | None:
    if "items" in obj.cells:
        return _objects.get_item(run, Sequence("list", obj.cells), index, None)  # type: ignore[arg-type]
    if "mapping" in obj.cells:
        return _objects.get_item(run, obj.cells["mapping"], index, None)  # type: ignore[arg-type]
    if library_class(obj).startswith("torch.utils.data."):
        return _training.data_of(run, obj)
    return None


def set_module_item(run: Interpreter, obj: Object, index: Value, value: Value, place: Place) -> None:
    run.record(events.Registered(place, run.stack, obj, value))
    mapping = obj.cells.get("mapping")
    if isinstance(mapping, Mapping):
        if isinstance(index, Const):
            run.state.set(mapping.cells, ("key", index.value), value)
        else:
            old = mapping.cells.get("rest")
            run.state.set(mapping.cells, "rest", value if old is None else join(old, value))
    elif "items" in obj.cells:
        items = obj.cells["items"]
        if (
            isinstance(items, tuple)
            and isinstance(index, Const)
            and isinstance(index.value, int)
            and -len(items) <= index.value < len(items)
        ):
            changed = list(items)
            changed[index.value] = value
            run.state.set(obj.cells, "items", tuple(changed))
        else:
            _replacing.loosen(run, obj)


# ---------------------------------------------------------------- calling


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
from . import calls as _calls  # noqa: E402
from . import hooks as _hooks  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import python as _python  # noqa: E402
from . import replacing as _replacing  # noqa: E402
from . import training as _training  # noqa: E402

__all__ = [
    "MODULE",
    "Node",
    "ParameterOf",
    "Super",
    "call_module",
    "call_module_method",
    "leaves_of",
    "make_module",
    "parameters_of",
]
