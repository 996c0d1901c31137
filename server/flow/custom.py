"""`torch.autograd.Function`: what applying one does, and whether `backward` returns as many gradients as it has inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    INT,
    OFF,
    UNKNOWN,
    Class,
    Cut,
    External,
    Function,
    Mapping,
    Mode,
    Node,
    Object,
    ParameterOf,
    Sequence,
    Tensor,
    Value,
    Wrapped,
    replace,
)
from ..findings import Place
from ..messages import say
from . import events
from .calls import call
from .frames import Args
from .objects import find
from .operations import Inputs, as_tensor, lost_here, recorded

if TYPE_CHECKING:
    from .interp import Interpreter

BASE = "torch.autograd.Function"
# Methods of a tensor that give one tensor, whatever their arguments are, beyond those that the facts know.
ONE = frozenset(["clone", "to", "float", "double", "half", "contiguous", "type", "cuda", "cpu", "detach"])


def apply_function(run: Interpreter, cls: Class, args: Args, e: ir.Call | None) -> Value:
    """`Function.apply(...)`: one operation of the graph; what its `forward` computes is not recorded."""
    if not args.spread and not args.keywords:
        check_gradients(run, cls, len(args.positional))
    place = run.place(e.at) if e is not None else cls.place
    forward = find(cls, "forward", run)
    found = Inputs()
    blocked = {} if args.spread else no_gradient(run, cls, len(args.positional))
    for index, value in enumerate(args.positional):
        part = Inputs()
        part.add(run, value)
        if isinstance(value, (Sequence, Mapping)):
            # Autograd looks at the arguments and not into them.
            if part.nodes and part.sure:
                how = f"{cls.name}.apply([...])"
                found.cuts.append(lost_here(run, Cut(how, "op", place, tuple(part.nodes), stack=run.stack)))
            found.cuts.extend(part.cuts)
        elif index in blocked and part.nodes:
            # Autograd passes the input by: what comes before gets nothing from here.
            node = Node(f"{cls.name}.backward(...)", blocked[index], tuple(part.nodes), zero=True, stack=run.stack)
            found.add(run, Tensor(node=node, certain=part.sure))
        else:
            found.add(run, value)
    if forward is None:
        return UNKNOWN
    function = forward[0].function if isinstance(forward[0], Wrapped) else forward[0]
    given = [_plain(value) for value in args.positional]
    if find(cls, "setup_context", run) is None:
        given.insert(0, Object(External("torch.autograd.function.FunctionCtx"), place, label="ctx"))
    mode = run.state.mode
    run.state.mode = Mode(OFF)
    result = call(run, function, Args(given, {}, args.spread), e)
    run.state.mode = mode
    return _recorded(run, cls, result, found, place)


def _plain(value: Value) -> Value:
    """A tensor as `forward` sees it: nothing that it does there is recorded."""
    if isinstance(value, ParameterOf):
        value = as_tensor(value)
    if isinstance(value, Tensor):
        return replace(value, node=None, leaf=None, cuts=(), certain=True)
    return value


def _recorded(run: Interpreter, cls: Class, result: Value, found: Inputs, place: Place) -> Value:
    if isinstance(result, Sequence) and isinstance(result.cells.get("items"), tuple):
        items = result.cells["items"]
        return Sequence("tuple", {"items": tuple(_recorded(run, cls, item, found, place) for item in items)}, place)  # type: ignore[attr-defined]
    if isinstance(result, Tensor):
        if result.dtype == INT:
            return result
        return recorded(run, cls.name, found, place, result.rank, saves=None)
    tensor = recorded(run, cls.name, found, place, saves=None)
    return replace(tensor, certain=False)


def check_gradients(run: Interpreter, cls: Class, inputs: int | None = None) -> None:
    """Record `Raised` for each `return` of a Function's `backward` that has the wrong number of values.

    `inputs` is how many arguments it was applied to, if that is known.
    """
    forward, backward = (_function(run.force(cls.names, name)) for name in ("forward", "backward"))
    if forward is None or backward is None or _may_be_compiled(run, cls, inputs is not None):
        return
    if "mark_non_differentiable" in forward.unit.text:
        return  # nothing may ever go backward through it
    # Without `ctx` if `setup_context` is there.
    first = 0 if "setup_context" in cls.names else 1
    params = forward.code.params[first:]
    least = sum(1 for p in params if p.kind in ("pos", "arg") and p.default is None)
    most = None if any(p.kind in ("*", "**", "kw") for p in params) else len(params)
    if inputs is not None and inputs >= least:
        least = most = inputs
    code = backward.code
    if not isinstance(code, ir.Def) or code.is_generator:
        return
    single = {p.name for p in code.params if p.kind in ("pos", "arg")}
    for statement in returns(code.body, backward):
        if statement.value is None:
            continue
        found = _count(statement.value, single, code.body)
        if found is None:
            continue
        values, extra_none = found
        if values < least or (most is not None and values - extra_none > most):
            start, end = ir.unpack(statement.value.at)
            place = Place(cls.module.path, backward.base + start, backward.base + end)
            expected = say("1 input") if least == 1 else say("{n} inputs", n=least)
            if most is None:
                expected = say("at least {n} inputs", n=least)
            elif most != least:
                expected = say("{least} to {most} inputs", least=least, most=most)
            data: dict[str, object] = {"name": cls.name, "expected": expected, "got": values, "missing": least - values}
            run.record(events.Raised(place, run.stack, "function-gradient-count", cls.name, data=data))


def _may_be_compiled(run: Interpreter, cls: Class, applied: bool) -> bool:
    """Whether the Function may be applied in compiled code, where inputs at the end may go without a gradient.

    Tried on torch: `torch.compile` asks only for the gradients of tensors. A class that is only defined is judged where
    its own file applies it.
    """
    if run.compiled is not None:
        return True
    texts = [cls.module.source.text]
    if not applied and f"{cls.name}.apply" not in texts[0]:
        return True
    if applied and not run.alone:
        return False  # a program that runs here, and not compiled
    texts.append(run.frame.module.source.text)
    return any("compile" in text and ("torch.compile" in text or ".compile(" in text) for text in texts)


def no_gradient(run: Interpreter, cls: Class, inputs: int) -> dict[int, Place]:
    """The inputs for which `backward` gives None wherever it returns, and the place of (one) such None."""
    backward = _function(run.force(cls.names, "backward"))
    if backward is None or not isinstance(backward.code, ir.Def) or backward.code.is_generator:
        return {}
    text = backward.unit.text
    if text.count("backward(") > 1 or ".grad" in text:
        return {}  # it goes backward itself, and the gradients need no `return`
    blocked: dict[int, Place] | None = None
    for statement in returns(backward.code.body, backward):
        value = statement.value
        parts = value.items if isinstance(value, ir.Tuple) else (value,)
        if len(parts) < inputs or any(part is None or isinstance(part, ir.Star) for part in parts):
            return {}
        here = {
            index: Place(cls.module.path, *(backward.base + offset for offset in ir.unpack(part.at)))
            for index, part in enumerate(parts)
            if isinstance(part, ir.Const) and part.value is None
        }
        blocked = here if blocked is None else {index: place for index, place in here.items() if index in blocked}
    return blocked or {}


def _function(value: Value | None) -> Function | None:
    if isinstance(value, Wrapped):
        value = value.function
    return value if isinstance(value, Function) else None


def returns(body: ir.Body, function: Function) -> Iterator[ir.Return]:
    """The `return` statements of a function, not those of functions in it."""
    for s in body:
        if isinstance(s, ir.Return):
            yield s
        elif isinstance(s, (ir.If, ir.For, ir.While)):
            yield from returns(s.body, function)
            yield from returns(s.orelse, function)
        elif isinstance(s, ir.With):
            yield from returns(s.body, function)
        elif isinstance(s, ir.Try):
            for part in (s.body, s.orelse, s.final, *(h.body for h in s.handlers)):
                yield from returns(part, function)


def _count(value: ir.Expr, single: set[str], body: ir.Body) -> tuple[int, int] | None:
    """How many values are returned, and how many of the last are None; None if that is not known."""
    if isinstance(value, ir.Tuple):
        if any(isinstance(item, ir.Star) for item in value.items):
            return None
        extra = 0
        for item in reversed(value.items):
            if not isinstance(item, ir.Const) or item.value is not None:
                break
            extra += 1
        return len(value.items), extra
    if isinstance(value, ir.Const) and value.value is None:
        return 1, 1
    return (1, 0) if _is_single(value, single, body) else None


def _is_single(value: ir.Expr, single: set[str], body: ir.Body, depth: int = 6) -> bool:
    """Whether an expression surely is one tensor."""
    if depth == 0:
        return False
    if isinstance(value, ir.Name):
        stores = [s for s in _stores(body) if _binds(s, value.id)]
        if not stores:
            return value.id in single
        return all(
            isinstance(s, ir.AugAssign)
            or (isinstance(s, ir.Assign) and all(isinstance(t, ir.Name) for t in s.targets)
            and _is_single(s.value, single if value.id in single else single | {value.id}, (), depth - 1))
            or (isinstance(s, ir.Assign) and all(isinstance(t, ir.Sub) for t in s.targets))
            for s in stores
        )  # fmt: skip
    if isinstance(value, ir.Bin):
        sides = (value.left, value.right)
        return any(_is_single(side, single, body, depth - 1) for side in sides) and not any(
            isinstance(side, (ir.Tuple, ir.List)) for side in sides
        )
    if isinstance(value, ir.Unary):
        return _is_single(value.value, single, body, depth - 1)
    if isinstance(value, ir.Call) and isinstance(value.func, ir.Attr):
        op = torchlib.method(value.func.name)
        gives_one = value.func.name in ONE or (
            op is not None and len(op.outputs) == 1 and not op.varies and not op.outputs_dim
        )
        return gives_one and _is_single(value.func.value, single, body, depth - 1)
    return False


def _stores(body: ir.Body) -> Iterator[ir.Stmt]:
    for s in body:
        if isinstance(s, (ir.Assign, ir.AugAssign)):
            yield s
        elif isinstance(s, (ir.If, ir.For, ir.While)):
            if isinstance(s, ir.For):
                yield s
            yield from _stores(s.body)
            yield from _stores(s.orelse)
        elif isinstance(s, ir.With):
            yield from _stores(s.body)
        elif isinstance(s, ir.Try):
            for part in (s.body, s.orelse, s.final, *(h.body for h in s.handlers)):
                yield from _stores(part)


def _binds(s: ir.Stmt, name: str) -> bool:
    targets = s.targets if isinstance(s, ir.Assign) else (s.target,)  # type: ignore[union-attr]
    return any(_mentions(target, name) for target in targets)


def _mentions(target: ir.Expr, name: str) -> bool:
    if isinstance(target, ir.Name):
        return target.id == name
    if isinstance(target, (ir.Tuple, ir.List)):
        return any(_mentions(item, name) for item in target.items)
    if isinstance(target, (ir.Sub, ir.Star)):
        return _mentions(target.value, name)
    return False
