"""Python's builtin functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Array,
    Builtin,
    Class,
    Const,
    External,
    Function,
    Mapping,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Wrapped,
    join_all,
)
from ..frames import UNROLL_LIMIT, Args
from ..operations import operate, surely
from .comparison import BOOL
from .containers import fill
from .iteration import covered_by, iterate, pair

if TYPE_CHECKING:
    from ..interp import Interpreter


BUILTIN_NAMES = (
    "abs all any bool breakpoint bytes callable chr delattr dict dir divmod enumerate eval exec filter float format "
    "frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter len list locals map max min "
    "next object open ord pow print property range repr reversed round set setattr slice sorted staticmethod classmethod "
    "str sum super tuple type vars zip __import__ Exception RuntimeError ValueError TypeError KeyError ImportError "
    "NotImplementedError StopIteration AttributeError IndexError OSError FileNotFoundError AssertionError Warning "
    "KeyboardInterrupt BaseException ZeroDivisionError UserWarning DeprecationWarning memoryview bytearray complex"
)

BUILTINS: dict[str, Value] = {name: Builtin(name) for name in BUILTIN_NAMES.split()}


def call_builtin(run: Interpreter, func: Builtin, args: Args, e: ir.Call | None) -> Value:
    handler = _BUILTIN_CALLS.get(func.name)
    if handler is not None:
        return handler(run, args, e)
    return UNKNOWN


def _place(run: Interpreter, e: ir.Call | None):
    return run.place(e.at) if e is not None else None


def b_print(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return NONE


def b_len(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.get(0, "obj")
    run.sized += 1
    if isinstance(value, Sequence) and isinstance(value.cells.get("items"), tuple):
        return Const(len(value.cells["items"]))  # type: ignore[arg-type]
    return Number()


def b_range(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) == 1 and isinstance(args.positional[0], Const) and args.positional[0].value == 1:
        return Sequence("list", {"items": (Const(0),)})
    ends = [v.value for v in args.positional if isinstance(v, Const) and isinstance(v.value, int)]
    known = len(ends) == len(args.positional) and 0 < len(ends) <= 3 and ends[2:] != [0]
    # With a step (`range(0, len(data), size)`) it goes over data.
    counted = len(args.positional) < 3
    return Range(Number(how="range"), length=len(range(*ends)) if known else None, counted=counted)


def b_enumerate(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    found = iterate(run, args.positional[0] if args.positional else UNKNOWN, None)
    if found.items is not None and len(found.items) <= UNROLL_LIMIT and len(args.positional) == 1 and not args.keywords:
        return Sequence("list", {"items": tuple(pair(Const(i), v) for i, v in enumerate(found.items))})
    return Range(pair(Number(), found.each), found.mode)


def b_zip(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if args.spread:
        # `zip(*rows)`: a column for each member of a row
        row = iterate(run, args.positional[0], None).items if len(args.positional) == 1 else None
        columns = (Sequence("tuple", {"items": None, "each": member}) for member in row or ())
        return Sequence("list", {"items": tuple(columns)}) if row else Range(UNKNOWN)
    found = [iterate(run, a, None) for a in args.positional]
    if found and all(f.items is not None for f in found):
        size = min(len(f.items) for f in found)  # type: ignore[arg-type]
        if size <= UNROLL_LIMIT:
            rows = (tuple(f.items[i] for f in found) for i in range(size))  # type: ignore[index]
            return Sequence(
                "list", {"items": tuple(pair(*row) for row in rows), "covers": covered_by(args.positional[0])}
            )
    mode = next((f.mode for f in found if f.mode is not None), None)
    return Range(pair(*(f.each for f in found)), mode, covers=covered_by(args.positional[0]) if found else None)


def b_reversed(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    found = iterate(run, value, None)
    if found.items is not None:
        return Sequence("list", {"items": tuple(reversed(found.items))})
    return Range(found.each)


def b_list(run: Interpreter, args: Args, e: ir.Call | None, kind: str = "list") -> Value:
    if not args.positional:
        return Sequence(kind, {"items": ()}, _place(run, e))
    value = args.positional[0]
    if isinstance(value, Parameters):
        found = iterate(run, value, e)
        return Sequence(kind, {"items": None, "each": found.each, "parts": (value,)}, _place(run, e))
    lazy = value if isinstance(value, Sequence) and value.kind == "generator" else None
    found = iterate(run, value, e if lazy is not None else None)
    if found.items is not None:
        return Sequence(kind, {"items": tuple(found.items)}, _place(run, e))
    if lazy is not None and lazy.cells.get("parts"):
        return Sequence(kind, {"items": None, "each": found.each, "parts": (value,)}, _place(run, e))
    if isinstance(value, Unknown):
        return value
    return Sequence(kind, {"items": None, "each": found.each}, _place(run, e))


def b_tuple(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return b_list(run, args, e, "tuple")


def b_set(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return b_list(run, args, e, "set")


def b_dict(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    mapping = Mapping({}, _place(run, e), complete=not args.spread)
    if args.positional:
        fill(run, mapping, args.positional[0])
    for key, value in args.keywords.items():
        mapping.cells["key", key] = value
    return mapping


def b_float(run: Interpreter, args: Args, e: ir.Call | None, how: str = "float") -> Value:
    value = args.positional[0] if args.positional else Const(0)
    if isinstance(value, Const) and isinstance(value.value, (int, float, str)):
        try:
            return Const({"float": float, "int": int}[how](value.value))
        except ValueError:
            return Number()
    if isinstance(value, (Tensor, ParameterOf)):
        return _tensors.number_of(run, value, f"{how}()", _place(run, e))
    if isinstance(value, (Number, Array)):
        return Number(value.cut, _place(run, e), f"{how}()", value.measure if isinstance(value, Number) else "")
    if isinstance(value, Union):
        return Number()
    return Number(None, _place(run, e), f"{how}()")


def b_int(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return b_float(run, args, e, "int")


def b_bool(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    truth = run.truth(args.positional[0]) if args.positional else False
    return BOOL if truth is None else (TRUE if truth else FALSE)


def b_str(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else Const("")
    return Const(str(value.value)) if isinstance(value, Const) and isinstance(value.value, (str, int)) else Text()


def b_sum(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    found = iterate(run, args.positional[0] if args.positional else UNKNOWN, None)
    start = args.get(1, "start", Const(0)) or Const(0)
    node = ir.Bin(e.at if e is not None else 0, "+", ir.Const(0, 0), ir.Const(0, 0))
    if found.items is not None:
        total = start
        for item in found.items:
            total = _tensors.binary(run, "+", total, item, node)
        return total
    total = _tensors.binary(run, "+", start, found.each, node)
    for item in surely(args.positional[0]):
        if isinstance(item, Tensor) and item.live:
            total = _tensors.binary(run, "+", total, item, node)
    return total


def b_max(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    values = args.positional
    if len(values) == 1:
        values = [_objects.drawn(run, iterate(run, values[0], None).each)]
    if values and all(isinstance(v, (Const, Number)) for v in values):
        return _tensors.merged_number(values)
    return join_all(values) if values else UNKNOWN  # type: ignore[return-value]


def b_abs(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, (Tensor, ParameterOf)):
        return operate(run, "torch.abs", [value], e)
    return Number(getattr(value, "cut", None)) if isinstance(value, (Number, Const)) else UNKNOWN


def b_round(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Number):
        return Number(value.cut, measure=value.measure)
    return Number(getattr(value, "cut", None)) if isinstance(value, (Const, Tensor)) else UNKNOWN


def b_pow(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) == 2 and e is not None:
        return _tensors.binary(run, "**", args.positional[0], args.positional[1], ir.Bin(e.at, "**", e.func, e.func))
    return UNKNOWN


def b_isinstance(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) != 2:
        return BOOL
    value, cls = args.positional
    items = cls.cells.get("items") if isinstance(cls, Sequence) else (cls,)
    wanted = items if isinstance(items, tuple) else ()
    answers = [_is_instance(value, w) for w in wanted]
    if any(a is True for a in answers):
        return TRUE
    if answers and all(a is False for a in answers):
        return FALSE
    return BOOL


def _is_instance(value: Value, cls: Value) -> bool | None:
    if isinstance(cls, External):
        if cls.name in ("torch.Tensor", "torch.FloatTensor", "numpy.ndarray"):
            if isinstance(value, Tensor) and not value.opaque:
                return cls.name == "torch.Tensor" or None
            if isinstance(value, (Const, Number, Text, Sequence, Mapping, Object, Function)):
                return False
            return None
        if isinstance(value, Object):
            if isinstance(value.cls, External):
                if value.cls.name == cls.name:
                    return True
                if cls.name == "torch.nn.Module":
                    return _objects.is_module(value)
                return False if value.cls.name.startswith("torch.nn.") and cls.name.startswith("torch.nn.") else None
            if isinstance(value.cls, Class):
                return True if value.cls.is_a(cls.name) else None
        return None
    if isinstance(cls, Class):
        if isinstance(value, Object) and isinstance(value.cls, Class):
            return True if cls in value.cls.mro else (None if value.cls.open else False)
        if isinstance(value, (Const, Number, Text, Tensor, Sequence, Mapping)):
            return False
        return None
    if isinstance(cls, Builtin):
        kinds: dict[str, tuple[type, ...]] = {
            "list": (Sequence,),
            "tuple": (Sequence,),
            "dict": (Mapping,),
            "str": (Text,),
        }
        if isinstance(value, Const):
            python = {"int": int, "float": float, "str": str, "bool": bool, "list": list, "tuple": tuple, "dict": dict}
            return isinstance(value.value, python[cls.name]) if cls.name in python else None
        if isinstance(value, Sequence):
            return (
                value.kind == cls.name if cls.name in ("list", "tuple", "set", "dict", "str", "int", "float") else None
            )
        if isinstance(value, (Mapping, Text)) and cls.name in kinds:
            return isinstance(value, kinds[cls.name])
        if isinstance(value, (Tensor, Object)) and cls.name in ("list", "tuple", "dict", "str", "int", "float"):
            return None if isinstance(value, Tensor) and value.opaque else False
    return None


def b_getattr(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if (
        len(args.positional) >= 2
        and isinstance(args.positional[1], Const)
        and isinstance(args.positional[1].value, str)
    ):
        owner, name = args.positional[0], args.positional[1].value
        attr = ir.Attr(e.at if e is not None else 0, ir.Const(0, None), name)
        value = _objects.get_attribute(run, owner, name, attr)
        if isinstance(value, Unknown) and len(args.positional) == 3:
            return UNKNOWN
        return value
    if args.positional and isinstance(args.positional[0], Object):
        run.state.set(args.positional[0].cells, "dynamic", True)
    return UNKNOWN


def b_setattr(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) == 3 and e is not None:
        owner, name, value = args.positional
        if isinstance(name, Const) and isinstance(name.value, str):
            _objects.set_attribute(run, owner, name.value, value, ir.Attr(e.at, e.func, name.value))
        elif isinstance(owner, Object):
            if not is_new(run, owner, e.args[1] if len(e.args) == 3 else None):
                _replacing.put_unnamed(run, owner, value)
            _objects.set_attribute(run, owner, f"[{run.place(e.at).start}]", value, ir.Attr(e.at, e.func, ""))
            run.state.set(owner.cells, "dynamic", True)
        else:
            _replacing.put_unnamed(run, owner, value)
    return NONE


def is_new(run: Interpreter, owner: Object, name: ir.Expr | None) -> bool:
    """Whether a constructor makes up the name of what it sets: `setattr(self, f"layer{i}", ...)` replaces nothing."""
    own = any(
        f.function is not None and f.function.name == "__init__" and f.function.bound is owner for f in run.frames
    )
    return own and isinstance(name, (ir.Joined, ir.Bin, ir.Call))


def b_exec(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    _replacing.anything(run)
    return NONE


def b_vars(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    owner = args.positional[0] if len(args.positional) == 1 else UNKNOWN
    return _replacing.members_of(owner, "__dict__") or UNKNOWN


def b_hasattr(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) != 2:
        return BOOL
    owner, name = args.positional
    if not isinstance(owner, Object) or not isinstance(name, Const) or not isinstance(name.value, str):
        return BOOL
    if name.value in owner.attrs or _objects.find(owner.cls, name.value, run) is not None:
        return TRUE
    if owner.cells.get("init") is False:
        return FALSE  # `Module.__init__` has not run, and the instance has nothing that would be registered
    # An instance of a class that inherits from nothing has what was put into it, unless that happens where nobody sees.
    cls = owner.cls
    closed = isinstance(cls, Class) and not cls.open and not any(isinstance(base, External) for base in cls.mro)
    unseen = any(owner.cells.get(key) for key in ("standalone", "dynamic", "escaped"))
    return FALSE if closed and not unseen and _objects.find(cls, "__getattr__", run) is None else BOOL


def b_next(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Parameters):
        return ParameterOf(value.leaves, all_of=False)
    if isinstance(value, Range) and value.mode is not None:
        run.state.mode = value.mode
    each = _objects.drawn(run, iterate(run, value, None).each)
    if isinstance(value, Sequence) and value.kind == "generator":  # one less is left in it
        for cell, rest in (("items", None), ("parts", None), ("each", each)):
            run.state.set(value.cells, cell, rest)
    return each


def b_iter(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, (Parameters, Unknown)) or (isinstance(value, Sequence) and value.kind == "generator"):
        return value
    found = iterate(run, value, None)
    return Range(found.each, found.mode)


def b_map(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    found = [iterate(run, a, None) for a in args.positional[1:]]
    if len(found) == 1 and found[0].items is not None and len(found[0].items) <= UNROLL_LIMIT:
        return Sequence(
            "list", {"items": tuple(_calls.call(run, args.positional[0], Args([i], {}), e) for i in found[0].items)}
        )
    return Range(_calls.call(run, args.positional[0], Args([f.each for f in found], {}), e))


def b_filter(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) != 2:
        return UNKNOWN
    value = args.positional[1]
    if isinstance(value, Parameters):
        kept = tuple(leaf for leaf in value.leaves if leaf.cells.get("requires_grad") is not False)
        trainable = _tests_requires_grad(args.positional[0])
        return Parameters(
            value.owner, value.named, kept if trainable else value.leaves, exact=trainable and value.exact,
            place=_place(run, e), trainable_only=trainable,
        )  # fmt: skip
    return Range(_objects.drawn(run, iterate(run, value, None).each))


def _tests_requires_grad(function: Value) -> bool:
    if isinstance(function, Function) and isinstance(function.code, ir.Lambda):
        body = function.code.body
        return isinstance(body, ir.Attr) and body.name == "requires_grad"
    return False


def b_type(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    return value.cls if isinstance(value, Object) and len(args.positional) == 1 else UNKNOWN


def b_wrap(kind: str):
    def handler(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        return Wrapped(kind, args.positional[0]) if args.positional else UNKNOWN

    return handler


def b_text(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return Text()


def b_number(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return Number()


def b_either(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return BOOL


def b_any(run: Interpreter, args: Args, e: ir.Call | None, stop: bool = True) -> Value:
    value = args.positional[0] if len(args.positional) == 1 else UNKNOWN
    items = value.cells.get("items") if isinstance(value, Sequence) else None
    run.sized += 1
    if not isinstance(items, tuple):
        return BOOL
    truths = {run.truth(item) for item in items}
    if stop in truths:
        return TRUE if stop else FALSE
    return BOOL if None in truths else FALSE if stop else TRUE


def b_all(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return b_any(run, args, e, stop=False)


def b_sorted(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    found = iterate(run, args.positional[0] if args.positional else UNKNOWN, None)
    return Sequence("list", {"items": None, "each": found.each}, _place(run, e))


_BUILTIN_CALLS = {
    "print": b_print, "len": b_len, "range": b_range, "enumerate": b_enumerate, "zip": b_zip, "reversed": b_reversed,
    "list": b_list, "tuple": b_tuple, "set": b_set, "frozenset": b_set, "dict": b_dict, "float": b_float, "int": b_int,
    "bool": b_bool, "str": b_str, "repr": b_text, "format": b_text, "sum": b_sum, "max": b_max, "min": b_max,
    "abs": b_abs, "round": b_round, "pow": b_pow, "isinstance": b_isinstance, "issubclass": b_either, "getattr": b_getattr,
    "setattr": b_setattr, "vars": b_vars, "exec": b_exec, "hasattr": b_hasattr, "next": b_next, "iter": b_iter, "map": b_map, "filter": b_filter,
    "type": b_type, "property": b_wrap("property"), "staticmethod": b_wrap("staticmethod"),
    "classmethod": b_wrap("classmethod"), "id": b_number, "hash": b_number, "ord": b_number, "chr": b_text, "any": b_any,
    "all": b_all, "callable": b_either, "sorted": b_sorted, "input": b_text, "hex": b_text,
}  # fmt: skip


# The parts of the interpreter know each other: these come when this one is complete.
from .. import calls as _calls  # noqa: E402
from .. import objects as _objects  # noqa: E402
from .. import replacing as _replacing  # noqa: E402
from .. import tensors as _tensors  # noqa: E402
