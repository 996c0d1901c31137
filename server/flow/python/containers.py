"""Methods of lists, tuples, dicts, strings, ranges, numbers and arrays; what a dict is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Array,
    Const,
    Mapping,
    Number,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Surely,
    Text,
    Value,
    element,
    join,
    join_all,
)
from ...findings import Place
from .. import events
from ..frames import Args
from ..operations import surely
from .comparison import BOOL
from .iteration import covered_by, iterate, pair

if TYPE_CHECKING:
    from ..interp import Interpreter


def _parts(run: Interpreter, value: Value, e: ir.Call, args: Args) -> list[tuple[Value, Place]]:
    """What is put into a list, with its place: the value, or the members of a tuple that is written there."""
    items = value.cells.get("items") if isinstance(value, Sequence) else None
    written = e.args[-1] if e.args else None
    if isinstance(items, tuple) and isinstance(written, ir.Tuple) and len(written.items) == len(items):
        return [(item, run.place(part.at)) for item, part in zip(items, written.items, strict=True)]
    return [(value, args.places[-1] if args.places else run.place(e.at))]


def call_container(run: Interpreter, owner: Value, name: str, args: Args, e: ir.Call | None) -> Value:
    """A method of a list, tuple, set, dict, str, range, number or array."""
    if isinstance(owner, Sequence):
        return _sequence_method(run, owner, name, args, e)
    if isinstance(owner, Mapping):
        return _mapping_method(run, owner, name, args, e)
    if isinstance(owner, (Text, Const)) and name in (
        "format",
        "join",
        "strip",
        "lower",
        "upper",
        "replace",
        "rstrip",
        "lstrip",
    ):
        return Text()
    if isinstance(owner, (Text, Const)) and name in ("startswith", "endswith", "isdigit"):
        return _begins(owner, name, args)
    if isinstance(owner, (Text, Const)) and name in ("split", "splitlines", "rsplit"):
        return Sequence("list", {"items": None, "each": Text()})
    if isinstance(owner, Array):
        return _array_method(run, owner, name)
    if isinstance(owner, (Number, Const)):
        if name == "item":
            return owner
        if name in ("backward", "detach", "requires_grad_") and e is not None:
            return _training.number_method(run, owner, name, args, e)
        return UNKNOWN if isinstance(owner, Const) and not isinstance(owner.value, (int, float)) else Number()
    if isinstance(owner, Range):
        if name == "close":
            return NONE
        if name in ("set_postfix", "set_description", "set_postfix_str", "update", "write"):
            return NONE
    return UNKNOWN


def _begins(owner: Value, name: str, args: Args) -> Value:
    """`text.startswith(part)`, `text.endswith((one, other))`"""
    text = owner.value if isinstance(owner, Const) else None
    if name == "isdigit" or not isinstance(text, str) or len(args.positional) != 1 or args.keywords or args.spread:
        return BOOL
    given = args.positional[0]
    items = given.cells.get("items") if isinstance(given, Sequence) and given.kind == "tuple" else (given,)
    parts = [i.value for i in items if isinstance(i, Const)] if isinstance(items, tuple) else []
    known = [part for part in parts if isinstance(part, str)]
    if not isinstance(items, tuple) or len(known) < len(items):
        return BOOL
    return TRUE if getattr(text, name)(tuple(known)) else FALSE


def _array_method(run: Interpreter, owner: Array, name: str) -> Value:
    if name in ("item", "tolist"):
        return Number(owner.cut)
    if name in ("backward",):
        return UNKNOWN
    return owner


def _sequence_method(run: Interpreter, owner: Sequence, name: str, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    items = owner.cells.get("items")
    if name in ("append", "add", "appendleft", "insert"):
        if name == "insert" and len(args.positional) == 2:
            value = args.positional[1]
        if e is not None:
            for part, place in _parts(run, value, e, args):
                _objects.keep(run, part, "list", owner, place)
            run.record(events.Called(run.place(e.at), run.stack, "list.append", (owner, value), {}, NONE, owner,
                                     in_loop=len(run.frame.loops)))  # fmt: skip
        if isinstance(items, tuple) and not run.frame.repeating and name == "append":
            run.state.set(owner.cells, "items", (*items, value))
            return NONE
        before = items if isinstance(items, tuple) else surely(owner)
        _objects.loosen(run, owner, value)
        if name == "append" and owner.kind == "list" and len(before) < _objects.MEMBERS_LIMIT:
            run.state.set(owner.cells, "surely", Surely((*before, value)))
        return NONE
    if name in ("extend", "update", "extendleft", "union"):
        _objects.extend(run, owner, value)
        return NONE
    if name in ("clear",):
        run.state.set(owner.cells, "items", ())
        run.state.put(owner.cells, "emptied", True)
        return NONE
    if name in ("pop", "popleft", "popitem"):
        run.state.put(owner.cells, "emptied", True)
        if isinstance(items, tuple) and items and name == "pop" and not args.positional and not run.frame.repeating:
            run.state.set(owner.cells, "items", items[:-1])
            return items[-1]
        result = _objects.drawn(run, element(owner), made=True)
        run.state.set(owner.cells, "each", result)
        run.state.set(owner.cells, "items", None)
        run.state.set(owner.cells, "surely", Surely())
        return result  # type: ignore[return-value]
    if name == "copy":
        return Sequence(owner.kind, dict(owner.cells), owner.place)
    if name in ("index", "count"):
        return Number()
    if name in ("sort", "reverse", "remove", "discard"):
        _objects.loosen(run, owner, element(owner))  # type: ignore[arg-type]
        run.state.set(owner.cells, "surely", Surely())
        return NONE
    return UNKNOWN


def _mapping_method(run: Interpreter, owner: Mapping, name: str, args: Args, e: ir.Call | None) -> Value:
    known = [(k[1], v) for k, v in owner.cells.items() if isinstance(k, tuple)]
    rest = owner.cells.get("rest")
    exact = owner.complete and rest is None
    if name in ("items", "values", "keys"):
        rows: list[Value]
        if name == "items":
            rows = [pair(Const(k), v) for k, v in known]  # type: ignore[arg-type]
        elif name == "values":
            rows = [v for _, v in known]  # type: ignore[misc]
        else:
            rows = [Const(k) for k, _ in known]
        covers = owner.cells.get("covers") if name == "items" else None
        if exact:
            return Sequence("list", {"items": tuple(rows), "covers": covers})
        if isinstance(rest, Value):
            rows.append({"items": pair(UNKNOWN, rest), "values": rest, "keys": UNKNOWN}[name])
        each = _objects.drawn(run, join_all(rows)) if rows else UNKNOWN
        return Range(each, covers=covers)  # type: ignore[arg-type]
    if name in ("get", "pop", "setdefault"):
        run.sized += 1
        if name == "pop" and "covers" in owner.cells:
            run.state.set(owner.cells, "covers", None)
        key = args.positional[0] if args.positional else UNKNOWN
        default = args.get(1, "default", NONE) or NONE
        if isinstance(key, Const):
            value = owner.cells.get(("key", key.value))
            if isinstance(value, Value):
                return value
            if exact:
                if name == "setdefault":
                    run.state.set(owner.cells, ("key", key.value), default)
                return default
        if isinstance(rest, Value):
            return _objects.drawn(run, join(rest, default))  # type: ignore[return-value]
        return UNKNOWN
    if name == "update":
        other = args.positional[0] if args.positional else None
        if isinstance(other, Mapping):
            for k, v in other.cells.items():
                run.state.set(owner.cells, k, v)
        elif other is not None:
            run.state.set(owner.cells, "rest", UNKNOWN)
        for k, v in args.keywords.items():
            run.state.set(owner.cells, ("key", k), v)
        return NONE
    if name == "copy":
        return Mapping(dict(owner.cells), owner.place, owner.complete)
    if name == "clear":
        for k in list(owner.cells):
            run.state.delete(owner.cells, k)
        return NONE
    return UNKNOWN


def fill(run: Interpreter, mapping: Mapping, source: Value) -> None:
    """Put into a new dict what it is made from: another one, or pairs."""
    if isinstance(source, Mapping):
        mapping.cells.update(source.cells)
        mapping.complete = mapping.complete and source.complete
        return
    if isinstance(source, Parameters):
        mapping.complete = False
        if source.named:
            mapping.cells["rest"] = ParameterOf(source.leaves, all_of=True)
            covered = covered_by(source)
            if covered is not None:
                mapping.cells["covers"] = covered
        return
    found = iterate(run, source, None)
    mapping.complete = mapping.complete and found.items is not None
    for item in found.items if found.items is not None else [found.each]:
        pair = item.cells.get("items") if isinstance(item, Sequence) else None
        if not isinstance(pair, tuple) or len(pair) != 2:
            mapping.complete = False
        elif isinstance(pair[0], Const):
            mapping.cells["key", pair[0].value] = pair[1]
        else:
            old = mapping.cells.get("rest")
            mapping.cells["rest"] = join(old, pair[1]) if isinstance(old, Value) else pair[1]
            mapping.complete = False


# The parts of the interpreter know each other: these come when this one is complete.
from .. import objects as _objects  # noqa: E402
from .. import training as _training  # noqa: E402
