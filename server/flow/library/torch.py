"""Calls of torch's functions and classes: each finds what interprets it.

Here are torch's operations as functions, the objects of its classes that are no modules, and the functions that call
others or are of no family: `compile`, `checkpoint`, `spawn`, `autocast`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import ir, torchlib
from ...facts import (
    DEFAULT_MODE,
    FALSE,
    NONE,
    OFF,
    TRUE,
    UNKNOWN,
    Const,
    Context,
    Cut,
    External,
    Function,
    Leaf,
    Mode,
    Number,
    Object,
    ParameterOf,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    replace,
)
from ...findings import Place
from .. import events, functional, replacing
from ..calls import call, escape, under
from ..events import called_event
from ..frames import Args
from ..modes import ENTERED, make_context
from ..modules import call_module_method, initialize, make_module
from ..objects import AVERAGED, MODULE, MODULE_METHODS, WRAPPERS
from ..operations import Inputs, bump, lost_here, operate
from ..tensors import call_method, changed, with_flag
from ..training import Phases, autograd_call, make_optimizer
from .copies import clone, refuse_copy
from .factories import FACTORIES, make_tensor
from .nn_utils import NN_UTILS, t_recorded

if TYPE_CHECKING:
    from ..interp import Interpreter


def call_torch(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    if name in ENTERED:
        return make_context(run, name, args, e) if e is not None else UNKNOWN
    handler = TORCH.get(name)
    if handler is not None:
        return handler(run, args, e)
    place = run.place(e.at) if e is not None else None
    if (torchlib.module(name) is not None or name in WRAPPERS) and place is not None:
        return make_module(run, name, args, place, e)
    if torchlib.optimizer(name) is not None and place is not None:
        obj = Object(External(name), place, label=name.rpartition(".")[2])
        make_optimizer(run, obj, args, place)
        return obj
    if (torchlib.scheduler(name) is not None or name.startswith(LIBRARY_OBJECTS)) and place is not None:
        return make_object(run, name, args, place, e)
    factory = torchlib.factory(name)
    if (factory is not None and torchlib.op(name) is None) or (factory is not None and not args.positional):
        return make_tensor(run, name, factory, args, place)
    if factory is not None:
        found = Inputs()
        for value in args.positional:
            found.add(run, value)
        if not found.tensors:
            return make_tensor(run, name, factory, args, place)
    if torchlib.op(name) is not None:
        return torch_function(run, name, args, e)
    head, _, tail = name.rpartition(".")
    if tail in MODULE_METHODS and (head == MODULE or torchlib.module(head) is not None) and args.positional:
        # `nn.Module.__init__(self)`: a method of the base class, called with the instance
        inner = Args(args.positional[1:], args.keywords, args.spread, args.places[1:])
        owner = args.positional[0]
        if tail == "__init__" and isinstance(owner, Object) and place is not None:
            initialize(run, owner, head, inner, place)
            return NONE
        if not isinstance(owner, Object):
            replacing.unknown_method(run, tail, inner)
            return UNKNOWN
        return call_module_method(run, owner, tail, inner, e)
    if name.startswith("torch.Tensor."):
        owner = args.positional[0] if args.positional else UNKNOWN
        if isinstance(owner, (Tensor, ParameterOf)):
            rest = Args(args.positional[1:], args.keywords, args.spread, args.places[1:])
            return call_method(run, owner, name.rpartition(".")[2], rest, e)
        return UNKNOWN
    if name.startswith("torch.nn.init.") and name.endswith("_"):
        if e is not None and args.positional:
            initialized(run, args.positional[0], e)
        return args.positional[0] if args.positional else UNKNOWN
    if name.startswith(SETTINGS):
        return UNKNOWN
    for value in args.all():
        escape(run, value)
    return UNKNOWN


def initialized(run: Interpreter, value: Value, e: ir.Call) -> None:
    """An initializer writes in place: a graph that has saved the parameter does not go backward any more."""
    leaf = value.leaf if isinstance(value, Tensor) else None
    if isinstance(value, ParameterOf) and len(value.leaves) == 1:
        leaf = value.leaves[0]
    if leaf is not None and leaf.kind == "weights":
        first = e.args[0] if e.args else None  # of a layer the bias is not saved
        leaf = leaf if isinstance(first, ir.Attr) and first.name == "weight" else None
    if leaf is not None:
        place = run.place(e.at)
        run.record(events.InPlace(place, run.stack, Tensor(leaf=leaf), "nn.init", Mode(OFF), leaf))
        bump(run, leaf.storage, place)


LIBRARY_OBJECTS = ("torch.utils.data.", "torch.GradScaler", "torch.cuda.amp.GradScaler", "torch.distributions.",
                   "torch.optim.lr_scheduler.", "torch.optim.swa_utils.SWALR", "torch.cpu.amp.GradScaler")  # fmt: skip

SETTINGS = ("torch.manual_seed", "torch.backends", "torch.cuda.", "torch.device", "torch.save", "torch.set_",
            "torch.random", "torch.utils.tensorboard", "torch.nn.init.", "torch.distributed.", "torch.profiler",
            "torch.use_", "torch.get_", "torch.is_", "torch.Generator", "torch.utils.data", "torch.mps", "torch.load",
            "torch.Size", "torch.finfo", "torch.iinfo", "torch.version")  # fmt: skip


def torch_function(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    flag = args.keywords.get("inplace")
    inplace = isinstance(flag, Const) and flag.value is True
    if inplace and torchlib.op(f"{name}_") is not None:
        name = f"{name}_"  # `F.relu(x, inplace=True)` is `F.relu_(x)`
    result = operate(run, name, list(args.positional), e, args)
    op = torchlib.op(name)
    if op is not None and (inplace or op.inplace) and e is not None and args.positional:
        owner = args.positional[0]
        if isinstance(owner, Tensor) and not owner.opaque:
            if inplace and not op.inplace and isinstance(result, Tensor) and result.node is not None:
                # `F.silu(x, inplace=True)`: backward gets a copy of the input as it was.
                kept = tuple(one for one in result.node.saved if one[0] is not owner.storage)
                result = replace(result, node=replace(result.node, saved=kept))
            short = name.rpartition(".")[2]
            how = f"{short}(..., inplace=True)" if not short.endswith("_") else f"{short}(...)"
            result = changed(run, owner, owner, result, run.place(e.at), short, how, e.args[0] if e.args else None)
    if "requires_grad" in args.keywords and isinstance(result, Tensor) and result.dead:
        result = with_flag(run, result, args, run.place(e.at) if e is not None else None, f"{name}(...)")
    if e is not None and (name.startswith("torch.nn.functional.") or name in WATCHED):
        called_event(run, name, args, e, result)
    return result


WATCHED = frozenset({"torch.softmax", "torch.sigmoid", "torch.dropout", "torch.argmax"})


def make_object(run: Interpreter, name: str, args: Args, place: Place, e: ir.Call | None) -> Value:
    obj = Object(External(name), place, label=name.rpartition(".")[2])
    obj.cells["args"] = args
    if name.endswith(".GradScaler"):
        obj.cells["phases"] = Phases()
    if name == "torch.utils.data.DataLoader":
        obj.cells["dataset"] = args.get(0, "dataset", UNKNOWN)
        obj.cells["sampler"] = args.get(3, "sampler", UNKNOWN)
        obj.cells["batch_sampler"] = args.get(4, "batch_sampler", UNKNOWN)
        obj.cells["collate"] = args.get(None, "collate_fn", None)
        obj.cells["workers"] = args.get(5, "num_workers", None)
    elif name == "torch.utils.data.BatchSampler":
        obj.cells["sampler"] = args.get(0, "sampler", UNKNOWN)
    elif name == "torch.utils.data.TensorDataset":
        obj.cells["tensors"] = () if args.spread else tuple(args.positional)
    elif name == "torch.utils.data.random_split":
        return Sequence("list", {"items": None, "each": obj}, place)
    elif name.startswith("torch.utils.data.Subset"):
        obj.cells["dataset"] = args.get(0, "dataset", UNKNOWN)
    run.objects.append(obj)
    if e is not None:
        called_event(run, name, args, e, obj)
    return obj


def t_is_grad_enabled(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    kind = run.state.mode.kind
    return TRUE if kind == "on" else FALSE if kind in ("off", "inference") else Union((TRUE, FALSE))


def t_compile(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.get(0, "model", None)
    if value is None:
        return External("torch.compile")
    if e is not None:
        called_event(run, "torch.compile", args, e, value)
    if isinstance(value, Function):
        place = run.place(e.at) if e is not None else None
        return under(value, (*value.decorators, (External("torch.compile"), place)))  # type: ignore[arg-type]
    if isinstance(value, Object):
        run.state.set(value.cells, "compiled", run.place(e.at) if e is not None else True)
    return value


def t_checkpoint(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if not args.positional:
        return UNKNOWN
    inner = Args(args.positional[1:], {}, args.spread, args.places[1:])
    result = call(run, args.positional[0], inner, e)
    if e is not None:
        called_event(run, "torch.utils.checkpoint.checkpoint", args, e, result)
    reentrant = args.get(None, "use_reentrant", TRUE)
    truth = run.truth(reentrant) if reentrant is not None else True
    return reentered(run, result, inner.positional, e) if truth is True and not args.spread else result


def reentered(run: Interpreter, result: Value, inputs: list[Value], e: ir.Call | None) -> Value:
    """What a reentrant checkpoint gives: only direct tensor arguments connect the result to the graph (facts)."""
    if not isinstance(result, Tensor) or result.node is None:
        return result
    direct = Inputs()
    for value in inputs:
        if isinstance(value, (Tensor, ParameterOf, Unknown)):
            direct.add(run, value)
    if direct.nodes or direct.unknown or e is None:
        return result
    cut = Cut("reentrant checkpoint", "checkpoint", run.place(e.at), (result.node,), stack=run.stack)
    return replace(result, node=None, cuts=(*result.cuts, lost_here(run, cut)), certain=True)


def t_checkpoint_sequential(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The parts of a `Sequential` one after the other, each but the last behind a checkpoint."""
    functions, segments = args.get(0, "functions", UNKNOWN), args.get(1, "segments", UNKNOWN)
    value = args.get(2, "input", UNKNOWN) or UNKNOWN
    items = functions.cells.get("items") if isinstance(functions, (Object, Sequence)) else None
    number = segments.value if isinstance(segments, Const) else None
    if args.spread or not isinstance(items, tuple) or not isinstance(number, int) or not 0 < number <= len(items):
        for given in args.all():
            escape(run, given)
        return UNKNOWN
    reentrant = args.get(3, "use_reentrant", NONE)
    said = reentrant is not None and not (isinstance(reentrant, Const) and reentrant.value is None)
    truth = run.truth(reentrant) if said and reentrant is not None else True
    size = len(items) // number
    for start in range(0, size * number, size):
        last = start + size >= size * number
        before = value
        for item in items[start : len(items) if last else start + size]:
            value = call(run, item, Args([value], {}), e)
        if truth is True and not last:
            value = reentered(run, value, [before], e)
    return value


