"""What operations do to tensors: the abstract autograd graph, built from the facts that were learned from torch."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

from .. import ir, torchlib
from ..facts import (
    AGREEMENT,
    ANY_DTYPE,
    ANY_RANK,
    FLOAT,
    FOREIGN,
    INFERENCE,
    INT,
    LOSS,
    MANY,
    MAYBE,
    NO_WRITES,
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
    Mapping,
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
    Surely,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Writes,
    element,
    flags_hold,
    join,
    replace,
)
from ..findings import Place
from ..messages import say
from . import events, shapes
from .interp import Args, Interpreter

BINARY = {
    "+": "torch.add", "-": "torch.sub", "*": "torch.mul", "/": "torch.div", "//": "torch.floor_divide", "%": "torch.remainder",
    "**": "torch.pow", "@": "torch.matmul", "&": "torch.bitwise_and", "|": "torch.bitwise_or", "^": "torch.bitwise_xor",
    "<<": "torch.bitwise_left_shift", ">>": "torch.bitwise_right_shift",
}  # fmt: skip

# What a leaf is after `.to(...)`: itself or a copy, which depends on the machine.
MOVED = frozenset({"leaf-moved", "parameter-moved"})
# How many tensors these give depends on sizes; the facts have the number of one sample.
PARTS = frozenset({"split", "chunk", "unbind", "split_with_sizes", "unsafe_chunk", "unsafe_split"})

# Operations on one tensor: what else they are given are sizes, dimensions and indices.
SHAPING = PARTS | frozenset(
    "view reshape expand repeat permute transpose unsqueeze squeeze flatten unflatten narrow roll flip sum mean std var "
    "movedim swapaxes tile repeat_interleave softmax log_softmax logsumexp cumsum norm select t size argmax topk".split()
)

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


@dataclass
class Inputs:
    """The tensors among an operation's inputs."""

    nodes: list[Node] = field(default_factory=list)
    sure: bool = False  # at least one input surely requires grad
    cuts: list[Cut] = field(default_factory=list)
    unknown: bool = False  # an input is not known: it may require grad
    tensors: list[Tensor] = field(default_factory=list)
    numbers: bool = False
    inference: bool = False

    def add(self, run: Interpreter, value: object) -> None:
        for part in (value,) if type(value) is Tensor else flatten(value):
            if isinstance(part, Tensor):
                self.tensors.append(part)
                self.inference = self.inference or part.inference
                node, sure = graph_of(part)
                if node is not None:
                    self.nodes.append(node)
                    self.sure = self.sure or sure
                elif not sure:
                    self.unknown = True
                if part.cuts:
                    self.cuts += part.cuts
            elif isinstance(part, Unknown):
                self.unknown = self.unknown or not part.foreign  # what other libraries give has no graph of torch's
            elif isinstance(part, (Number, Array)):
                self.numbers = True
                if part.cut is not None:
                    self.cuts.append(part.cut)


def leaf_graph(leaf: Leaf) -> tuple[Node | None, bool]:
    """The same of a leaf."""
    flag = leaf.cells.get("requires_grad")
    if flag is False:
        return None, True
    # Made in inference mode, it is a leaf to some operations and none to others.
    return leaf.node, flag is True and not leaf.cells.get("inference")


def graph_of(tensor: Tensor) -> tuple[Node | None, bool]:
    """The graph that a new operation on the tensor would continue, and whether that is sure."""
    if tensor.leaf is not None:
        node, sure = leaf_graph(tensor.leaf)
        return node, sure and tensor.certain
    if tensor.node is None:
        return None, tensor.certain
    if tensor.node.phi and not flags_hold(tensor.node):
        return tensor.node, False
    if tensor.tag in MOVED:
        # A leaf, or a copy of it: it has a graph either way.
        node = tensor.node
        while node.leaf is None and len(node.inputs) == 1:
            node = node.inputs[0]
        return tensor.node, node.leaf is not None and node.leaf.cells.get("requires_grad") is True
    return tensor.node, tensor.certain


