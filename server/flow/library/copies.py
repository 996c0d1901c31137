"""`copy.deepcopy`: new objects with leaves of their own; a tensor that an operation has recorded can't be copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import NONE, UNKNOWN, Class, External, Leaf, Mapping, Object, Sequence, Tensor, Value, replace
from ...findings import Place
from .. import events
from ..events import called_event
from ..frames import Args
from ..objects import find, is_module
from ..operations import graph_of

if TYPE_CHECKING:
    from ..interp import Interpreter


def o_deepcopy(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if e is not None and len(args.positional) == 1:
        refuse_copy(run, value, args, e)
    return clone(run, value, {}, run.place(e.at) if e is not None else None)


def refuse_copy(run: Interpreter, value: Value, args: Args, e: ir.Call) -> None:
    """Record `Raised` if what is copied surely is, or holds, a tensor that an operation has recorded: torch refuses it."""
    called_event(run, "copy.deepcopy", args, e, NONE)
    if not isinstance(value, (Tensor, Sequence, Mapping, Object)):
        return
    found = recorded_in(run, value, "", set())
    if found is not None and not any(frame.caught for frame in run.frames):
        tensor, path = found
        where = ((tensor.node.place, "made"),) if tensor.node is not None and tensor.node.place is not None else ()
        run.record(events.Raised(run.place(e.at), run.stack, "deepcopy-of-graph", path, where))


# Objects and methods that say themselves how they are copied.
COPIED_BY_HAND = ("__deepcopy__", "__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__")

COPY_LIMIT = 200  # values that are looked into; a copy of more is not judged


def recorded_in(run: Interpreter, value: object, path: str, seen: set[int]) -> tuple[Tensor, str] | None:
    """A tensor with a `grad_fn` that a deep copy of the value surely meets, and how it is reached from there."""
    if id(value) in seen or len(seen) > COPY_LIMIT:
        return None
    seen.add(id(value))
    if isinstance(value, Tensor):
        node, sure = graph_of(value)
        plain = node is not None and node.leaf is None and not node.phi and value.leaf is None
        return (value, path) if sure and plain and value.certain and not value.opaque else None
    inner: list[tuple[object, str]] = []
    if isinstance(value, Sequence) and isinstance(items := value.cells.get("items"), tuple):
        inner = [(item, f"{path}[{index}]") for index, item in enumerate(items)]
    elif isinstance(value, Mapping):
        inner = [(item, f"{path}[{key[1]!r}]") for key, item in value.cells.items() if isinstance(key, tuple)]
    elif isinstance(value, Object) and is_plain(run, value):
        inner = [
            (a, f"{path}.{name}") for name, a in value.attrs.items() if isinstance(a, Object) or has(run, value, name)
        ]
        if isinstance(items := value.cells.get("items"), tuple):
            inner += [(item, f"{path}[{index}]") for index, item in enumerate(items)]
    return next((found for item, way in inner if (found := recorded_in(run, item, way, seen)) is not None), None)


def has(run: Interpreter, obj: Object, name: str) -> bool:
    """Whether an object surely has got an attribute, on whatever way the program came here."""
    return any(
        type(event) is events.Attribute and event.owner is obj and event.name == name and event.straight
        for event in reversed(run.events)
    )


def is_plain(run: Interpreter, obj: Object) -> bool:
    """Whether an object is copied attribute by attribute, and all that happens to these is known."""
    known = is_module(obj) if isinstance(obj.cls, External) else isinstance(obj.cls, Class) and not obj.cls.open
    hidden = obj.cells.get("escaped") or obj.cells.get("closed") or obj.cells.get("standalone")
    return known and not hidden and not any(find(obj.cls, name, run) for name in COPIED_BY_HAND)


def clone(run: Interpreter, value: object, done: dict[int, object], place: Place | None) -> Value:
    """A deep copy: new objects and new leaves of the same shape."""
    if id(value) in done:
        return done[id(value)]  # type: ignore[return-value]
    if isinstance(value, Object):
        new = Object(value.cls, place or value.place, {}, {}, value.label)
        done[id(value)] = new
        new.attrs = {k: clone(run, v, done, place) if isinstance(v, Value) else v for k, v in value.attrs.items()}
        for key, cell in value.cells.items():
            if isinstance(cell, Leaf):
                new.cells[key] = clone_leaf(cell, done, place)
            elif isinstance(cell, Value):
                new.cells[key] = clone(run, cell, done, place)
            elif isinstance(cell, tuple) and all(isinstance(v, Value) for v in cell):
                new.cells[key] = tuple(clone(run, v, done, place) for v in cell)
            elif isinstance(cell, tuple) and all(isinstance(v, Leaf) for v in cell):
                new.cells[key] = tuple(clone_leaf(v, done, place) for v in cell)
            elif key != "escaped":
                new.cells[key] = cell
        run.objects.append(new)
        return new
    if isinstance(value, Tensor):
        if value.leaf is not None:
            leaf = clone_leaf(value.leaf, done, place)
            return replace(value, leaf=leaf, node=leaf.node, storage=leaf.storage)
        return value
    if isinstance(value, Sequence):
        copy = Sequence(value.kind, {}, value.place)
        done[id(value)] = copy
        for key, cell in value.cells.items():
            if isinstance(cell, tuple):
                copy.cells[key] = tuple(clone(run, v, done, place) for v in cell)
            else:
                copy.cells[key] = clone(run, cell, done, place) if isinstance(cell, Value) else cell
        return copy
    if isinstance(value, Mapping):
        mapping = Mapping({}, value.place, value.complete)
        done[id(value)] = mapping
        for key, item in value.cells.items():
            if key != "of":  # a copy is no longer the module's own
                mapping.cells[key] = clone(run, item, done, place) if isinstance(item, Value) else item
        return mapping
    return value if isinstance(value, Value) else UNKNOWN


def clone_leaf(leaf: Leaf, done: dict[int, object], place: Place | None) -> Leaf:
    known = done.get(id(leaf))
    if isinstance(known, Leaf):
        return known
    cells = {k: v for k, v in leaf.cells.items() if k not in ("grad", "escaped")}
    new = Leaf(leaf.label, place or leaf.place, leaf.kind, cells)
    done[id(leaf)] = new
    return new


def o_copy(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Sequence):
        return Sequence(value.kind, dict(value.cells), value.place)
    if isinstance(value, Mapping):
        return Mapping(dict(value.cells), value.place, value.complete)
    return value if not isinstance(value, Object) else UNKNOWN