def t_identity(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return args.positional[0] if args.positional else UNKNOWN


def t_autocast(name: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    def handler(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        if e is None:
            return Context(None, name="torch.autocast")
        called_event(run, name, args, e, NONE)
        index = 2 if name == "torch.autocast" else 0
        enabled, cached = args.get(index, "enabled", TRUE), args.get(None, "cache_enabled", TRUE)
        keeps = all(value is not None and run.truth(value) is not False for value in (enabled, cached))
        return Context(None, name="torch.autocast", place=run.place(e.at) if keeps else None)

    return handler


def t_func_grad(name: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    """`torch.func.grad(f)`: a function that gives the gradient of `f` (see `functional.py`)."""

    def apply(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        return functional.make(run, name, args, e)

    return apply


def t_save(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if e is not None:
        called_event(run, "torch.save", args, e, NONE)
    return NONE


def t_spawn(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`spawn(f, args=(a, b))` runs `f(rank, a, b)`; each process starts with gradients on."""
    target, given = args.get(0, "fn", UNKNOWN), args.get(1, "args", None)
    items = given.cells.get("items") if isinstance(given, Sequence) else ()
    if isinstance(target, Function):
        mode = run.state.mode
        run.state.mode = DEFAULT_MODE
        call(
            run,
            target,
            Args([Number(), *items] if isinstance(items, tuple) else [], {}, not isinstance(items, tuple)),
            e,
        )
        run.state.mode = mode
    return UNKNOWN


def t_averaged(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`AveragedModel(model)`: a module around a deep copy of the model."""
    if e is None:
        return UNKNOWN
    place = run.place(e.at)
    given = args.get(0, "model", UNKNOWN) or UNKNOWN
    refuse_copy(run, given, args, e)
    model = clone(run, given, {}, place)
    return make_module(run, AVERAGED, Args([model], {}), place, e)


def t_nothing(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return NONE


def t_autograd(name: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    def handler(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        return autograd_call(run, name, args, e) if e is not None else UNKNOWN

    return handler


def t_from_pretrained(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`nn.Embedding.from_pretrained(weights)`: frozen unless `freeze=False`."""
    place = run.place(e.at) if e is not None else None
    assert place is not None
    made = make_module(run, "torch.nn.Embedding", Args([], {}), place, e)
    freeze = args.get(1, "freeze", TRUE)
    leaf = made.cells.get("leaf")
    if isinstance(leaf, Leaf):
        leaf.cells["requires_grad"] = {True: False, False: True}.get(run.truth(freeze) if freeze is not None else True)  # type: ignore[arg-type]
        leaf.cells["frozen-by"] = "from_pretrained"
    if e is not None:
        called_event(run, "torch.nn.Embedding.from_pretrained", args, e, made)
    return made


TORCH: dict[str, Callable[[Interpreter, Args, ir.Call | None], Value]] = {
    **FACTORIES,
    **NN_UTILS,
    AVERAGED: t_averaged,
    "torch.optim.swa_utils.update_bn": t_nothing,  # it runs the model under `no_grad`
    "torch.is_grad_enabled": t_is_grad_enabled,
    "torch.compiler.is_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch.compiler.is_dynamo_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch._dynamo.is_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch.save": t_save,
    "torch.multiprocessing.spawn": t_spawn,
    "torch.multiprocessing.start_processes": t_spawn,
    "torch.compile": t_compile,
    "torch.utils.checkpoint.checkpoint": t_checkpoint,
    "torch.utils.checkpoint.checkpoint_sequential": t_checkpoint_sequential,
    "torch.func.functional_call": functional.functional_call,
    "torch.nn.utils.stateless.functional_call": functional.functional_call,
    "torch.distributions.kl_divergence": t_recorded("kl_divergence"),
    "torch.distributions.kl.kl_divergence": t_recorded("kl_divergence"),
    **{f"torch.func.{name}": t_func_grad(f"torch.func.{name}") for name in ("grad", "grad_and_value")},
    "torch.autocast": t_autocast("torch.autocast"),
    "torch.cuda.amp.autocast": t_autocast("torch.cuda.amp.autocast"),
    "torch.cpu.amp.autocast": t_autocast("torch.cpu.amp.autocast"),
    "torch.jit.trace": t_identity,
    "torch.jit.script": t_identity,
    "torch.autograd.backward": t_autograd("torch.autograd.backward"),
    "torch.autograd.grad": t_autograd("torch.autograd.grad"),
    "torch.nn.Embedding.from_pretrained": t_from_pretrained,
    "torch.nn.EmbeddingBag.from_pretrained": t_from_pretrained,
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm": t_identity,
    "torch._C._set_grad_enabled": lambda run, args, e: (
        make_context(run, "torch.set_grad_enabled", args, e) and NONE if e is not None else NONE
    ),
    "torch.manual_seed": lambda run, args, e: UNKNOWN,
}
