"""What is no longer known of modules after something was put into one of them, and it is not known where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    UNKNOWN,
    Class,
    Const,
    Function,
    Mapping,
    Method,
    Number,
    Object,
    Partial,
    Range,
    Sequence,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    alternatives,
    join_all,
)
from .frames import Args
from .objects import is_module
from .operations import possible_leaves

if TYPE_CHECKING:
    from .interp import Interpreter

# The dicts in which a module keeps what is registered, and the one in which an object keeps everything.
MEMBERS = frozenset({"_modules", "_parameters", "__dict__"})


def perhaps(value: object, other: Value = UNKNOWN) -> Union:
    """A value, or another one in its place. The first stays among those that it may be, with its parameters."""
    options = value.options if isinstance(value, Union) else (value,)
    extra = tuple(o for o in (other, UNKNOWN) if not any(o is known for known in options))
    return Union((*options, *dict.fromkeys(extra)))  # type: ignore[arg-type]


def is_part(value: object) -> bool:
    """Whether a value is, or may be, a module or a parameter."""
    if isinstance(value, Union):
        return any(is_part(option) for option in value.options)
    if isinstance(value, Tensor):
        return any(leaf.kind != "tensor" for leaf in possible_leaves(value)) or (
            not value.certain and value.leaf is None and value.node is None
        )
    return is_module(value)


def changes(value: object) -> bool:
    """Whether a module in which this is put may train, or compute, something else than before."""
    if isinstance(value, Union):
        return any(changes(option) for option in value.options)
    return is_part(value) or isinstance(value, (Function, Partial, Class))


def loosen(run: Interpreter, obj: Object) -> None:
    """Something was put into a module under a name that is not known: it may stand where any of its members was."""
    state, cells = run.state, obj.cells
    for name, value in list(obj.attrs.items()):
        if is_part(value) or name == "forward" or (isinstance(value, Const) and value.value is None):
            state.set(obj.attrs, name, perhaps(value))
    state.set(cells, "dynamic", True)
    state.set(cells, "loose", True)
    mapping = cells.get("mapping")
    if "items" in cells:
        items, known = cells["items"], cells.get("members")
        before = items if isinstance(items, tuple) else known if isinstance(known, tuple) else (cells.get("each"),)
        state.set(cells, "members", (*(v for v in before if isinstance(v, Value)), UNKNOWN))
        state.set(cells, "each", UNKNOWN)
        state.set(cells, "items", None)
    elif isinstance(mapping, Mapping):
        for key, value in list(mapping.cells.items()):
            if isinstance(value, Value):
                state.set(mapping.cells, key, perhaps(value))
        state.set(mapping.cells, "rest", UNKNOWN)


def put(run: Interpreter, owner: Object, name: str, value: Value) -> None:
    """One of several modules, and it is not known which, got this for a member of that name."""
    if name == "__class__":
        run.state.set(owner.attrs, "forward", perhaps(owner.attrs.get("forward", UNKNOWN)))
        loosen(run, owner)
        return
    old = owner.attrs.get(name)
    if isinstance(old, Value):
        run.state.set(owner.attrs, name, perhaps(old, value))
    elif name == "forward" or is_part(value) or isinstance(value, Unknown):
        run.state.set(owner.attrs, name, perhaps(value))
    else:
        run.state.set(owner.attrs, name, value)
    if is_part(value):
        run.state.set(owner.cells, "dynamic", True)
    if (name in ("weight", "bias") and "leaf" in owner.cells) or (name.isdigit() and "items" in owner.cells):
        loosen(run, owner)


def somewhere(run: Interpreter, name: str | None, value: Value) -> None:
    """Something got a member of that name (None: of one that is not known), and it may be any module of the program."""
    open_name = name in (None, "forward", "__class__")
    if not changes(value) and not (open_name and isinstance(value, Unknown)):
        return
    for obj in run.objects:
        if not is_module(obj):
            continue
        if name is None:
            loosen(run, obj)
            if not is_part(value):
                put(run, obj, "forward", value)
        elif name in obj.attrs or name in ("forward", "__class__", "weight", "bias") or name.isdigit():
            put(run, obj, name, value)
        elif is_part(value):
            run.state.set(obj.cells, "dynamic", True)


def put_unnamed(run: Interpreter, owner: Value, value: Value) -> None:
    """`setattr(owner, name, value)` where the name is not known."""
    if isinstance(owner, Unknown):
        somewhere(run, None, value)
    if not changes(value) and not isinstance(value, Unknown):
        return
    for option in alternatives(owner):
        if is_module(option):
            loosen(run, option)  # type: ignore[arg-type]
            if not is_part(value) and not isinstance(value, Unknown):
                put(run, option, "forward", value)  # type: ignore[arg-type]


def unseen(run: Interpreter, value: Value) -> None:
    """A module, with all below it, was given to project code that is not followed."""
    for option in alternatives(value):
        if is_module(option):
            for module in _modules.submodules(run, option):  # type: ignore[arg-type]
                loosen(run, module)


# ---------------------------------------------------------------- members by their names


def below(run: Interpreter, obj: Object, path: Value) -> Value:
    """`module.get_submodule("encoder.0")`"""
    if not isinstance(path, Const) or not isinstance(path.value, str):
        return join_all(_modules.submodules(run, obj))
    found: Value = obj
    for name in path.value.split(".") if path.value else ():
        if not isinstance(found, Object):
            return UNKNOWN
        found = child(run, found, name)
    return found


def child(run: Interpreter, obj: Object, name: str) -> Value:
    """A member of a module."""
    items, mapping = obj.cells.get("items"), obj.cells.get("mapping")
    if isinstance(items, tuple) and name.isdigit() and int(name) < len(items):
        return items[int(name)]
    found = mapping.cells.get(("key", name)) if isinstance(mapping, Mapping) else obj.attrs.get(name)
    return found if isinstance(found, Value) else UNKNOWN


def put_below(run: Interpreter, obj: Object, args: Args, e: ir.Call | None) -> None:
    """`module.set_submodule("encoder.0", layer)`"""
    path, value = args.get(0, "target", UNKNOWN) or UNKNOWN, args.get(1, "module", UNKNOWN) or UNKNOWN
    if not isinstance(path, Const) or not isinstance(path.value, str):
        for module in _modules.submodules(run, obj):
            loosen(run, module)
        return
    parent, _, name = path.value.rpartition(".")
    _objects.set_attribute(
        run, below(run, obj, Const(parent)), name, value, ir.Attr(e.at if e else 0, ir.Const(0, None), name)
    )


# ---------------------------------------------------------------- the dicts of a module


def members_of(owner: Value, name: str) -> Method | None:
    """`module._modules`, `vars(module)`: a dict whose items are the members of a module, or of what may be one."""
    return Method(owner, name) if name in MEMBERS and (is_module(owner) or isinstance(owner, Unknown)) else None


def get_item(run: Interpreter, members: Method, index: Value) -> Value:
    if not isinstance(index, Const) or not isinstance(index.value, str) or not isinstance(members.owner, Object):
        return UNKNOWN
    return members_of(members.owner, index.value) or child(run, members.owner, index.value)


def set_item(run: Interpreter, owner: Value, index: Value, value: Value, target: ir.Sub) -> None:
    """`module._modules[name] = layer`, `parent[int(name)] = layer`, where it may be any module."""
    known = index.value if isinstance(index, Const) else None
    if isinstance(owner, Union):
        for option in owner.options:
            if isinstance(option, Method):
                set_item(run, option, UNKNOWN, value, target)
            elif is_module(option) and not {"items", "mapping"}.isdisjoint(option.cells):  # type: ignore[union-attr]
                loosen(run, option)  # type: ignore[arg-type]
    elif isinstance(owner, Method) and owner.name in MEMBERS:
        if isinstance(known, str):
            _objects.set_attribute(run, owner.owner, known, value, ir.Attr(target.at, target.value, known))
        else:
            put_unnamed(run, owner.owner, value)
    elif isinstance(owner, Unknown):
        if isinstance(target.value, ir.Attr) and target.value.name in MEMBERS:
            somewhere(run, known if isinstance(known, str) else None, value)
        elif is_part(value):
            cell = "items" if isinstance(index, Number) or isinstance(known, int) else "mapping"
            cells = (cell,) if isinstance(index, (Const, Number, Text)) else ("items", "mapping")
            for obj in run.objects:
                if is_module(obj) and any(one in obj.cells for one in cells):
                    loosen(run, obj)


def delete(run: Interpreter, owner: Value) -> None:
    """`del module._modules[name]`"""
    if isinstance(owner, Method) and owner.name in MEMBERS and isinstance(owner.owner, Object):
        loosen(run, owner.owner)


def call_members(run: Interpreter, members: Method, name: str, args: Args) -> Value:
    """A method of such a dict."""
    obj = members.owner
    if not isinstance(obj, Object):
        if name in WRITES:
            put_unnamed(run, obj, UNKNOWN)
        return UNKNOWN
    if name in ("items", "values", "keys"):
        if members.name != "_modules" or name == "keys":
            return Range(UNKNOWN if name != "keys" else Text())
        found = [c for c in _modules.registered(run, obj) if isinstance(c, Object)]
        shown: list[Value] = [Sequence("tuple", {"items": (Text(), o)}) if name == "items" else o for o in found]
        if found and _modules.leaves_of(run, obj)[1]:
            return Sequence("generator", {"items": tuple(shown)})
        return Range(UNKNOWN)
    if name == "get":
        return get_item(run, members, args.get(0, "key", UNKNOWN) or UNKNOWN)
    if name in WRITES:
        for value in args.all():
            _calls.escape(run, value)
        loosen(run, obj)
    return UNKNOWN


WRITES = frozenset({"update", "__setitem__", "setdefault", "pop", "clear", "popitem"})
HOOKS = frozenset({"register_forward_hook", "register_forward_pre_hook"})
PUT = {"add_module": True, "register_module": True, "register_parameter": True, "__setattr__": True,
       "set_submodule": False}  # fmt: skip


def _given(method: str, args: Args) -> tuple[str | None, Value]:
    """What one of the methods `PUT` puts into a module, and under which name; None: that is not known."""
    key = args.positional[0] if args.positional and PUT[method] else UNKNOWN
    value = args.positional[1] if len(args.positional) > 1 else UNKNOWN
    return key.value if isinstance(key, Const) and isinstance(key.value, str) else None, value


def unknown_method(run: Interpreter, name: str, args: Args) -> None:
    """A method of something that is not known, which may be a module."""
    if name in PUT:
        somewhere(run, *_given(name, args))
    elif name in ("append", "extend", "insert") and any(is_part(value) for value in args.positional):
        for obj in run.objects:
            if is_module(obj) and "items" in obj.cells:
                loosen(run, obj)
    elif name in HOOKS and _may_return(args.positional[0] if args.positional else UNKNOWN):
        somewhere(run, "forward", UNKNOWN)


def anything(run: Interpreter) -> None:
    """Code that is a text runs: it may put something into any module, and thaw and train what it likes."""
    for obj in run.objects:
        if is_module(obj):
            put(run, obj, "forward", UNKNOWN)
            loosen(run, obj)
    _modules.thaw_any(run)
    _training.unknown_backward(run)


def of_several(run: Interpreter, func: Union, args: Args) -> Value | None:
    """A method that puts something into one of several modules; None: it is another one."""
    methods = [m for m in func.options if isinstance(m, Method)]
    name = methods[0].name if methods else ""
    if (name not in PUT and name not in HOOKS) or any(m.name != name for m in methods):
        return None
    for method in methods:
        owner = method.owner
        if not is_module(owner):
            unknown_method(run, name, args)
        elif name in HOOKS:
            if _may_return(args.positional[0] if args.positional else UNKNOWN):
                put(run, owner, "forward", UNKNOWN)  # type: ignore[arg-type]
        else:
            known, value = _given(name, args)
            if known is not None:
                put(run, owner, known, value)  # type: ignore[arg-type]
            else:
                put_unnamed(run, owner, value)
    return UNKNOWN


def _may_return(hook: Value) -> bool:
    """Whether a hook may change what comes out of a module (or goes in)."""
    from .custom import returns

    if isinstance(hook, Function) and isinstance(hook.code, ir.Def):
        found = list(returns(hook.code.body, hook))
        return any(s.value is not None and not (isinstance(s.value, ir.Const) and s.value.value is None) for s in found)
    return True


def method_type(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`types.MethodType(function, module)`"""
    if len(args.positional) == 2 and isinstance(args.positional[0], Function):
        return _objects.bound(args.positional[0], args.positional[1])
    for value in args.all():
        _calls.escape(run, value)
    return UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import training as _training  # noqa: E402
