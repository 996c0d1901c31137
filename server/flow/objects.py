"""Attributes, items, classes and instances: what `a.b`, `a[b]` and `class A(B)` mean."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

from .. import ir
from ..facts import (
    FOREIGN,
    NONE,
    UNKNOWN,
    Array,
    Class,
    Const,
    Context,
    External,
    Function,
    GradOf,
    Mapping,
    Member,
    Method,
    ModuleValue,
    Number,
    Object,
    ParameterOf,
    Range,
    Scope,
    Sequence,
    Storage,
    Super,
    Surely,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Wrapped,
    alternatives,
    element,
    join,
    join_all,
)
from ..findings import Place
from ..torchlib import NAMES, canonical, module
from . import events, scopes
from .frames import Args, Frame
from .operations import as_tensor, graph_of

if TYPE_CHECKING:
    from .interp import Interpreter

T = TypeVar("T")

MODULE = "torch.nn.Module"
# What instances of `nn.Module` have from torch, whatever their class.
MODULE_METHODS = frozenset(
    (
        "parameters named_parameters buffers named_buffers children named_children modules named_modules train eval "
        "zero_grad requires_grad_ to cuda cpu float double half bfloat16 type state_dict load_state_dict apply "
        "register_buffer register_parameter add_module register_module set_submodule __setattr__ register_forward_hook "
        "register_forward_pre_hook register_full_backward_hook register_backward_hook register_comm_hook get_submodule "
        "get_parameter forward append extend insert share_memory to_empty compile no_sync extra_repr __call__ flatten_parameters "
        "ipu xpu keys values items reset_parameters __init__"
    ).split()
)

AVERAGED = "torch.optim.swa_utils.AveragedModel"  # a wrapper around a copy of its own
WRAPPERS = frozenset(
    {"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.DataParallel", AVERAGED}
)


# ---------------------------------------------------------------- classes


def make_class(run: Interpreter, s: ir.Class) -> Value:
    """Run a class statement. The same statement gives the same class again (a loop or a second call)."""
    frame = run.frame
    place = run.place(s.name_at)
    bases = tuple(run.eval(base) for base in s.bases)
    for _, value in s.keywords:
        run.eval(value)
    frame.scope.capture()
    scope = Scope({}, frame.scope if frame.cls is None or frame.function is not None else frame.scope.up)
    cls = Class(s.name, place, frame.module, scope.names, bases)
    cls.mro = linearize(cls)
    cls.open = any(
        isinstance(b, (Unknown, Union)) or (isinstance(b, External) and foreign_base(b.name)) for b in cls.mro
    )
    inner = Frame(scope, frame.module, frame.unit, frame.base, cls=cls)
    run.frames.append(inner)
    try:
        run.run_body(s.body)
    finally:
        run.frames.pop()
    run.record(events.ClassMade(place, run.stack, cls))
    if cls.is_a("torch.autograd.Function"):
        from .custom import check_gradients

        check_gradients(run, cls)
    cls.decorators = tuple(run.eval(d) for d in s.decorators)
    for decorator in reversed(cls.decorators):
        # A registry of the same file is filled; one that other files fill too would be known in part.
        if isinstance(decorator, Function) and decorator.module is frame.module and frame.module.path in run.running:
            _calls.call(run, decorator, Args([cls], {}), None)
    return cls


def linearize(cls: Class) -> tuple[Value, ...]:
    """The method resolution order: Python's for trees, and depth first (last mention kept) for diamonds."""
    order: list[Value] = [cls]
    for base in cls.bases:
        for item in base.mro if isinstance(base, Class) else (base,):
            same = next((o for o in order if o is item or _same_external(o, item)), None)
            if same is not None:
                order.remove(same)
            order.append(item)
    return tuple(order)


def _same_external(a: Value, b: Value) -> bool:
    return isinstance(a, External) and isinstance(b, External) and a.name == b.name


KNOWN_BASES = ("torch.", "abc.", "typing.", "enum.", "dataclasses.", "collections.", "threading.", "object")


