"""Members of a module, by attribute, name or index: read, set, put in the place of others, taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    FLOAT,
    NONE,
    UNKNOWN,
    Class,
    Const,
    External,
    Leaf,
    Mapping,
    Method,
    Object,
    Sequence,
    Tensor,
    Unknown,
    Value,
    element,
    join,
    join_all,
)
from ...findings import Place
from .. import events
from ..frames import Args
from ..objects import AVERAGED, MODULE_METHODS, is_module, remember
from ..operations import possible_leaves
from ..python.iteration import Items, iterate
from .classes import library_class

if TYPE_CHECKING:
    from ..interp import Interpreter


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
        run.state.put(vars(value.leaf), "label", name)


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
        run.state.put(leaf.cells, "taken-apart", True)


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
            run.state.put(leaf.cells, "kept-by-hand", True)
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


def named_item(obj: Object, name: str) -> Value | None:
    """A layer of a Sequential by the name that it has in it: `model.head` of `Sequential(OrderedDict(head=...))`."""
    items, keys = obj.cells.get("items"), obj.cells.get("keys")
    if isinstance(items, tuple) and isinstance(keys, tuple) and len(keys) == len(items) and name in keys:
        return items[keys.index(name)]  # type: ignore[no-any-return]
    return None


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


def grow(run: Interpreter, obj: Object, name: str, args: Args, place: Place | None, e: ir.Call | None = None) -> Value:
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


# The parts of the interpreter know each other: these come when this one is complete.
from .. import objects as _objects  # noqa: E402
from .. import python as _python  # noqa: E402
from .. import replacing as _replacing  # noqa: E402
from .. import training as _training  # noqa: E402