def possible_leaves(tensor: Tensor) -> list[Leaf]:
    """The leaf that a tensor is, or those of which it is one (the join of parameters that a loop made)."""
    if tensor.leaf is not None:
        return [tensor.leaf]
    found: list[Leaf] = []
    todo = [tensor.node] if tensor.node is not None and tensor.node.phi else []
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.leaf is not None:
            found.append(node.leaf)
        elif node.phi:
            todo += reversed(node.inputs)
        else:
            return []
    return found


def flatten(value: object, depth: int = 3) -> Iterator[Value]:
    """The tensors, numbers and unknowns in a value."""
    if isinstance(value, (Tensor, Number, Array)):
        yield value
    elif isinstance(value, ParameterOf):
        yield as_tensor(value)
    elif isinstance(value, Parameters):
        yield as_tensor(ParameterOf(value.leaves))
    elif isinstance(value, Unknown):
        yield value
    elif isinstance(value, Sequence) and depth:
        items = value.cells.get("items")
        for item in items if isinstance(items, tuple) else (element(value), *surely(value)):
            yield from flatten(item, depth - 1)
    elif isinstance(value, Mapping) and depth:
        if not value.complete:
            yield UNKNOWN
        for item in value.cells.values():
            yield from flatten(item, depth - 1)
    elif isinstance(value, (Range,)) and depth:
        yield from flatten(value.each, depth - 1)
    elif isinstance(value, Union):
        if any(isinstance(o, (Tensor, Unknown, Object)) for o in value.options):
            yield UNKNOWN
    elif (
        isinstance(value, Object)
        and isinstance(value.cls, External)
        and value.cls.name.startswith("torch.distributions.")
    ):
        made = value.cells.get("args")
        for argument in made.all() if isinstance(made, Args) and depth else ():
            yield from flatten(argument, depth - 1)
    elif is_packed(value):
        yield from flatten(value.attrs["data"], depth - 1)
    elif isinstance(value, Object) and not (isinstance(value.cls, External) and value.cls.name.startswith("torch.")):
        yield UNKNOWN


def surely(value: object) -> Surely:
    """What was appended to a list of unknown length on every way here, while nothing was taken out of it."""
    known = value.cells.get("surely") if isinstance(value, Sequence) else None
    return known if isinstance(known, Surely) else NOTHING


NOTHING = Surely()


PACKED = "torch.nn.utils.rnn.PackedSequence"


def packed(data: Tensor, place: Place | None) -> Object:
    """What `pack_padded_sequence` makes: rows of sequences without the padding, in `.data`."""
    return Object(External(PACKED), place, {"data": data}, label="PackedSequence")


def is_packed(value: object) -> TypeGuard[Object]:
    return isinstance(value, Object) and isinstance(value.cls, External) and value.cls.name == PACKED


def as_tensor(value: ParameterOf) -> Tensor:
    if len(value.leaves) == 1 and value.leaves[0].kind != "weights":
        leaf = value.leaves[0]
        return Tensor(leaf=leaf, node=leaf.node, dtype=FLOAT, storage=leaf.storage)
    live = [leaf for leaf in value.leaves if leaf.cells.get("requires_grad") is not False]
    if not live:
        return Tensor(dtype=FLOAT, certain=bool(value.leaves))
    nodes = tuple(leaf.node for leaf in live if leaf.node is not None)
    sure = value.all_of and all(leaf.cells.get("requires_grad") is True for leaf in live)
    return Tensor(node=Node("parameters", None, nodes, phi=not value.all_of), certain=sure, dtype=FLOAT)


# ---------------------------------------------------------------- one operation