def foreign_base(name: str) -> bool:
    """A base class of a library whose methods and attributes are not modelled."""
    return not name.startswith(KNOWN_BASES)


def find(cls: Value, name: str, run: Interpreter, after: Class | None = None) -> tuple[Value, Class] | None:
    """The class attribute that instances of `cls` see, and the class that has it."""
    if not isinstance(cls, Class):
        return None
    mro = cls.mro
    if after is not None and after in mro:
        mro = mro[mro.index(after) + 1 :]
    for base in mro:
        if isinstance(base, Class):
            value = run.force(base.names, name)
            if value is not None:
                return value, base
        elif isinstance(base, External) and name in MODULE_METHODS and _is_module_base(base.name):
            return None  # torch's own comes before that of the classes behind it
    return None


def is_module(value: object) -> bool:
    """Whether a value is surely an `nn.Module`."""
    if type(value) is not Object:
        return False
    cls = value.cls
    if type(cls) is External:
        return _is_module_base(cls.name)
    if type(cls) is not Class:
        return False
    if cls.makes_modules is None and cls.mro:
        cls.makes_modules = any(isinstance(b, External) and _is_module_base(b.name) for b in cls.mro)
    return bool(cls.makes_modules)


@functools.lru_cache(NAMES)
def _is_module_base(name: str) -> bool:
    return name == MODULE or name in WRAPPERS or module(name) is not None


# ---------------------------------------------------------------- reading attributes


def get_attribute(run: Interpreter, value: Value, name: str, e: ir.Attr) -> Value:
    handler = READERS.get(type(value))
    if handler is not None:
        return handler(run, value, name, e)
    if isinstance(value, Unknown):
        return _replacing.members_of(value, name) or value
    if isinstance(value, Const) and value.value is None:
        run.record(events.NoneUsed(run.place(e.at), run.stack, name, value.made, "value"))
        return UNKNOWN
    if isinstance(value, Const) and isinstance(value.value, Member):
        return Const(value.value.name) if name == "name" else UNKNOWN
    return Method(value, name)


def read_object(run: Interpreter, obj: Object, name: str, e: ir.Attr) -> Value:
    found = obj.attrs.get(name)
    if isinstance(found, Value):
        if isinstance(found, Const) and found.value is None and late_attribute(run, obj, name):
            return UNKNOWN
        if name == "module" and isinstance(obj.cls, External) and is_module(found):
            run.record(events.Unwrapped(run.place(e.at), run.stack, obj))
        several = run.notes.get("drawn")
        return drawn(run, found) if several and obj in several else found  # type: ignore[operator]
    member = find(obj.cls, name, run)
    if member is not None:
        return bind_member(run, obj, member[0], e)
    library = _modules.library_attribute(run, obj, name, e)
    if library is not None:
        return library
    return UNKNOWN


def late_attribute(run: Interpreter, obj: Object, name: str) -> bool:
    """In a method that is judged alone, an attribute that `__init__` left None may have been set by now."""
    return bool(obj.cells.get("standalone"))


def tuple_fields(obj: Object) -> list[Value] | None:
    """The members of a named tuple in order; None if the object is none."""
    if not isinstance(obj.cls, Class) or not obj.cls.is_a("typing.NamedTuple"):
        return None
    return [obj.attrs.get(name, UNKNOWN) for name, _ in obj.cls.fields]  # type: ignore[misc]


def bind_member(run: Interpreter, owner: Value, member: Value, e: ir.Attr | None) -> Value:
    """What a class attribute becomes when it is read through an instance."""
    if isinstance(member, Function):
        return bound(member, owner)
    if isinstance(member, Wrapped):
        if member.kind == "property":
            function = member.function
            if isinstance(function, Function):
                return _calls.call_function(run, bound(function, owner), Args([], {}), e)
            return UNKNOWN
        if member.kind == "classmethod" and isinstance(member.function, Function):
            return bound(member.function, owner.cls if isinstance(owner, Object) else owner)
        return member.function
    return member


def bound(function: Function, owner: Value) -> Function:
    function.copied = True
    return Function(
        function.code, function.unit, function.base, function.module, function.closure, function.owner, owner,
        function.decorators, function.defaults,
    )  # fmt: skip


