"""What each kind of expression evaluates to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import ir
from ..facts import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Const,
    Mapping,
    Sequence,
    Text,
    Union,
    Unknown,
    Value,
    join,
    join_all,
)
from . import calls, objects, python, tensors, training

if TYPE_CHECKING:
    from .interp import Interpreter


def _const(run: Interpreter, e: ir.Const) -> Value:
    return Const(e.value)


def _name(run: Interpreter, e: ir.Name) -> Value:
    return run.lookup(e.id)


def _attr(run: Interpreter, e: ir.Attr) -> Value:
    return objects.get_attribute(run, run.eval(e.value), e.name, e)


def _sub(run: Interpreter, e: ir.Sub) -> Value:
    return objects.get_item(run, run.eval(e.value), run.eval(e.index), e)


def _slice(run: Interpreter, e: ir.Slice) -> Value:
    parts = [run.eval(p) if p is not None else NONE for p in (e.lower, e.upper, e.step)]
    return Sequence("slice", {"items": tuple(parts)})


def _call(run: Interpreter, e: ir.Call) -> Value:
    run.tick()
    run.at = e.at
    func_e = e.func
    if type(func_e) is ir.Name and func_e.id == "super" and not e.keywords:
        return objects.super_of(run, [run.eval(a) for a in e.args])
    if type(func_e) is ir.Attr:
        owner = run.eval(func_e.value)
        if isinstance(owner, Unknown):
            return calls.unknown_method(run, owner, func_e.name, run.arguments(e), e)
        func = objects.get_attribute(run, owner, func_e.name, func_e)
        if func_e.name == "backward" and isinstance(func, (Unknown, Union)):
            training.unknown_backward(run)  # of one of several, some of which are not known
        if run.watch is not None:
            run.observe(func_e, func)
    else:
        func = run.eval(func_e)
    return calls.call(run, func, run.arguments(e), e)


def _bin(run: Interpreter, e: ir.Bin) -> Value:
    # Long chains lean to the left: walk down instead of recursing.
    chain: list[ir.Bin] = []
    left: ir.Expr = e
    while isinstance(left, ir.Bin):
        chain.append(left)
        left = left.left
    value = run.eval(left)
    for link in reversed(chain):
        value = tensors.binary(run, link.op, value, run.eval(link.right), link)
    return value


def _unary(run: Interpreter, e: ir.Unary) -> Value:
    value = run.eval(e.value)
    if e.op == "not":
        truth = run.truth(value)
        return Union((TRUE, FALSE)) if truth is None else (FALSE if truth else TRUE)
    return tensors.unary(run, e.op, value, e)


def _bool(run: Interpreter, e: ir.Bool) -> Value:
    stop = e.op == "or"
    results: list[Value] = []
    for index, part in enumerate(e.values):
        value = run.eval(part)
        truth = run.truth(value)
        last = index == len(e.values) - 1
        if truth is stop or last:
            results.append(value)
            break
        if truth is None:
            results.append(value)
    return join_all(results) if results else UNKNOWN  # type: ignore[return-value]


def _compare(run: Interpreter, e: ir.Compare) -> Value:
    left = run.eval(e.left)
    result: Value | None = None
    for op, right_e in zip(e.ops, e.rights, strict=True):
        right = run.eval(right_e)
        value = python.compare(run, op, left, right, e)
        result = value if result is None else join(result, value)  # type: ignore[assignment]
        left = right
    return result if result is not None else UNKNOWN


def _ifexp(run: Interpreter, e: ir.IfExp) -> Value:
    truth = run.truth(run.eval(e.test))
    if truth is not None:
        return run.eval(e.body if truth else e.orelse)
    results: list[Value] = []

    def way(part: ir.Expr, outcome: bool) -> Callable[[], bool]:
        def take() -> bool:
            run.assume(e.test, outcome)
            results.append(run.eval(part))
            return False

        return take

    run.branch(way(e.body, True), way(e.orelse, False))
    return join_all(results)


def _display(run: Interpreter, e: ir.Tuple | ir.List | ir.Set) -> Value:
    kind = {ir.Tuple: "tuple", ir.List: "list", ir.Set: "set"}[type(e)]
    items: list[Value] = []
    parts: list[Value] = []
    known = True
    for item in e.items:
        if isinstance(item, ir.Star):
            value = run.eval(item.value)
            parts.append(value)
            inner = value.cells.get("items") if isinstance(value, Sequence) else None
            if isinstance(inner, tuple):
                items.extend(inner)
            else:
                known = False
                items.append(python.iterate(run, value, item.value).each)
        else:
            items.append(run.eval(item))
            parts.append(Sequence("list", {"items": (items[-1],)}))
    place = run.place(e.at)
    if known:
        return Sequence(kind, {"items": tuple(items)}, place)
    return Sequence(kind, {"items": None, "each": join_all(items), "parts": tuple(parts)}, place)


def _dict(run: Interpreter, e: ir.Dict) -> Value:
    mapping = Mapping({}, run.place(e.at))
    open_ended = False
    for key_e, value_e in zip(e.keys, e.values, strict=True):
        value = run.eval(value_e)
        if key_e is None:
            if isinstance(value, Mapping):
                mapping.cells.update(value.cells)
                mapping.complete = mapping.complete and value.complete
            else:
                mapping.complete, open_ended = False, True
            continue
        key = run.eval(key_e)
        if isinstance(key, Const):
            mapping.cells["key", key.value] = value
        else:
            mapping.complete = False
            mapping.cells["rest"] = join(mapping.cells["rest"], value) if "rest" in mapping.cells else value
    if open_ended:
        mapping.cells.pop("covers", None)
    return mapping


def _comp(run: Interpreter, e: ir.Comp) -> Value:
    return python.comprehension(run, e)


def _lambda(run: Interpreter, e: ir.Lambda) -> Value:
    return run.make_function(e)


def _await(run: Interpreter, e: ir.Await) -> Value:
    run.eval(e.value)
    return UNKNOWN


def _yield(run: Interpreter, e: ir.Yield) -> Value:
    value = run.eval(e.value) if e.value is not None else NONE
    run.frame.yields.append((value, run.state.mode))
    run.frame.protected = run.frame.protected and bool(run.frame.cleanups)
    return UNKNOWN


def _yield_from(run: Interpreter, e: ir.YieldFrom) -> Value:
    value = run.eval(e.value)
    run.frame.yields.append((run.each(value), run.state.mode))
    return UNKNOWN


def _joined(run: Interpreter, e: ir.Joined) -> Value:
    for value in e.values:
        run.eval(value)
    return Text()


def _walrus(run: Interpreter, e: ir.Walrus) -> Value:
    value = run.eval(e.value)
    run.assign(e.target, value)
    return value


def _star(run: Interpreter, e: ir.Star) -> Value:
    return run.each(run.eval(e.value))


def _hole(run: Interpreter, e: ir.Hole) -> Value:
    run.note_hole()
    return Unknown(doubt="hole")


EXPRESSIONS: dict[type, Callable[[Interpreter, object], Value]] = {
    ir.Const: _const,
    ir.Name: _name,
    ir.Attr: _attr,
    ir.Sub: _sub,
    ir.Slice: _slice,
    ir.Call: _call,
    ir.Bin: _bin,
    ir.Unary: _unary,
    ir.Bool: _bool,
    ir.Compare: _compare,
    ir.IfExp: _ifexp,
    ir.Tuple: _display,
    ir.List: _display,
    ir.Set: _display,
    ir.Dict: _dict,
    ir.Comp: _comp,
    ir.Lambda: _lambda,
    ir.Await: _await,
    ir.Yield: _yield,
    ir.YieldFrom: _yield_from,
    ir.Joined: _joined,
    ir.Walrus: _walrus,
    ir.Star: _star,
    ir.Hole: _hole,
}  # type: ignore[assignment]
