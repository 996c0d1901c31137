"""Python's own things: iteration, comparison, builtins, and the methods of lists, dicts and strings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import ir
from ..facts import (
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
    GradOf,
    Leaf,
    Mapping,
    Method,
    Mode,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Scope,
    Sequence,
    Surely,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Wrapped,
    element,
    join,
    join_all,
)
from ..findings import Place
from . import events
from .frames import UNROLL_LIMIT, Args, Frame
from .operations import operate, surely

if TYPE_CHECKING:
    from .interp import Interpreter

BOOL = Union((TRUE, FALSE))

# Loops over `named_parameters()` that decide by the name are passed name by name: their bodies are a line or two.
NAMES_LIMIT = 64


@dataclass
class Items:
    """What a loop over a value sees: the items if they are known, else their join; and a generator's grad mode."""

    each: Value
    items: list[Value] | None = None
    mode: Mode | None = None


def use_up(run: Interpreter, value: Parameters | Sequence, e: ir.Expr | None) -> None:
    """Somebody iterates over a generator: a second time it is empty."""
    if e is not None and "used" not in value.cells:
        run.state.set(value.cells, "used", run.place(e.at))


def iterate(run: Interpreter, value: Value, e: ir.Expr | None) -> Items:
    """What a loop over a value sees; `e` is the expression that stands for it, if there is one."""
    if isinstance(value, Sequence):
        if value.kind == "generator":
            if "used" in value.cells:
                return Items(UNKNOWN)  # nothing is left, or what an earlier loop has left
            use_up(run, value, e)
        items = value.cells.get("items")
        if isinstance(items, tuple):
            return Items(join_all(items) if items else UNKNOWN, list(items))  # type: ignore[arg-type]
        _objects.note_many(run, element(value))
        return Items(element(value))  # type: ignore[arg-type]
    if isinstance(value, Range):
        _objects.note_many(run, value.each)
        return Items(value.each, None, value.mode)
    if isinstance(value, Mapping):
        keys = [Const(k[1]) for k in value.cells if isinstance(k, tuple)]
        if keys and value.complete and "rest" not in value.cells:
            return Items(join_all(keys), list(keys))  # type: ignore[arg-type]
        return Items(Text() if keys else UNKNOWN)
    if isinstance(value, Parameters):
        use_up(run, value, e)
        one = ParameterOf(value.leaves, all_of=True)
        each: Value = Sequence("tuple", {"items": (Text(), one)}) if value.named else one
        return Items(each)
    if isinstance(value, Tensor):
        return Items(_tensors.element_of(run, value))
    if isinstance(value, Object):
        found = _modules.iterate_object(run, value)
        if found is not None:
            return found
        fields = _objects.tuple_fields(value)
        if fields is not None:
            return Items(join_all(fields) if fields else UNKNOWN, fields)
        member = _objects.find(value.cls, "__iter__", run)
        if member is not None and isinstance(member[0], Function):
            return iterate(run, _calls.call(run, _objects.bound(member[0], value), Args([], {}), None), None)
        member = _objects.find(value.cls, "__getitem__", run)
        if member is not None and isinstance(member[0], Function):
            return Items(_calls.call(run, _objects.bound(member[0], value), Args([Number()], {}), None))
        return Items(UNKNOWN)
    if isinstance(value, Union):
        found_all = [iterate(run, o, None) for o in value.options]
        rows = [f.items for f in found_all if f.items is not None]
        alike = len(rows) == len(found_all) and len({len(row) for row in rows}) == 1
        columns = [join_all(list(column)) for column in zip(*rows, strict=True)] if alike else None
        return Items(join_all([f.each for f in found_all]), columns)  # type: ignore[arg-type]
    if isinstance(value, (Array, Text)):
        return Items(Number(value.cut) if isinstance(value, Array) else Text())
    if isinstance(value, ParameterOf):
        return Items(value)
    if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= UNROLL_LIMIT:
        return Items(Text(), [Const(c) for c in value.value])
    return Items(value if isinstance(value, Unknown) else UNKNOWN)