def read_class(run: Interpreter, cls: Class, name: str, e: ir.Attr) -> Value:
    member = find(cls, name, run)
    if member is None:
        if name in ("__name__", "__qualname__", "__module__", "__doc__"):
            return Text()
        base = next((b for b in cls.mro if isinstance(b, External) and b.name.startswith("torch.")), None)
        if name == "apply" and base is not None and base.name == "torch.autograd.Function":
            return Method(cls, name)
        if base is not None:
            return External(f"{base.name}.{name}")
        return UNKNOWN
    value = member[0]
    if isinstance(value, (Const, Sequence, Number, Text)) and any(
        isinstance(b, External) and b.name == "enum.Enum" for b in cls.bases
    ):
        return Const(Member(id(member[1]), name))
    if isinstance(value, Wrapped):
        return (
            bound(value.function, cls)
            if value.kind == "classmethod" and isinstance(value.function, Function)
            else value.function
        )
    return value


def read_external(run: Interpreter, value: External, name: str, e: ir.Attr) -> Value:
    full = f"{value.name}.{name}"
    return External(canonical(full) if full.startswith("torch.") else full)


def read_module(run: Interpreter, value: ModuleValue, name: str, e: ir.Attr) -> Value:
    return scopes.attribute(run, value.module, name, e.at)


def read_union(run: Interpreter, value: Union, name: str, e: ir.Attr) -> Value:
    found = [(option, get_attribute(run, option, name, e)) for option in value.options]
    # Whoever goes on from here has not read an attribute of None.
    values = [v for o, v in found if not (isinstance(o, Const) and o.value is None)] or [v for _, v in found]
    if any(isinstance(v, (Method, Function)) for v in values) and any(isinstance(v, Unknown) for v in values):
        return Union(tuple(dict.fromkeys(values)))  # what is known of them happens to those that it may be
    return join_all(values)


def read_super(run: Interpreter, value: Super, name: str, e: ir.Attr) -> Value:
    instance = value.instance
    cls = instance.cls if isinstance(instance, Object) else instance
    member = find(cls, name, run, after=value.after)
    if member is not None:
        return bind_member(run, instance, member[0], e)
    return Method(value, name)


def read_tensor(run: Interpreter, value: Tensor, name: str, e: ir.Attr) -> Value:
    return _tensors.tensor_attribute(run, value, name, e)


def read_parameter_of(run: Interpreter, value: ParameterOf, name: str, e: ir.Attr) -> Value:
    if name == "grad":
        for leaf in value.leaves:
            run.state.put(leaf.cells, "grad-read", True)
            _tensors.read_at(run, leaf, run.place(e.at))
        return GradOf(value.leaves, value)
    if name == "requires_grad":
        flags = {leaf.cells.get("requires_grad") for leaf in value.leaves}
        return Const(flags.pop()) if len(flags) == 1 and flags != {None} else UNKNOWN
    if name == "data":
        cuts = _tensors.data_of(run, value.leaves, run.place(e.at))
        return Tensor(None, cuts, tag="data-of-leaf", storage=Storage({"of": value.leaves}))
    tensor = as_tensor(value)
    if name in ("shape", "dtype", "device", "is_leaf"):
        return _tensors.tensor_attribute(run, tensor, name, e)
    return Method(value, name)


def read_grad(run: Interpreter, value: GradOf, name: str, e: ir.Attr) -> Value:
    return _training.grad_attribute(run, value, name, e)


def read_range(run: Interpreter, value: Range, name: str, e: ir.Attr) -> Value:
    return Method(value, name)


def read_function(run: Interpreter, value: Function, name: str, e: ir.Attr) -> Value:
    return Text() if name in ("__name__", "__doc__", "__qualname__") else Method(value, name)


# The fields of torch's named tuples, and which member each is.
FIELDS = {"values": 0, "indices": 1, "output": 0, "loss": 1, "U": 0, "S": 1, "Vh": 2, "Q": 0, "R": 1, "eigenvalues": 0,
          "eigenvectors": 1, "sign": 0, "logabsdet": 1}  # fmt: skip


