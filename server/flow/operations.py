"""One operation of torch: its result, its node in the abstract autograd graph, what it saves and what is cut.

All of it is read from the facts that were learned from torch (`torchlib`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeGuard

from .. import ir, torchlib
from ..facts import (
    AGREEMENT,
    ANY_DTYPE,
    ANY_RANK,
    FLOAT,
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
    Leaf,
    Mapping,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Storage,
    Surely,
    Tensor,
    Union,
    Unknown,
    Value,
    Writes,
    element,
    flags_hold,
    replace,
)
from ..findings import Place
from ..messages import say
from . import events, shapes
from .frames import Args

if TYPE_CHECKING:
    from .interp import Interpreter

# What a leaf is after `.to(...)`: itself or a copy, which depends on the machine.
MOVED = frozenset({"leaf-moved", "parameter-moved"})
# How many tensors these give depends on sizes; the facts have the number of one sample.
PARTS = frozenset({"split", "chunk", "unbind", "split_with_sizes", "unsafe_chunk", "unsafe_split"})

# Operations on one tensor: what else they are given are sizes, dimensions and indices.
SHAPING = PARTS | frozenset(
    "view reshape expand repeat permute transpose unsqueeze squeeze flatten unflatten narrow roll flip sum mean std var "
    "movedim swapaxes tile repeat_interleave softmax log_softmax logsumexp cumsum norm select t size argmax topk".split()
)


@dataclass(slots=True)
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


def bump(run: Interpreter, storage: Storage, place: Place) -> None:
    if "writes" not in storage.cells:
        run.state.put(storage.cells, "writes", NO_WRITES)  # a branch that writes nothing leaves it so
    writes = storage.cells["writes"]
    run.state.set(storage.cells, "writes", writes.add(place) if isinstance(writes, Writes) else Writes((), False))


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