def unpacked(run: Interpreter, value: Value, count: int, star: int | None) -> list[Value]:
    """The values for `count` targets; the one at `star` takes the rest as a list."""
    if isinstance(value, Sequence):
        items = value.cells.get("items")
        if isinstance(items, tuple):
            if star is None and len(items) == count:
                return list(items)
            if star is not None and len(items) >= count - 1:
                tail = count - star - 1
                rest = items[star : len(items) - tail]
                return [*items[:star], Sequence("list", {"items": tuple(rest)}), *items[len(items) - tail :]]
            return [UNKNOWN] * count
    if isinstance(value, Union):
        columns = [unpacked(run, o, count, star) for o in value.options]
        return [join_all(list(c)) for c in zip(*columns, strict=True)]  # type: ignore[misc]
    found = iterate(run, value, None)
    if found.items is not None and len(found.items) == count and star is None:
        return found.items
    each = found.each
    _objects.draw(run, each)
    if isinstance(each, Object) or (isinstance(each, Tensor) and each.leaf is not None):
        each = UNKNOWN  # they are several, of which only one is known
    values: list[Value] = [each] * count
    if star is not None:
        values[star] = Sequence("list", {"items": None, "each": each})
    return values


def one_by_one(run: Interpreter, value: Value) -> list[Value] | None:
    """`named_parameters()` with each name, for loops that look at the names; None if not all of them are known."""
    if not isinstance(value, Parameters) or not value.named or not value.exact or value.trainable_only:
        return None
    if not isinstance(value.owner, Object) or len(value.leaves) > NAMES_LIMIT or "renamed" in value.cells:
        return None
    found = list(_modules.named_leaves(run, value.owner))
    if {leaf for _, leaf in found} != set(value.leaves):
        return None
    return [_pair(name, ParameterOf((leaf,), all_of=True)) for name, leaf in found]


def comprehension(run: Interpreter, e: ir.Comp) -> Value:
    frame = run.frame
    scope = Scope({}, frame.scope)
    inner = Frame(
        scope, frame.module, frame.unit, frame.base, frame.function, run.state.mark(), instance=frame.instance
    )
    inner.loops = list(frame.loops)
    place = run.place(e.at)
    run.frames.append(inner)
    try:
        results = _Results()
        exact = _generate(run, e, 0, results)
    finally:
        run.frames.pop()
    if e.kind == "dict":
        mapping = Mapping({}, place, complete=False)
        pairs: list[tuple[Value, Value]] = results  # type: ignore[assignment]
        for key, value in pairs:
            if exact and isinstance(key, Const) and isinstance(key.value, (str, int)):
                mapping.cells["key", key.value] = value
            else:
                old = mapping.cells.get("rest")
                mapping.cells["rest"] = value if old is None else join(old, value)
        mapping.complete = exact
        covered = covered_by(results.source) if len(e.generators) == 1 and not e.generators[0].ifs else None
        if covered is not None and isinstance(e.key, ir.Name) and first_name(e.generators[0].target) == e.key.id:
            mapping.cells["covers"] = covered
        return mapping
    kind = "generator" if e.kind == "gen" else e.kind
    first = e.generators[0]
    of = {"source": results.source} if isinstance(results.source, Parameters) and _only_frozen_left_out(e) else {}
    if exact:
        return Sequence(kind, {"items": tuple(results), **of}, place)
    cells: dict[str, object] = {"items": None, "each": join_all(results) if results else UNKNOWN, **of}
    if len(e.generators) == len(results) == 1 and not first.ifs and e.element == first.target._replace(at=e.element.at):
        cells["parts"] = (results[0],)  # `[p for p in parameters]`
    return Sequence(kind, cells, place)


def covered_by(value: Value) -> tuple[Leaf, ...] | None:
    """The parameters of which pairs of the name and something else are all in what is iterated over, the name first."""
    if isinstance(value, Parameters):
        return value.leaves if value.named and value.exact and "renamed" not in value.cells else None
    found = (
        value.covers if isinstance(value, Range) else value.cells.get("covers") if isinstance(value, Sequence) else None
    )
    return found if isinstance(found, tuple) else None