def read_sequence(run: Interpreter, value: Sequence, name: str, e: ir.Attr) -> Value:
    """`torch.max(x, dim).values`: the fields of torch's named tuples."""
    items = value.cells.get("items")
    if value.kind == "tuple" and name not in ("count", "index"):
        index = FIELDS.get(name)
        known = index is not None and isinstance(items, tuple) and index < len(items) <= 3
        return items[index] if known else UNKNOWN  # type: ignore[index]
    return Method(value, name)


def read_context(run: Interpreter, value: Context, name: str, e: ir.Attr) -> Value:
    return Method(value, name) if name in ("__enter__", "__exit__") else UNKNOWN


def read_wrapped(run: Interpreter, value: Wrapped, name: str, e: ir.Attr) -> Value:
    return External(f"builtins.property.{name}") if name in ("setter", "deleter", "getter") else UNKNOWN


READERS = {
    Object: read_object,
    Class: read_class,
    External: read_external,
    ModuleValue: read_module,
    Union: read_union,
    Super: read_super,
    Tensor: read_tensor,
    ParameterOf: read_parameter_of,
    GradOf: read_grad,
    Range: read_range,
    Function: read_function,
    Wrapped: read_wrapped,
    Sequence: read_sequence,
    Context: read_context,
}


def super_of(run: Interpreter, args: list[Value]) -> Value:
    """`super()` or `super(Class, self)` in a method."""
    frame = next((f for f in reversed(run.frames) if f.function is not None and f.function.owner is not None), None)
    if len(args) == 2 and isinstance(args[0], Class):
        return Super(args[1], args[0])
    if frame is None or frame.function is None or frame.function.owner is None:
        return UNKNOWN
    instance = frame.function.bound
    if instance is None and frame.function.code.params:  # `Base.__init__(self, ...)`
        given = frame.scope.names.get(frame.function.code.params[0].name)
        instance = given if isinstance(given, (Object, Class)) else None
    return UNKNOWN if instance is None else Super(instance, frame.function.owner)


# ---------------------------------------------------------------- writing attributes


def set_attribute(run: Interpreter, owner: Value, name: str, value: Value, target: ir.Attr) -> None:
    place = run.place(target.at)
    if isinstance(owner, Object):
        member = find(owner.cls, name, run)
        if member is not None and isinstance(member[0], Wrapped) and member[0].kind == "property":
            return
        running = run.frame.function
        own = running is not None and running.bound is owner
        run.record(
            events.Attribute(
                place, run.stack, owner, name, value, own, run.frame.instance, run.assigned, run.straight()
            )
        )
        if is_module(owner):
            if name == "__class__":
                _replacing.put(run, owner, name, value)
                return
            if name in _replacing.MEMBERS:
                _replacing.loosen(run, owner)
                return
            if _modules.replace_item(run, owner, name, value):
                return
            _modules.registers(run, owner, name, value, place)
            _modules.refuse_plain(run, owner, name, value, place)
            _modules.replace_weight(run, owner, name, value)
            if _modules.set_named_member(run, owner, name, value):
                return
        run.state.set(owner.attrs, name, value)
    elif isinstance(owner, (Tensor, ParameterOf, GradOf)):
        _training.set_tensor_attribute(run, owner, name, value, place, target)
    elif isinstance(owner, Union):
        for option in owner.options:
            if is_module(option):
                _replacing.put(run, option, name, value)  # type: ignore[arg-type]
            elif isinstance(option, Object):
                old = option.attrs.get(name, value)
                run.state.set(option.attrs, name, join(old, value))
    elif isinstance(owner, ModuleValue):
        run.state.set(scopes.open_module(run, owner.module).names, name, value)
    elif isinstance(owner, Class):
        run.state.set(owner.names, name, value)
    elif isinstance(owner, External):
        run.record(events.Attribute(place, run.stack, owner, name, value))
        if name in ("forward", "__call__"):
            run.state.set(run.state.shared, ("patched", owner.name), True)
    elif isinstance(owner, Super):
        set_attribute(run, owner.instance, name, value, target)
    elif isinstance(owner, Unknown) and name == "grad":
        _training.taint_all(run)  # the gradient of something: of which leaf is not known
    elif isinstance(owner, Unknown) and name == "requires_grad" and run.truth(value) is not False:
        _modules.thaw_any(run)
    elif isinstance(owner, Unknown) and name != "requires_grad":
        _replacing.somewhere(run, name, value)


