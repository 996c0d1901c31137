"""Tensors in Python: operators, items, attributes and methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    ANY_DTYPE,
    ANY_RANK,
    FLOAT,
    FOREIGN,
    INFERENCE,
    INT,
    OFF,
    SCALAR,
    UNKNOWN,
    Array,
    Const,
    Cut,
    External,
    Function,
    GradOf,
    Leaf,
    Method,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Scope,
    Sequence,
    Storage,
    Tensor,
    Text,
    Unknown,
    Value,
    element,
    join,
    replace,
)
from ..findings import Place
from . import events, shapes
from .frames import Args
from .operations import (
    MEASURING,
    MOVED,
    Inputs,
    as_tensor,
    bump,
    cut_of,
    graph_of,
    leaf_graph,
    lost_here,
    operate,
    possible_leaves,
    recorded,
)

if TYPE_CHECKING:
    from .interp import Interpreter

BINARY = {
    "+": "torch.add", "-": "torch.sub", "*": "torch.mul", "/": "torch.div", "//": "torch.floor_divide", "%": "torch.remainder",
    "**": "torch.pow", "@": "torch.matmul", "&": "torch.bitwise_and", "|": "torch.bitwise_or", "^": "torch.bitwise_xor",
    "<<": "torch.bitwise_left_shift", ">>": "torch.bitwise_right_shift",
}  # fmt: skip

INT_DTYPES = frozenset(
    f"torch.{n}"
    for n in [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "short",
        "int",
        "long",
        "bool",
        "uint16",
        "uint32",
        "uint64",
        "LongTensor",
        "IntTensor",
    ]
)
FLOAT_DTYPES = frozenset(f"torch.{n}" for n in ["float", "float16", "float32", "float64", "half", "double", "bfloat16"])


# ---------------------------------------------------------------- operators


NUMERIC = frozenset({Const, Number})


def binary(run: Interpreter, op: str, left: Value, right: Value, e: ir.Bin) -> Value:
    # What is most frequent first, by exact type: this is asked for each operator that is met.
    kinds = type(left), type(right)
    if kinds[0] in NUMERIC and kinds[1] in NUMERIC:
        return binary_numbers(op, left, right)  # type: ignore[arg-type]
    if kinds[0] is Unknown and kinds[1] is Unknown:
        return FOREIGN if left.foreign and right.foreign else UNKNOWN  # type: ignore[union-attr]
    for value, expression in ((left, e.left), (right, e.right)):
        if isinstance(value, GradOf):
            _training.count_with_grad(run, value, op, expression)
    if isinstance(left, (Tensor, ParameterOf)) or isinstance(right, (Tensor, ParameterOf)):
        if isinstance(left, Tensor) and left.opaque and not isinstance(right, Unknown):
            right_node = graph_of(right)[0] if isinstance(right, Tensor) else None
            if right_node is None and not isinstance(right, ParameterOf):
                both = shapes.of_op(op, True, [left, right], None, 0)
                return replace(
                    left, cuts=right.cuts if isinstance(right, Tensor) and right.cuts else left.cuts, shape=both
                )
        result = operate(run, BINARY[op], [left, right], e, shown=op)
        if op == "+" and isinstance(result, Tensor) and result.live:
            dead_term(run, left, right, result, e)
        return result
    if isinstance(left, GradOf) or isinstance(right, GradOf):
        return Tensor(dtype=FLOAT)
    if all(isinstance(v, (Const, Number)) or (isinstance(v, Unknown) and v.foreign) for v in (left, right)) and (
        isinstance(left, Unknown) or isinstance(right, Unknown)
    ):
        return FOREIGN
    if isinstance(left, Sequence) and isinstance(right, Sequence) and op == "+":
        a, b = left.cells.get("items"), right.cells.get("items")
        if isinstance(a, tuple) and isinstance(b, tuple):
            return Sequence(left.kind, {"items": a + b}, run.place(e.at))
        cells = {"items": None, "each": join(element(left), element(right)), "parts": (left, right)}
        return Sequence(left.kind, cells, run.place(e.at))
    if isinstance(left, Sequence) and op == "*":
        items = left.cells.get("items")
        if (
            isinstance(items, tuple)
            and isinstance(right, Const)
            and isinstance(right.value, int)
            and right.value * len(items) <= 8
        ):
            return Sequence(left.kind, {"items": items * right.value}, run.place(e.at))
        return Sequence(left.kind, {"items": None, "each": element(left)}, run.place(e.at))
    if isinstance(left, Parameters) or isinstance(right, Parameters):
        return UNKNOWN
    if isinstance(left, Text) or isinstance(right, Text) or (isinstance(left, Const) and isinstance(left.value, str)):
        return Text()
    if isinstance(left, Array) or isinstance(right, Array):
        cut = next((v.cut for v in (left, right) if isinstance(v, (Array, Number)) and v.cut is not None), None)
        return Array(cut) if not isinstance(left, Unknown) and not isinstance(right, Unknown) else UNKNOWN
    if isinstance(left, Object) or isinstance(right, Object):
        return operator_method(run, op, left, right, e)
    return UNKNOWN


def binary_numbers(op: str, left: Const | Number, right: Const | Number) -> Value:
    if isinstance(left, Const) and isinstance(right, Const):
        return fold(op, left.value, right.value)
    if any(isinstance(v, Const) and isinstance(v.value, str) for v in (left, right)):
        return Text()
    merged = merged_number((left, right))
    return merged if op in MEASURING or not merged.measure else replace(merged, measure="")


def dead_term(run: Interpreter, left: Value, right: Value, result: Tensor, e: ir.Bin) -> None:
    """Record a sum of scalars of which one has lost its graph."""
    for dead, live in ((left, right), (right, left)):
        if not (isinstance(dead, Tensor) and dead.dead and dead.cuts and dead.rank == SCALAR and not dead.opaque):
            continue
        if isinstance(live, Tensor) and live.live and live.rank == SCALAR:
            run.record(events.DeadTerm(run.place(e.at), run.stack, dead.cuts, result.node))


def merged_number(values: Iterable[Value]) -> Number:
    """A number computed from others: it remembers one that came out of a graph, or else out of a tensor."""
    numbers = [v for v in values if isinstance(v, Number)]
    kept = next((v for v in numbers if v.cut is not None), next((v for v in numbers if v.source is not None), None))
    measures = {v.measure for v in numbers if v.measure}
    measure = measures.pop() if len(measures) == 1 else ""
    return Number(kept.cut, kept.source, kept.how, measure) if kept is not None else Number(measure=measure)


DUNDER = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
          "&": "and", "|": "or", "^": "xor"}  # fmt: skip


def operator_method(run: Interpreter, op: str, left: Value, right: Value, e: ir.Bin) -> Value:
    if isinstance(left, Object) and op in DUNDER:
        member = _objects.find(left.cls, f"__{DUNDER[op]}__", run)
        if member is not None and isinstance(member[0], Function):
            return _calls.call(run, _objects.bound(member[0], left), Args([right], {}), None)
    return UNKNOWN


def fold(op: str, a: object, b: object) -> Value:
    """Arithmetic on constants, where it is small and harmless."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        try:
            if op == "+":
                return Const(a + b)
            if op == "-":
                return Const(a - b)
            if op == "*" and abs(a) < 1e9 and abs(b) < 1e9:
                return Const(a * b)
            if op == "/":
                return Const(a / b)
            if op == "//":
                return Const(a // b)
            if op == "%":
                return Const(a % b)
            if op == "**" and abs(a) < 1e3 and abs(b) < 16:
                return Const(a**b)
        except (ZeroDivisionError, OverflowError, ValueError):
            pass
        return Number()
    if isinstance(a, str) and isinstance(b, str) and op == "+" and len(a) + len(b) < 200:
        return Const(a + b)
    return Text() if isinstance(a, str) else UNKNOWN


def unary(run: Interpreter, op: str, value: Value, e: ir.Unary) -> Value:
    if isinstance(value, (Tensor, ParameterOf)):
        return operate(
            run,
            "torch.neg" if op == "-" else "torch.bitwise_not" if op == "~" else "torch.positive",
            [value],
            e,
            shown=op,
        )
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and op == "-":
        return Const(-value.value)
    if isinstance(value, Number):
        return replace(value, measure="")
    if isinstance(value, GradOf):
        return Tensor(dtype=FLOAT)
    return UNKNOWN


def inplace_binary(run: Interpreter, op: str, old: Value, value: Value, s: ir.AugAssign) -> Value:
    """`target op= value`: what the method in place does, `mul_` for `*=`, which saves less than `mul`."""
    written_as = ir.Bin(s.at, op, s.target, s.value)
    target = as_tensor(old) if isinstance(old, ParameterOf) else old
    assert isinstance(target, Tensor)
    if isinstance(value, (Object, GradOf)):
        result = binary(run, op, old, value, written_as)
    else:
        result = operate(run, f"{BINARY[op].replace('torch.', 'torch.Tensor.')}_", [old, value], written_as, shown=op)
        if op == "+" and isinstance(result, Tensor) and result.live:
            dead_term(run, old, value, result, written_as)
    return written(run, target, result, run.place(s.at), f"{op}=", keep=isinstance(old, ParameterOf), old=old)


def written(
    run: Interpreter,
    target: Tensor,
    result: Value,
    place: Place,
    how: str,
    keep: bool = False,
    old: Value | None = None,
) -> Value:
    """What a tensor is after it was written in place with the graph of `result`."""
    leaf = leaf_below(target)
    if isinstance(old, ParameterOf) and all(one.cells.get("requires_grad") is True for one in old.leaves):
        leaf = next(iter(old.leaves), None)
    run.record(events.InPlace(place, run.stack, target, how, run.state.mode, leaf))
    if target.storage is not None:
        bump(run, target.storage, place)
    leaves = (target.leaf,) if target.leaf is not None else ()
    below = old.leaves if isinstance(old, ParameterOf) else behind_data(target)
    if isinstance(old, ParameterOf) and old.all_of and [one.kind for one in old.leaves] != ["weights"]:
        for one in old.leaves:  # in a loop over all of them, and not by their names, where it may be the bias alone
            bump(run, one.storage, place)
    for one in below:
        run.state.put(one.cells, "written", True)
    keep_by_hand(run, target, below, how)
    if target.leaf is not None and isinstance(result, Tensor) and result.dead:
        return target  # a frozen leaf stays the leaf that it is
    if leaves and run.state.mode.kind in (OFF, INFERENCE):
        return target
    if keep:
        return old if old is not None else target
    if isinstance(result, Tensor):
        if run.state.mode.kind in (OFF, INFERENCE) and target.node is not None:
            return target  # writing under no_grad leaves the graph of the target as it was
        return replace(result, storage=target.storage, rank=target.rank if target.rank != ANY_RANK else result.rank)
    return target if not isinstance(result, Unknown) else Tensor(certain=False, storage=target.storage)


def read_at(run: Interpreter, leaf: Leaf, place: Place) -> None:
    """Note where the gradient of a leaf is read."""
    places = leaf.cells.get("grad-read-at", {})
    assert isinstance(places, dict)
    run.state.put(leaf.cells, "grad-read-at", {**places, place: None})


def behind_data(tensor: Tensor) -> tuple[Leaf, ...]:
    """The parameters one of which has this `.data`."""
    of = tensor.storage.cells.get("of") if tensor.storage is not None else None
    return of if isinstance(of, tuple) else (of,) if isinstance(of, Leaf) else ()


# Writing in place that leaves a parameter in the hands of its optimizer: it keeps within bounds what training makes of it.
_BOUNDS = frozenset(["clamp_", "clip_", "clamp_min_", "clamp_max_", "renorm_"])


def keep_by_hand(run: Interpreter, target: Tensor, leaves: Iterable[Leaf], how: str) -> None:
    """A parameter that a forward itself writes (a codebook), or that the program writes after a step (a moving average
    of what was trained), is not left to an optimizer."""
    if run.frame.instance is not None or (
        run.notes.get("stepped") and how.partition("(")[0].lstrip(".") not in _BOUNDS
    ):
        for leaf in (target.leaf, *leaves) if target.leaf is not None else leaves:
            run.state.put(leaf.cells, "kept-by-hand", True)


def leaf_below(target: Tensor) -> Leaf | None:
    """The leaf that is written when this tensor is, if it requires grad now: itself, or the leaf of which it is a view."""
    leaf = target.leaf
    node = target.node if target.tag not in MOVED else None
    while leaf is None and node is not None and not node.phi and len(node.inputs) == 1:
        node = node.inputs[0]
        leaf = node.leaf
    if leaf is None or leaf.cells.get("requires_grad") is not True:
        return None
    return leaf if target.leaf is leaf or leaf.storage is target.storage else None


# ---------------------------------------------------------------- items


def index_tensor(run: Interpreter, value: Value, index: Value, e: ir.Sub) -> Value:
    if isinstance(value, ParameterOf):
        value = as_tensor(value)
    assert isinstance(value, Tensor)
    shape = shapes.of_index(value.shape, index)
    if value.opaque:
        return value if value.shape is None else replace(value, shape=shape)
    found = Inputs()
    found.add(run, value)
    inside = Inputs()
    inside.add(run, index)
    found.cuts.extend(inside.cuts)
    if inside.nodes and inside.sure:
        found.cuts.append(Cut("used as an index", "op", run.place(e.at), tuple(inside.nodes), stack=run.stack))
    place = run.place(e.at)
    result = recorded(run, "[...]", found, place, storage=value.storage, dtype=value.dtype, saves=False, view=True)
    return shapes.shaped(result, shape)


def element_of(run: Interpreter, value: Tensor) -> Value:
    """What iterating over a tensor gives."""
    if value.opaque:
        return value if value.shape is None else replace(value, shape=value.shape[1:] or None)
    found = Inputs()
    found.add(run, value)
    each = recorded(run, "unbind", found, value.made, dtype=value.dtype, saves=False, view=True)
    if value.inference and each.node is None:
        each = replace(each, inference=True, mode=value.mode)
    return shapes.shaped(each, value.shape[1:] if value.shape else None)


def write_into(run: Interpreter, owner: Value, value: Value, target: ir.Sub) -> None:
    """`owner[index] = value`"""
    tensor = as_tensor(owner) if isinstance(owner, ParameterOf) else owner
    assert isinstance(tensor, Tensor)
    if tensor.opaque:
        return
    found = Inputs()
    found.add(run, tensor)
    found.add(run, value)
    place = run.place(target.at)
    result = recorded(run, "[...] =", found, place, tensor.rank, tensor.dtype, saves=False)
    after = written(run, tensor, result, place, "[...] =")
    if isinstance(after, Tensor):
        rebind(run, target.value, after if after is tensor else shapes.shaped(after, tensor.shape), tensor)


def write_into_array(run: Interpreter, owner: Array, value: Value, target: ir.Expr, place: Place) -> None:
    """`owner[index] = value` of NumPy: the array has what was taken out of a tensor from now on."""
    found = Inputs()
    found.add(run, value)
    cut = cut_of(run, found, "[...] =", "numpy", place)
    if cut is not None and owner.cut is None:
        rebind(run, target, Array(cut), owner)


def rebind(run: Interpreter, target: ir.Expr, value: Value, old: Value) -> None:
    """A tensor was changed in place: the names through which it is reached now stand for the new knowledge.

    Of a view of the same memory nothing is known then.
    """
    scope: Scope | None = run.frame.scope
    storage = old.storage if isinstance(old, Tensor) else None
    while scope is not None:
        for name, other in list(scope.names.items()):
            if other is old:
                run.state.set(scope.names, name, value)
            elif storage is None or not isinstance(other, Tensor) or other.storage is not storage or other is value:
                continue
            elif other.leaf is None:
                run.state.set(scope.names, name, replace(other, certain=False))
        scope = scope.up
    if isinstance(target, ir.Name):
        run.bind(target.id, value)
    elif isinstance(target, ir.Sub) and isinstance(old, Array):  # `rows[i][j] = x`
        rebind(run, target.value, value, old)
    elif isinstance(target, ir.Attr):
        owner = run.eval(target.value)
        if isinstance(owner, Object) and owner.attrs.get(target.name) is old:
            run.state.set(owner.attrs, target.name, value)


# ---------------------------------------------------------------- attributes


def tensor_attribute(run: Interpreter, value: Tensor, name: str, e: ir.Attr) -> Value:
    place = run.place(e.at)
    if name == "data":
        if value.leaf is not None:
            cuts = data_of(run, (value.leaf,), place)
            return Tensor(None, cuts, dtype=FLOAT, tag="data-of-leaf", storage=Storage({"of": value.leaf}))
        found = Inputs()
        found.add(run, value)
        cuts = list(value.cuts)
        if found.nodes and value.certain:
            cuts.append(lost_here(run, Cut(".data", "data", place, tuple(found.nodes), stack=run.stack)))
        # It shares the memory, but not the count of the writes.
        return Tensor(
            None, tuple(cuts), True, value.rank, value.dtype, opaque=value.opaque, storage=Storage(), made=place
        )
    if name == "grad":
        leaves = tuple(possible_leaves(value))
        for leaf in leaves:
            run.state.put(leaf.cells, "grad-read", True)
            read_at(run, leaf, place)
        return GradOf(leaves, value)
    if name == "requires_grad":
        node, sure = graph_of(value)
        return Const(node is not None) if sure and not value.opaque else UNKNOWN
    if name in ("grad_fn", "is_leaf", "device", "dtype", "layout", "is_cuda"):
        return UNKNOWN
    if name in ("shape",):
        return Range(Number())
    if name in SAME or name in FLAGS:
        return Method(value, name)
    op = torchlib.method(name)
    if op is None:
        return value if value.opaque else Unknown()
    if not op.attribute:
        return Method(value, name)
    if value.opaque:
        return replace(value, shape=None) if op.grad in ("flows", "partial") else UNKNOWN
    return operate(run, f"torch.Tensor.{name}", [value], e)


def data_of(run: Interpreter, leaves: tuple[Leaf, ...], place: Place) -> tuple[Cut, ...]:
    """Where the values of leaves are taken without them; nothing if one of the leaves may require no grad."""
    found = [leaf_graph(leaf) for leaf in leaves]
    nodes = tuple(node for node, sure in found if node is not None and sure)
    return (Cut(".data", "data", place, nodes, stack=run.stack),) if nodes and len(nodes) == len(found) else ()


def number_of(run: Interpreter, value: Value, how: str, place: Place | None) -> Number:
    """A Python number taken out of a tensor."""
    found = Inputs()
    found.add(run, value)
    if run.compiled is not None and place is not None:
        run.record(events.GraphBreak(place, run.stack, how, run.compiled))
    return Number(
        cut_of(run, found, how, "number", place), place, how, value.measure if isinstance(value, Tensor) else ""
    )


# ---------------------------------------------------------------- methods

FLAGS = frozenset({"requires_grad_", "register_hook", "retain_grad", "register_post_accumulate_grad_hook"})
CAST_INT = frozenset({"long", "int", "short", "char", "byte", "bool"})
SAME = frozenset({"to", "cuda", "cpu", "xpu", "float", "double", "half", "bfloat16", "type", "contiguous", "type_as"})


def call_method(run: Interpreter, owner: Value, name: str, args: Args, e: ir.Call | None) -> Value:
    """`tensor.name(...)`"""
    tensor = as_tensor(owner) if isinstance(owner, ParameterOf) else owner
    assert isinstance(tensor, Tensor)
    place = run.place(e.at) if e is not None else None
    if name == "backward":
        return _backward.backward(run, tensor, args, e)
    if name in FLAGS:
        return _training.tensor_flag(run, owner, name, args, e)
    if name in ("detach", "detach_"):
        if isinstance(owner, ParameterOf) and tensor.storage is None:
            tensor = replace(tensor, storage=Storage({"of": owner.leaves}))
        return detach(run, tensor, name, place, e)
    if name in SAME:
        result = convert(run, owner, tensor, name, args, place)
        return (
            replace(result, shape=tensor.shape) if isinstance(result, Tensor) and tensor.shape is not None else result
        )
    if name in ("new_tensor",):
        return rewrap(run, args.positional[0] if args.positional else UNKNOWN, args, place, ".new_tensor()")
    if name in ("numpy", "__array__"):
        found = Inputs()
        found.add(run, tensor)
        cut = cut_of(run, found, ".numpy()", "numpy", place)
        if found.sure and place is not None and args.get(0, "force", None) is None:
            refuse_numpy(run, place, cut)
        return Array(cut)
    if name in ("item", "tolist"):
        if name == "tolist" and tensor.rank != SCALAR:
            number = number_of(run, tensor, ".tolist()", place)
            return Sequence("list", {"items": None, "each": number}, place)
        return number_of(run, tensor, f".{name}()", place)
    if name in ("share_memory_", "pin_memory", "record_stream"):
        return owner
    op = torchlib.method(name)
    if op is None:
        return Tensor(certain=False) if not tensor.opaque else replace(tensor, shape=None)
    result = operate(run, f"torch.Tensor.{name}", [tensor, *args.positional], e, args, shown=name, shift=1)
    if "requires_grad" in args.keywords and isinstance(result, Tensor) and result.dead:
        return with_flag(run, result, args, place, f".{name}(...)")
    if op.inplace:
        if tensor.opaque:
            if tensor.shape is None or not isinstance(result, Tensor) or result.shape == tensor.shape:
                return owner
            other = replace(tensor, shape=result.shape)
            if e is not None and isinstance(e.func, ir.Attr):
                rebind(run, e.func.value, other, tensor)
            return other
        expression = e.func.value if e is not None and isinstance(e.func, ir.Attr) else None
        return changed(run, owner, tensor, result, place, name, f".{name}()", expression)
    if tensor.opaque and isinstance(result, Tensor) and not args.positional:
        return replace(result, opaque=True)
    return result


def refuse_numpy(run: Interpreter, place: Place, cut: Cut | None, several: bool = False) -> None:
    """A tensor (one of `several`) that surely requires grad is given to NumPy: torch raises while gradients are recorded."""
    if run.state.mode.records and not any(frame.caught for frame in run.frames):
        run.record(events.Raised(place, run.stack, "numpy-of-grad", "", data={"cut": cut, "several": several}))


def changed(
    run: Interpreter,
    owner: Value,
    tensor: Tensor,
    result: Value,
    place: Place | None,
    name: str,
    how: str,
    expression: ir.Expr | None,
) -> Value:
    """What a call returns that has written its first tensor, `owner`, in place; `expression` is how that is reached."""
    if isinstance(result, Tensor) and result.dead and tensor.live and run.state.mode.records:
        # Overwritten: it still requires grad, and its gradient is zero.
        node = Node(
            name, place, (tensor.node,) if tensor.node is not None else (), result.cuts, zero=True, stack=run.stack
        )
        result = replace(result, node=node)
    elif isinstance(result, Tensor) and result.dead and not tensor.dead:
        result = replace(result, certain=False)
    after = written(run, tensor, result, place, how, isinstance(owner, ParameterOf), owner) if place else result
    if expression is not None and isinstance(after, Tensor):
        rebind(run, expression, after, tensor)
    if isinstance(owner, Tensor) and owner.tag == "data-of-leaf":
        return owner
    return after


def detach(run: Interpreter, tensor: Tensor, name: str, place: Place | None, e: ir.Call | None) -> Value:
    found = Inputs()
    found.add(run, tensor)
    cuts = list(tensor.cuts)
    if found.nodes and place is not None:
        cuts.append(lost_here(run, Cut(f".{name}()", "detach", place, tuple(found.nodes), stack=run.stack)))
    elif not tensor.certain and place is not None:
        cuts.append(Cut(f".{name}()", "detach", place, (), stack=run.stack))
    result = replace(
        tensor, node=None, cuts=tuple(dict.fromkeys(cuts)), certain=True, leaf=None, made=place,
        storage=tensor.storage, inference=tensor.inference,
    )  # fmt: skip
    if name == "detach_" and tensor.leaf is not None:
        run.state.set(tensor.leaf.cells, "requires_grad", False)
        return tensor
    if name == "detach_" and e is not None and isinstance(e.func, ir.Attr):
        rebind(run, e.func.value, result, tensor)
    return result


def _changes_nothing(name: str, args: Args) -> bool:
    """`.float()`, `.cpu()` and the like on a leaf as torch makes it: float32, in the machine's own memory."""
    usual = ("torch.float32", "torch.float")
    plain = all(
        (isinstance(v, Const) and v.value == "cpu") or (isinstance(v, External) and v.name in usual) for v in args.all()
    )
    return not args.spread and plain and (name in ("float", "cpu", "contiguous") or (name == "to" and bool(args.all())))


def convert(run: Interpreter, owner: Value, tensor: Tensor, name: str, args: Args, place: Place | None) -> Value:
    """`.to(...)` and its relatives: the graph goes on, unless the dtype is one that can't carry it."""
    names = [v.name for v in args.all() if isinstance(v, External)]
    integer = name in CAST_INT or any(n in INT_DTYPES for n in names)
    if tensor.opaque:
        return tensor
    found = Inputs()
    found.add(run, tensor)
    if integer:
        cuts = list(found.cuts)
        if found.nodes and found.sure and place is not None:
            cuts.append(lost_here(run, Cut(f".{name}(...)", "op", place, tuple(found.nodes), stack=run.stack)))
        return Tensor(None, tuple(cuts), True, tensor.rank, INT, storage=Storage(), made=place, measure=tensor.measure)
    if tensor.leaf is not None and _changes_nothing(name, args):
        return owner
    casts = name in ("float", "double", "half", "bfloat16", "type") or any(n in FLOAT_DTYPES for n in names)
    if not casts and isinstance(owner, ParameterOf):
        return owner
    same = name == "float" or (name == "to" and len(args.all()) == 1 and names == ["torch.float32"])
    if same and tensor.leaf is not None and tensor.leaf.kind == "parameter":
        return owner  # what a Parameter is as a rule
    if tensor.leaf is not None:
        # On the device and in the dtype that it has, the very same tensor comes back; elsewhere a new one (facts).
        tag = "parameter-moved" if tensor.leaf.kind == "parameter" else "leaf-moved"
        node = Node(
            f".{name}(...)", place, (tensor.leaf.node,) if tensor.leaf.node else (), saves=False, stack=run.stack
        )
        live = run.state.mode.records and tensor.leaf.cells.get("requires_grad") is True
        return Tensor(
            node if live else None, (), False, tensor.rank, FLOAT, tag=tag, storage=tensor.storage, made=place
        )
    if not found.nodes:
        return replace(tensor, made=tensor.made)
    return recorded(run, name, found, place, tensor.rank, tensor.dtype if not casts else FLOAT, tensor.storage, saves=False,
                    view=True, op=tensor.tag)  # fmt: skip


def rewrap(run: Interpreter, value: Value, args: Args, place: Place | None, how: str) -> Tensor:
    """`torch.tensor(value)`: a new tensor of the value, without its graph."""
    found = Inputs()
    found.add(run, value)
    cuts = list(found.cuts)
    if found.nodes and place is not None:
        cuts.append(lost_here(run, Cut(how, "rewrap", place, tuple(found.nodes), stack=run.stack)))
    rank = (
        SCALAR
        if isinstance(value, (Number, Const))
        else found.tensors[0].rank
        if isinstance(value, Tensor)
        else ANY_RANK
    )
    dtype = ANY_DTYPE
    wanted = args.get(None, "dtype", None)
    if isinstance(wanted, External):
        dtype = INT if wanted.name in INT_DTYPES else FLOAT
    elif isinstance(value, Const):
        dtype = FLOAT if isinstance(value.value, float) else INT
    made = Tensor(None, tuple(dict.fromkeys(cuts)), True, rank, dtype, storage=Storage(), made=place)
    return with_flag(run, made, args, place, how)


def with_flag(run: Interpreter, tensor: Tensor, args: Args, place: Place | None, how: str) -> Tensor:
    """A factory's result, a leaf if it was asked for with `requires_grad=True`."""
    flag = args.keywords.get("requires_grad")
    if flag is None:
        return tensor
    truth = run.truth(flag)
    if truth is True and run.state.mode.kind == INFERENCE:
        return replace(tensor, certain=False)  # a leaf to some operations, and none to others
    if truth is True:
        leaf = Leaf(how, place, "tensor")
        leaf.storage = tensor.storage or leaf.storage
        if tensor.cuts and place is not None:
            run.record(events.GradFlag(place, run.stack, f"{how} with requires_grad=True", tensor, True, tensor))
        return replace(tensor, leaf=leaf, node=leaf.node, dtype=FLOAT, storage=leaf.storage)
    return tensor if truth is False else replace(tensor, certain=False)


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import training as _training  # noqa: E402
from .training import backward as _backward  # noqa: E402