def first_name(target: ir.Expr) -> str:
    while isinstance(target, (ir.Tuple, ir.List)) and target.items:
        target = target.items[0]
    return target.id if isinstance(target, ir.Name) else ""


class _Results(list[Any]):
    """What a comprehension gives, and what its first loop goes over."""

    source: Value = UNKNOWN


def _only_frozen_left_out(e: ir.Comp) -> bool:
    """`[p for p in ... if p.requires_grad]`, and the same with names: everything, or everything that is not frozen."""
    first = e.generators[0]
    target = first.target
    if isinstance(target, ir.Tuple) and len(target.items) == 2:
        target = target.items[1]
    if len(e.generators) != 1 or not isinstance(target, ir.Name) or not isinstance(e.element, ir.Name):
        return False
    tests = all(
        isinstance(test, ir.Attr)
        and test.name == "requires_grad"
        and isinstance(test.value, ir.Name)
        and test.value.id == target.id
        for test in first.ifs
    )
    return e.element.id == target.id and tests


def _generate(run: Interpreter, e: ir.Comp, level: int, results: _Results) -> bool:
    """Run the generators from `level` on; true if the results are exactly the items."""
    if level == len(e.generators):
        value = run.eval(e.element)
        results.append((run.eval(e.key), value) if e.key is not None else value)
        return True
    generator = e.generators[level]
    iterable = run.eval(generator.iter)
    if level == 0:
        results.source = iterable
    found = iterate(run, iterable, generator.iter)
    if isinstance(iterable, Range) and iterable.counted and 0 < (iterable.length or 0) <= UNROLL_LIMIT:
        found = Items(found.each, [found.each] * iterable.length)  # type: ignore[operator]
    limit = UNROLL_LIMIT
    if generator.ifs and (named := one_by_one(run, iterable)) is not None:
        found, limit = Items(found.each, named), NAMES_LIMIT
    exact = found.items is not None and len(found.items) <= limit
    filtered = False
    for item in (found.items or []) if exact else [found.each]:
        run.assign(generator.target, item)
        passes = True
        for test in generator.ifs:
            truth = run.truth(run.eval(test))
            if truth is False and exact:
                passes = False
                break
            if truth is None:
                filtered = True
                _objects.draw(run, item)
                run.assume(test, True)
                narrowed = _trainable_only(run, test, generator.target)
                if narrowed is None:
                    narrowed = _some_of(item)
                if narrowed is not None:
                    run.assign(generator.target, narrowed)
        if passes:
            exact = _generate(run, e, level + 1, results) and exact
    return exact and not filtered


def _trainable_only(run: Interpreter, test: ir.Expr, target: ir.Expr) -> Value | None:
    """`for p in parameters if p.requires_grad`: only the leaves that are trainable now."""
    if isinstance(test, ir.Attr) and test.name == "requires_grad" and isinstance(test.value, ir.Name):
        value = run.eval(test.value)
        if isinstance(value, ParameterOf):
            kept = tuple(leaf for leaf in value.leaves if leaf.cells.get("requires_grad") is not False)
            return _replace(run, target, value, ParameterOf(kept, value.all_of))
    return None


def _some_of(item: Value) -> Value | None:
    """`for p in parameters if <something unknown>`: each leaf may be left out."""
    if isinstance(item, ParameterOf) and item.all_of:
        return ParameterOf(item.leaves, all_of=False)
    pair = item.cells.get("items") if isinstance(item, Sequence) and item.kind == "tuple" else None
    if isinstance(pair, tuple) and any(isinstance(v, ParameterOf) for v in pair):
        return Sequence("tuple", {"items": tuple(_some_of(v) or v for v in pair)}, item.place)  # type: ignore[union-attr]
    return None


def _replace(run: Interpreter, target: ir.Expr, old: Value, new: Value) -> Value:
    if isinstance(target, (ir.Tuple, ir.List)):
        return Sequence("tuple", {"items": tuple(new if run.eval(t) is old else run.eval(t) for t in target.items)})
    return new


# ---------------------------------------------------------------- comparison