def augment(run: Interpreter, s: ir.AugAssign) -> None:
    """`target op= value`: in place for tensors and lists, a new binding for the rest."""
    old = run.eval(s.target)
    value = run.eval(s.value)
    place = run.place(s.at)
    if isinstance(old, GradOf):
        _training.count_with_grad(run, old, f"{s.op}=", s.target, changed=True)
        _training.change_grad(run, old.leaves, decays=True)
        return
    if isinstance(old, Sequence) and s.op == "+":
        extend(run, old, value)
        return
    if s.op in ("+", "-"):
        _training.apply_by_hand(run, s.target, old, s.value, place)
    writes = isinstance(old, ParameterOf) or (isinstance(old, Tensor) and not old.opaque)
    writes = writes and s.op != "@"  # torch has no `@` in place: the name gets a new tensor
    if writes:
        new = _tensors.inplace_binary(run, s.op, old, value, s)
    else:
        new = _tensors.binary(run, s.op, old, value, ir.Bin(s.at, s.op, s.target, s.value))
    if s.op == "+" and isinstance(new, Tensor) and new.live:
        keep(run, value, "sum", new, run.place(s.value.at))
    if isinstance(s.target, ir.Name):
        if (writes and isinstance(old, Tensor)) or (isinstance(old, Array) and isinstance(new, Array)):
            _tensors.rebind(run, s.target, new, old)
        else:
            run.bind(s.target.id, new)
        if run.watch is not None:
            run.observe(s.target, new)
    elif isinstance(s.target, ir.Attr):
        owner = run.eval(s.target.value)
        if isinstance(owner, Object):
            run.state.set(owner.attrs, s.target.name, new)
            run.record(events.Attribute(place, run.stack, owner, s.target.name, new))
    elif isinstance(s.target, ir.Sub):
        owner = run.eval(s.target.value)
        if isinstance(owner, (Mapping, Sequence, Array)):
            set_item(run, owner, run.eval(s.target.index), new, s.target)


def keep(run: Interpreter, value: Value, how: str, container: Value, place: Place) -> None:
    """A value goes into a sum or a list that outlives it: record it if it brings a graph along, in a loop."""
    if not isinstance(value, Tensor) or not any(f.loops for f in run.frames):
        return
    if any(f.instance is not None for f in run.frames):
        return  # what a forward sums up or lists is its result
    node, sure = graph_of(value)
    if node is None or not sure or node.leaf is not None:
        return
    freed: dict[object, object] = run.notes.get("freed", {})  # type: ignore[assignment]
    kept = _training.walk(container.node if isinstance(container, Tensor) else node).nodes
    gone = next((freed[n] for n in kept if isinstance(freed.get(n), Place)), None)
    added = run.notes.setdefault("sums", {})
    before = added.get(place)  # type: ignore[attr-defined]
    carried = before is not None and before in kept
    if isinstance(container, Sequence):
        carried = container.cells.get("items") != ()  # something of an earlier turn is still in it
    if isinstance(container, Tensor) and container.node is not None:
        added[place] = container.node  # type: ignore[index]
    run.record(events.Kept(place, run.stack, value, how, container, gone, carried))  # type: ignore[arg-type]


def extend(run: Interpreter, target: Sequence, value: Value) -> None:
    """`target += value`, `target.extend(value)`"""
    found = _python.iterate(run, value, None)
    items = target.cells.get("items")
    if isinstance(items, tuple) and found.items is not None and not run.frame.repeating:
        run.state.set(target.cells, "items", items + tuple(found.items))
        return
    loosen(run, target, found.each, found.items)


# Values that are remembered one by one of a sequence whose length is not known: layers that a loop has appended.
MEMBERS_LIMIT = 64