# Arithmetic and reductions after which a rising measure still rises.
MEASURING = frozenset(["+", "*", "/", "add", "mul", "div", "true_divide", "sum", "mean", "float", "double", "half", "long", "int", "to", "type", "cpu", "cuda", "detach", "data", "squeeze", "view", "reshape", "round", "clone", "stack", "cat", "topk"])  # fmt: skip


def operate(
    run: Interpreter,
    name: str,
    inputs: list[Value],
    e: ir.Expr | ir.Stmt | None,
    args: Args | None = None,
    shown: str = "",
    shift: int = 0,
) -> Value:
    """Apply the torch operation `name` to its inputs (`self` first); `args` are those of the call as written.

    `shift` is 1 for a method call, where the positions of `args` do not count `self`.
    """
    op = torchlib.op(name)
    if op is None:
        return UNKNOWN
    result = compute(run, op, inputs, e, args, shown, shift)
    if type(result) is Tensor:  # just made: nobody else has it
        result.measure = measured(name, inputs) or result.measure
        if op.reduction is None or result.rank == MANY:
            shapes.give(result, shapes.of_op(op.short, op.sizes == "broadcast", inputs, args, shift))
    elif isinstance(result, Sequence) and op.short in ("max", "min", "median"):  # values and indices
        items = result.cells.get("items")
        shape = shapes.of_op("amax", False, inputs, args, shift)
        if isinstance(items, tuple) and shape is not None:
            both = tuple(shapes.shaped(item, shape) if isinstance(item, Tensor) else item for item in items)
            result = Sequence(result.kind, {**result.cells, "items": both}, result.place)
    return result


def measured(name: str, inputs: list[Value]) -> str:
    """What the result of an operation measures (see `facts.Number.measure`)."""
    own = _measure(name)
    if own is not None:
        return own
    found = {v.measure for v in inputs if isinstance(v, (Tensor, Number)) and v.measure}
    return found.pop() if len(found) == 1 else ""


@functools.cache
def _measure(name: str) -> str | None:
    """What the result of an operation measures whatever goes in; None: what its inputs do."""
    short = name.rpartition(".")[2].rstrip("_")
    if short == "eq":
        return AGREEMENT
    if short in MEASURING:
        return None
    if name.startswith("torch.nn.functional."):
        op = torchlib.op(name)
        return LOSS if op is not None and op.reduction is not None else ""
    return ""


def compute(
    run: Interpreter,
    op: torchlib.Op,
    inputs: list[Value],
    e: ir.Expr | ir.Stmt | None,
    args: Args | None = None,
    shown: str = "",
    shift: int = 0,
) -> Value:
    place = run.place(e.at) if e is not None else None
    shown = shown or op.short
    found = Inputs()
    lost: list[Cut] = []
    apart = op.inputs and op.grad in ("flows", "partial")
    for index, value in enumerate(inputs):
        flow = op.inputs.get(str(index)) if apart else None
        if flow in ("none", "zero"):
            part = Inputs()
            part.add(run, value)
            if part.nodes and part.sure and place is not None:
                kind = "op" if flow == "none" else "zero"
                lost.append(Cut(f"{shown}(...)", kind, place, tuple(part.nodes), stack=run.stack))
            found.cuts.extend(part.cuts)
            found.tensors.extend(part.tensors)
            found.unknown = found.unknown or (part.unknown and flow == "zero")
            continue
        if index and isinstance(value, Unknown) and op.short in SHAPING:
            continue  # a size or a dimension
        found.add(run, value)
    if args is not None:
        for key, value in args.keywords.items():
            if key not in ("dtype", "device", "dim", "out"):
                found.add(run, value)
    found.cuts.extend(lost)
    rank = rank_of(run, op, found, args, shift)
    if op.grad == "meta":
        return meta(run, op.short, inputs)
    if op.grad in ("like", "factory", "int_only"):
        dtype = op.outputs[0].dtype if op.outputs else ""
        kind = INT if dtype in ("int", "bool") else ANY_DTYPE
        # `one_hot` and its like say what was chosen; what is only like another tensor has nothing of its values.
        cuts = tuple(dict.fromkeys(found.cuts)) if op.grad == "int_only" else ()
        return Tensor(cuts=cuts, rank=rank, dtype=kind, storage=Storage(), made=place)
    if op.grad == "cut_value":
        return value_of(run, op, found, shown, place)
    if op.grad == "raises":
        return Array(cut_of(run, found, f".{shown}()", "numpy", place)) if "numpy" in op.name else UNKNOWN
    average = op.reduction is not None and is_average(args, op.reduction)
    outputs = op.outputs
    if op.outputs_dim and args is not None and dim_given(op, args):
        outputs = op.outputs_dim
    if op.grad in ("depends", "untested") or not outputs:
        return one_output(run, op, "flows", found, shown, place, rank, inputs, sure=False)
    results = [
        one_output(
            run,
            op,
            output.grad if op.grad != "cut_dtype" else "none",
            found,
            shown,
            place,
            rank,
            inputs,
            True,
            output.dtype,
        )
        for output in outputs
        if output.kind.startswith("tensor")
    ]
    if not results:
        return UNKNOWN
    if average and results[0].node is not None:
        results[0].node.average = True
    if (op.varies and not gives_one(op, inputs, args, shift)) or op.short in PARTS:
        return Sequence("tuple", {"items": None, "each": results[0]}, place)
    if len(outputs) > 1:
        return Sequence("tuple", {"items": tuple(results)}, place)
    return results[0]