def compare(run: Interpreter, op: str, left: Value, right: Value, e: ir.Compare) -> Value:
    for one, other, swap in ((left, right, False), (right, left, True)):
        if (
            isinstance(one, Union)
            and isinstance(other, (Const, Sequence))
            and all(isinstance(o, Const) for o in one.options)
        ):
            found = [compare(run, op, *((other, o) if swap else (o, other)), e) for o in one.options]
            return found[0] if all(f is found[0] for f in found) else BOOL
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            result = {
                "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
                ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "is": lambda a, b: a is b or (a == b and a is not True),
                "is not": lambda a, b: not (a is b or a == b), "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
            }[op](left.value, right.value)  # fmt: skip
        except TypeError:
            return BOOL
        return TRUE if result else FALSE
    if op in ("is", "is not"):
        none = next((v for v in (left, right) if isinstance(v, Const) and v.value is None), None)
        other = right if none is left else left
        if (
            none is not None
            and isinstance(other, GradOf)
            and _training.why_none(run, other)
            # Of several parameters, in turn, some may have a gradient.
            and all(_training.grad_of(leaf).state == "none" for leaf in other.leaves)
        ):
            return TRUE if op == "is" else FALSE
        if none is not None and not isinstance(other, (Unknown, Union, Const, GradOf)):
            return TRUE if op == "is not" else FALSE
        return BOOL
    if op in ("in", "not in"):
        run.sized += 1
        if isinstance(right, Sequence) and isinstance(left, Const):
            items = right.cells.get("items")
            if isinstance(items, tuple) and all(isinstance(i, Const) for i in items):
                found = any(i.value == left.value for i in items)  # type: ignore[attr-defined]
                return TRUE if found == (op == "in") else FALSE
        if isinstance(right, Mapping) and isinstance(left, Const) and right.complete and "rest" not in right.cells:
            return TRUE if (("key", left.value) in right.cells) == (op == "in") else FALSE
        return BOOL
    if any(isinstance(v, (Tensor, ParameterOf)) for v in (left, right)):
        return operate(run, _COMPARE_NAMES[op], [left, right], e, shown=op)
    if isinstance(left, (Number, Const)) and isinstance(right, (Number, Const)):
        return BOOL
    return UNKNOWN if isinstance(left, Unknown) or isinstance(right, Unknown) else BOOL


_COMPARE_NAMES = {
    "==": "torch.eq",
    "!=": "torch.ne",
    "<": "torch.lt",
    "<=": "torch.le",
    ">": "torch.gt",
    ">=": "torch.ge",
}


# ---------------------------------------------------------------- builtins

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
        return Sequence("list", {"items": tuple(_pair(Const(i), v) for i, v in enumerate(found.items))})
    return Range(_pair(Number(), found.each), found.mode)


def _pair(*values: Value) -> Sequence:
    return Sequence("tuple", {"items": values})


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
                "list", {"items": tuple(_pair(*row) for row in rows), "covers": covered_by(args.positional[0])}
            )
    mode = next((f.mode for f in found if f.mode is not None), None)
    return Range(_pair(*(f.each for f in found)), mode, covers=covered_by(args.positional[0]) if found else None)


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

# ---------------------------------------------------------------- methods of containers, strings and numbers


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
        owner.cells["emptied"] = True
        return NONE
    if name in ("pop", "popleft", "popitem"):
        owner.cells["emptied"] = True
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
            rows = [_pair(Const(k), v) for k, v in known]  # type: ignore[arg-type]
        elif name == "values":
            rows = [v for _, v in known]  # type: ignore[misc]
        else:
            rows = [Const(k) for k, _ in known]
        covers = owner.cells.get("covers") if name == "items" else None
        if exact:
            return Sequence("list", {"items": tuple(rows), "covers": covers})
        if isinstance(rest, Value):
            rows.append({"items": _pair(UNKNOWN, rest), "values": rest, "keys": UNKNOWN}[name])
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


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import replacing as _replacing  # noqa: E402
from . import tensors as _tensors  # noqa: E402
from . import training as _training  # noqa: E402

__all__ = [
    "BUILTINS",
    "Items",
    "Method",
    "call_builtin",
    "call_container",
    "compare",
    "comprehension",
    "iterate",
    "unpacked",
]