def remember(run: Interpreter, cells: dict, values: list[Value] | tuple[Value, ...] | None) -> None:
    """Keep what was put into a sequence, one by one, while all of it is known."""
    items, known = cells.get("items"), cells.get("members")
    before = items if isinstance(items, tuple) else known
    if not isinstance(before, tuple) or values is None:
        run.state.set(cells, "members", None)
        return
    new = (*before, *(v for v in values if not any(v is b for b in before)))
    run.state.set(cells, "members", new if len(new) <= MEMBERS_LIMIT else None)


def loosen(run: Interpreter, target: Sequence, value: Value, values: list[Value] | None = None) -> None:
    """Add a value (or those that it stands for) to a sequence whose length is not known (any more)."""
    remember(run, target.cells, [value] if values is None else values)
    if target.cells.get("parts") is not None:
        run.state.set(target.cells, "parts", None)
    items = target.cells.get("items")
    if isinstance(items, tuple):
        each = join_all([*items, value]) if items else value
    else:
        old = target.cells.get("each")
        each = join(old, value) if old is not None else value
    run.state.set(target.cells, "each", each)
    run.state.set(target.cells, "items", None)


# ---------------------------------------------------------------- items


LAZY = -1  # in the place of the number of events before it was drawn
DRAWN_LIMIT = 64  # containers in what comes out of one: of more than these little is known anyway


def drawn(run: Interpreter, value: T, made: bool = False) -> T:
    """What came out of a container of which it is not known what is in it: each time it may be another one.

    A loop over such a list is passed twice with the same value; that its graph is walked twice may not be said.
    """
    draw(run, value, made)
    return value


def draw(run: Interpreter, value: object, made: bool = False) -> list[object]:
    """Remember that a value is one of many; gives what was not known to be. What stands for all of them is not marked:
    the sum over a list, a stack, what a comprehension makes of each.

    `made`: they are all there already, and none is made when it is asked for.
    """
    several: dict[object, int] = run.notes.setdefault("drawn", {})  # type: ignore[assignment]
    new: list[object] = []
    todo: list[object] = [value]
    inside: set[int] = set()  # containers that were looked into: one may hold itself
    while todo:
        part = todo.pop()
        if isinstance(part, Tensor):
            if part.node is not None and part.node not in several:
                new.append(part.node)
        elif isinstance(part, Object):
            note_many(run, part)
            if part not in several:
                new.append(part)  # what is read of it is drawn then
        elif isinstance(part, Method):
            todo.append(part.owner)
        elif isinstance(part, Union):
            todo += part.options
        elif isinstance(part, (Sequence, Mapping)) and id(part) not in inside and len(inside) < DRAWN_LIMIT:
            inside.add(id(part))
            items = part.cells.get("items") if isinstance(part, Sequence) else tuple(part.cells.values())
            todo += items if isinstance(items, tuple) else (part.cells.get("each"),)
    several.update(dict.fromkeys(new, len(run.events) if made else LAZY))
    return new


def note_many(run: Interpreter, value: object) -> None:
    """Remember the modules and leaves of which a value that stands for many may be one."""
    for part in alternatives(value) if isinstance(value, Value) else ():
        if isinstance(part, Object) or (isinstance(part, Tensor) and part.leaf is not None):
            run.notes.setdefault("many", set()).add(part if isinstance(part, Object) else part.leaf)  # type: ignore[union-attr]
        elif isinstance(part, Sequence) and isinstance(items := part.cells.get("items"), tuple):
            for item in items:
                note_many(run, item)