FREES = {"always": True, "never": False}  # whether a second backward through an operation raises


def one_output(
    run: Interpreter,
    op: torchlib.Op,
    grad: str,
    found: Inputs,
    shown: str,
    place: Place | None,
    rank: str,
    inputs: list[Value],
    sure: bool,
    dtype: str = "float",
) -> Tensor:
    kind = INT if dtype in ("int", "bool") else FLOAT if dtype == "float" else ANY_DTYPE
    storage = Storage()
    if op.alias == "always" and inputs and isinstance(inputs[0], Tensor) and inputs[0].storage is not None:
        storage = inputs[0].storage
    if grad == "none":
        cuts = list(found.cuts)
        if found.nodes and place is not None:
            cuts.append(lost_here(run, Cut(shown, "op", place, tuple(found.nodes), stack=run.stack)))
        return Tensor(None, tuple(dict.fromkeys(cuts)), True, rank, kind, storage=storage, made=place)
    result = recorded(
        run, shown, found, place, rank, kind, storage,
        zero=grad == "zero", error=op.error if grad == "error" else "", sure=sure,
        saves=FREES.get(op.frees), view=op.alias != "never" and not op.inplace,
        saved=saved_by(run, op, inputs, storage), op=op.name,
    )  # fmt: skip
    if op.alias == "always" and result.node is None and not result.inference:
        source = inputs[0] if inputs else None
        if isinstance(source, Tensor) and source.inference:  # a view of an inference tensor is one, wherever it is made
            result = replace(result, inference=True, mode=source.mode, made=source.made)
    if result.node is not None:
        short = op.short.rstrip("_")
        result.node.average = short == "mean" and rank == SCALAR
        if short in ("div", "mul", "true_divide", "divide", "multiply") and len(inputs) == 2:
            result.node.by = next((v for v in inputs if not isinstance(v, (Tensor, ParameterOf))), None)
    return result