def get_item(run: Interpreter, value: Value, index: Value, e: ir.Sub) -> Value:
    if isinstance(index, Number) and index.how == "range":
        _calls.selects(run, index)
    if isinstance(value, Sequence):
        items = value.cells.get("items")
        if isinstance(index, Const) and isinstance(index.value, int) and isinstance(items, tuple):
            if -len(items) <= index.value < len(items):
                return items[index.value]
            return UNKNOWN
        if isinstance(index, Sequence) and index.kind == "slice":
            return slice_of(run, value, index)
        return drawn(run, element(value), made=items is None and value.kind != "generator")  # type: ignore[return-value]
    if isinstance(value, Mapping):
        if isinstance(index, Const):
            try:
                found = value.cells.get(("key", index.value))
            except TypeError:
                found = None
            if isinstance(found, Value):
                return found
            rest = value.cells.get("rest")
            return drawn(run, rest, made=True) if isinstance(rest, Value) else UNKNOWN
        options = [v for v in value.cells.values() if isinstance(v, Value)]
        return drawn(run, join_all(options)) if options else UNKNOWN  # type: ignore[return-value]
    if isinstance(value, (Tensor, ParameterOf)):
        return _tensors.index_tensor(run, value, index, e)
    if isinstance(value, Object):
        fields = tuple_fields(value)
        if fields:
            return get_item(run, Sequence("tuple", {"items": tuple(fields)}), index, e)
        found_item = _modules.module_item(run, value, index)
        if found_item is not None:
            return found_item
        member = find(value.cls, "__getitem__", run)
        if member is not None and isinstance(member[0], Function):
            return _calls.call_function(run, bound(member[0], value), Args([index], {}), e)
        return UNKNOWN
    if isinstance(value, Union):
        return join_all([get_item(run, o, index, e) for o in value.options])  # type: ignore[return-value]
    if isinstance(value, (Number, Const, Text)):
        return Text() if isinstance(value, Text) else UNKNOWN
    if isinstance(value, Array):
        return value
    if isinstance(value, Range):
        return value.each
    if isinstance(value, External):
        return value  # `list[int]`, `Optional[Tensor]`
    if isinstance(value, Unknown):
        return value
    if isinstance(value, Method) and value.name in _replacing.MEMBERS:
        return _replacing.get_item(run, value, index)
    return FOREIGN if isinstance(value, Context) else UNKNOWN


def slice_of(run: Interpreter, value: Sequence, index: Sequence) -> Value:
    items, parts = value.cells.get("items"), index.cells.get("items")
    if isinstance(items, tuple) and isinstance(parts, tuple) and all(isinstance(p, Const) for p in parts):
        try:
            chosen = items[slice(*(p.value for p in parts))]  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            return UNKNOWN
        return Sequence(value.kind, {"items": chosen}, value.place)
    each = drawn(run, element(value))
    if isinstance(each, ParameterOf):
        each = ParameterOf(each.leaves, all_of=False)
    return Sequence(value.kind, {"items": None, "each": each}, value.place)


def set_item(run: Interpreter, owner: Value, index: Value, value: Value, target: ir.Sub) -> None:
    if isinstance(owner, Mapping):
        if isinstance(index, Const) and isinstance(index.value, (str, int, bool, float, type(None))):
            run.state.set(owner.cells, ("key", index.value), value)
        else:
            old = owner.cells.get("rest")
            run.state.set(owner.cells, "rest", value if old is None else join(old, value))
    elif isinstance(owner, Sequence):
        items = owner.cells.get("items")
        at = index.value if isinstance(index, Const) else None
        if isinstance(at, int) and isinstance(items, tuple) and -len(items) <= at < len(items):
            run.state.set(owner.cells, "items", (*items[:at], value, *items[at:][1:]))
            return
        loosen(run, owner, value)
        run.state.set(owner.cells, "surely", Surely())
    elif isinstance(owner, (Tensor, ParameterOf)):
        _tensors.write_into(run, owner, value, target)
    elif isinstance(owner, Array):
        _tensors.write_into_array(run, owner, value, target.value, run.place(target.at))
    elif isinstance(owner, Object):
        _modules.set_module_item(run, owner, index, value, run.place(target.at))
    else:
        _replacing.set_item(run, owner, index, value, target)


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import python as _python  # noqa: E402
from . import replacing as _replacing  # noqa: E402
from . import tensors as _tensors  # noqa: E402
from . import training as _training  # noqa: E402

__all__ = ["NONE", "bound", "find", "get_attribute", "get_item", "is_module", "make_class", "set_attribute", "set_item"]