# Functions that give one tensor unless a flag asks for more: the flags, and how many arguments may stand before them.
FLAGGED: dict[str, tuple[tuple[str, ...], int]] = {
    **{f"max_pool{n}d": (("return_indices",), 6) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": (("return_indices",), 2) for n in (1, 2, 3)},
    **{f"fractional_max_pool{n}d": (("return_indices",), 4) for n in (2, 3)},
    "nonzero": (("as_tuple",), 1),
    "unique": (("return_inverse", "return_counts"), 2),
    "unique_consecutive": (("return_inverse", "return_counts"), 1),
}


def gives_one(op: torchlib.Op, inputs: list[Value], args: Args | None, shift: int) -> bool:
    """Whether an operation that may give several tensors surely gives one here."""
    short = op.short
    if args is None or args.spread:
        return False
    if short.startswith("atleast_"):
        return len(inputs) == 1 and isinstance(inputs[0], Tensor)
    flags, before = FLAGGED.get(short, ((), 0))
    off = (args.keywords.get(flag) for flag in flags)
    plain = all(flag is None or (isinstance(flag, Const) and not flag.value) for flag in off)
    return bool(flags) and plain and len(args.positional) + shift <= before


def is_average(args: Args | None, position: int | None) -> bool:
    """Whether a loss takes the mean over its elements: torch's default, and what `reduction="mean"` says."""
    value = args.get(position, "reduction", Const("mean")) if args is not None else Const("mean")
    return isinstance(value, Const) and value.value == "mean"


def recorded(
    run: Interpreter,
    shown: str,
    found: Inputs,
    place: Place | None,
    rank: str = ANY_RANK,
    dtype: str = FLOAT,
    storage: Storage | None = None,
    zero: bool = False,
    error: str = "",
    sure: bool = True,
    saves: bool | None = None,
    view: bool = False,
    saved: tuple[tuple[Storage, int], ...] = (),
    op: str = "",
) -> Tensor:
    """The result of a differentiable operation under the present grad mode."""
    mode = run.state.mode
    cuts = tuple(dict.fromkeys(found.cuts)) if found.cuts else ()
    storage = storage or Storage()
    inference = mode.kind == INFERENCE
    kind = "inference" if inference else "mode"
    by = mode.place if inference else None

    def without_graph(certain: bool) -> Tensor:
        return Tensor(
            None, cuts, certain, rank, dtype, storage=storage, made=place, inference=inference, mode=by, tag=op
        )  # fmt: skip

    if not found.nodes:
        if mode.kind in (OFF, INFERENCE) and not view:
            # Whatever the inputs were, nothing is recorded here.
            if found.unknown and mode.place is not None and place is not None:
                cuts = (*cuts, Cut(mode.how, kind, place, (), mode, run.stack))
            return without_graph(True)
        return without_graph(not found.unknown)
    if mode.kind in (OFF, INFERENCE):
        if view:  # a view made now lies about `requires_grad` (claim M27)
            return without_graph(False)
        if place is not None and found.sure:
            cut = Cut(mode.how, kind, place, tuple(found.nodes), mode, run.stack)
            cuts = (*cuts, lost_here(run, cut))
        return without_graph(True)
    node = Node(
        shown, place, tuple(dict.fromkeys(found.nodes)), cuts, saves=saves, zero=zero, error=error,
        opaque=found.unknown, stack=run.stack, saved=saved,
    )  # fmt: skip
    certain = sure and found.sure and mode.kind != MAYBE
    if mode.kind == MAYBE and mode.off is not None and place is not None:
        cuts = (*cuts, Cut(mode.off.how, "mode", place, tuple(found.nodes), mode.off, run.stack))
    return Tensor(node, cuts, certain, rank, dtype, storage=storage, made=place, tag=op)


def saved_by(run: Interpreter, op: torchlib.Op, inputs: list[Value], out: Storage) -> tuple[tuple[Storage, int], ...]:
    """What the operation keeps for backward, with the version that it has now."""
    saved: list[tuple[Storage, int]] = []
    for argument, kept in _kept_by(op.name):
        if argument >= len(inputs):
            continue
        value = inputs[argument]
        if isinstance(value, ParameterOf):
            value = as_tensor(value)
        if not isinstance(value, Tensor):
            continue
        node, sure = graph_of(value)
        if node is None or not sure:
            continue
        if run.state.mode.records:
            refuse_inference(run, [inputs[w] for w in kept if w is not None and w < len(inputs)])
        for what in kept:
            if what is None:
                first = inputs[0]
                if op.inplace and isinstance(first, Tensor) and first.storage is not None:
                    now = version(first.storage)  # the write that makes the output is still to come
                    if now is not None:
                        saved.append((first.storage, now + 1))
                else:
                    saved.append((out, 0))
            elif op.inplace and what == 0:
                continue
            elif what < len(inputs):
                other = inputs[what]
                if isinstance(other, ParameterOf):
                    other = as_tensor(other)
                if isinstance(other, Tensor) and other.storage is not None:
                    save(saved, other.storage)
    return tuple(saved)


@functools.cache
def _kept_by(name: str) -> tuple[tuple[int, tuple[int | None, ...]], ...]:
    """For each argument that may require grad: what an operation keeps for backward, by position; None is the output."""
    op = torchlib.op(name)
    assert op is not None
    # What was learned of an operation in place on several tensors may be of one of the others. Of one tensor it is exact:
    # `elu_` needs what it has written where `elu` needs its input.
    plain = torchlib.op(op.name.removesuffix("_")) if op.inplace and op.saves.keys() != {"0"} else None
    found: list[tuple[int, tuple[int | None, ...]]] = []
    for argument, kept in op.saves.items():
        if not argument.isdigit():
            continue
        if plain is not None:  # it has the same derivative, and the same tensors in it
            kept = [what for what in kept if what in plain.saves.get(argument, kept)]
        positions = [None if what == "out" else int(what) for what in kept if what == "out" or what.isdigit()]
        found.append((int(argument), tuple(positions)))
    return tuple(found)


def refuse_inference(run: Interpreter, values: list[Value]) -> None:
    """Torch raises when a tensor that was made in inference mode has to be saved for backward."""
    for value in values:
        if isinstance(value, Tensor) and value.inference and value.made is not None:
            trail = (
                (run.place_now(), say("an operation that records has to save it for backward")),
                (value.made, say("it is made here")),
            )
            run.record(events.Raised(value.made, run.stack, "inference-tensor", "", trail, {"mode": value.mode}))


def version(storage: Storage) -> int | None:
    """The storage's version counter now; None if it is not known."""
    writes = storage.cells.get("writes", NO_WRITES)
    return len(writes.places) if isinstance(writes, Writes) and writes.exact else None


def save(saved: list[tuple[Storage, int]], storage: Storage) -> None:
    """Remember that backward will need what the storage holds now."""
    now = version(storage)
    if now is not None:
        saved.append((storage, now))


def lost_here(run: Interpreter, cut: Cut) -> Cut:
    run.record(events.Lost(cut.place, run.stack, cut))
    return cut


def cut_of(run: Interpreter, found: Inputs, how: str, kind: str, place: Place | None) -> Cut | None:
    """The cut that taking a value out of these inputs makes; an earlier one if the graph was lost before."""
    if found.nodes and place is not None and found.sure:
        return lost_here(run, Cut(how, kind, place, tuple(found.nodes), stack=run.stack))
    return found.cuts[-1] if found.cuts else None


def value_of(run: Interpreter, op: torchlib.Op, found: Inputs, shown: str, place: Place | None) -> Value:
    kind = op.outputs[0].kind if op.outputs else ""
    if "ndarray" in kind or shown in ("numpy", "__array__"):
        return Array(cut_of(run, found, ".numpy()", "numpy", place))
    number = Number(cut_of(run, found, f".{shown}()", "number", place), place, f".{shown}()")
    if shown == "tolist":
        if found.tensors and found.tensors[0].rank == SCALAR:
            return number
        return Sequence("list", {"items": None, "each": number}, place)
    return number


def rank_of(run: Interpreter, op: torchlib.Op, found: Inputs, args: Args | None, shift: int) -> str:
    if op.shape == "scalar":
        if op.reduction is not None and args is not None:
            value = args.get(op.reduction, "reduction", Const("mean"))
            if isinstance(value, Const):
                return SCALAR if value.value != "none" else shapes.unreduced(found.tensors)
            return ANY_RANK
        return SCALAR
    if op.shape == "reduce":
        tensors = len(found.tensors)
        if args is not None and dim_given(op, args):
            return ANY_RANK
        if op.short in ("max", "min") and (tensors > 1 or found.unknown):
            return ANY_RANK
        return SCALAR
    if op.shape == "elementwise":
        ranks = {t.rank for t in found.tensors}
        if MANY in ranks:
            return MANY if op.sizes == "broadcast" or op.short in GROWING else ANY_RANK
        return SCALAR if ranks == {SCALAR} and not found.unknown else ANY_RANK
    if op.alias == "always" and op.short in (
        "view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "unsqueeze",
        "flatten",
    ):
        return MANY if any(t.rank == MANY for t in found.tensors) else ANY_RANK
    return ANY_RANK


# Whatever comes out of these has at least as many elements as each of what went in.
GROWING = frozenset({"cat", "concat", "concatenate", "hstack", "vstack", "dstack", "stack"})


def dim_given(op: torchlib.Op, args: Args) -> bool:
    if args.spread:
        return True
    return any(
        name in args.keywords or (0 <= index < len(args.positional) and not isinstance(args.positional[index], Tensor))
        for name, index in op.dim.items()
    )


def meta(run: Interpreter, short: str, inputs: list[Value]) -> Value:
    if short in ("size", "stride") and len(inputs) > 1:
        return Number()
    if short in ("shape", "size", "stride"):
        return Range(Number()) if short != "stride" else UNKNOWN
    if short in ("dim", "ndim", "numel", "nelement", "element_size", "get_device", "itemsize", "nbytes", "__len__"):
        return Number()
    if short == "requires_grad" and inputs and isinstance(inputs[0], Tensor):
        node, sure = graph_of(inputs[0])
        return Const(node is not None) if sure else UNKNOWN
    return UNKNOWN


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
        one.cells["written"] = True
    keep_by_hand(run, target)
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


def behind_data(tensor: Tensor) -> tuple[Leaf, ...]:
    """The parameters one of which has this `.data`."""
    of = tensor.storage.cells.get("of") if tensor.storage is not None else None
    return of if isinstance(of, tuple) else (of,) if isinstance(of, Leaf) else ()


def keep_by_hand(run: Interpreter, target: Tensor) -> None:
    """A parameter that a forward itself writes (a moving average, a codebook) is not left to an optimizer."""
    if run.frame.instance is not None:
        for leaf in (target.leaf,) if target.leaf is not None else behind_data(target):
            leaf.cells["kept-by-hand"] = True


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


def bump(run: Interpreter, storage: Storage, place: Place) -> None:
    writes = storage.cells.setdefault("writes", NO_WRITES)  # a branch that writes nothing leaves it so
    run.state.set(storage.cells, "writes", writes.add(place) if isinstance(writes, Writes) else Writes((), False))


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
    elif isinstance(target, ir.Attr):
        owner = run.eval(target.value)
        if isinstance(owner, Object) and owner.attrs.get(target.name) is old:
            run.state.set(owner.attrs, target.name, value)


# ---------------------------------------------------------------- attributes


def tensor_attribute(run: Interpreter, value: Tensor, name: str, e: ir.Attr) -> Value:
    place = run.place(e.at)
    if name == "data":
        if value.leaf is not None:
            return Tensor(dtype=FLOAT, tag="data-of-leaf", storage=Storage({"of": value.leaf}))
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
            leaf.cells["grad-read"] = True
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
        return _training.backward(run, tensor, args, e)
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
    if name == "__array__":
        name = "numpy"
    if name == "numpy":
        found = Inputs()
        found.add(run, tensor)
        return Array(cut_of(run, found, ".numpy()", "numpy", place))
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
