"""Calls into libraries: torch's functions and classes, and the few others whose effect on gradients matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    AGREEMENT,
    ANY_RANK,
    DATA,
    DEFAULT_MODE,
    FALSE,
    FLOAT,
    FOREIGN,
    INT,
    MANY,
    NONE,
    SCALAR,
    TRUE,
    UNKNOWN,
    Array,
    Class,
    Const,
    Context,
    Cut,
    External,
    Function,
    GradOf,
    Leaf,
    Mapping,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Partial,
    Range,
    Scope,
    Sequence,
    Storage,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    element,
    join_all,
    replace,
)
from ..findings import Place
from . import events, functional, replacing, shapes, stacks, threads
from .calls import call, escape
from .frames import Args
from .modes import ENTERED, make_context
from .modules import WRAPPERS, call_module_method, initialize, leaves_of, make_module
from .objects import AVERAGED, MODULE, MODULE_METHODS, drawn, find, is_module
from .operations import Inputs, cut_of, graph_of, is_packed, lost_here, operate, packed, recorded
from .python import b_dict, b_range, iterate
from .tensors import changed, refuse_numpy, rewrap, with_flag, write_into_array
from .training import Phases, autograd_call, called_event, clear, make_optimizer, parameters_in

if TYPE_CHECKING:
    from .interp import Interpreter

# Libraries whose functions take values to show, store or describe them: a tensor or model that goes there comes back
# as it was. Everything else may do anything with what it is given.
HARMLESS = frozenset(
    [
        "time",
        "os",
        "sys",
        "json",
        "logging",
        "random",
        "math",
        "argparse",
        "pathlib",
        "warnings",
        "re",
        "datetime",
        "collections",
        "string",
        "pprint",
        "shutil",
        "csv",
        "pickle",
        "yaml",
        "matplotlib",
        "seaborn",
        "wandb",
        "tqdm",
        "rich",
        "typing",
        "typing_extensions",
        "types",
        "gc",
        "psutil",
        "socket",
        "signal",
        "textwrap",
        "tempfile",
        "glob",
        "subprocess",
        "uuid",
        "hashlib",
        "base64",
        "struct",
        "traceback",
        "inspect",
        "platform",
        "itertools",
        "operator",
        "functools",
        "copy",
        "contextlib",
        "dataclasses",
        "enum",
        "abc",
        "heapq",
        "bisect",
        "statistics",
        "fractions",
        "decimal",
        "numbers",
        "threading",
        "queue",
        "atexit",
        "builtins",
        "numpy",
        "scipy",
        "sklearn",
        "pandas",
        "PIL",
        "cv2",
        "imageio",
        "skimage",
        "torchvision.utils",
        "torchinfo",
        "torchsummary",
        "loguru",
        "tabulate",
        "torch.utils.tensorboard",
        "tensorboardX",
        "einops",
        "mlflow",
    ]
)


# Of these libraries, what comes out may be what went in before.
CARRIERS = frozenset("operator copy functools heapq queue pickle collections itertools threading contextlib types einops "
                     "dataclasses abc enum random mlflow".split())  # fmt: skip


def call_external(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    if name.startswith("torch."):
        return call_torch(run, torchlib.canonical(name), args, e)
    handler = OTHERS.get(name)
    if handler is not None:
        return handler(run, args, e)
    if name.startswith(("transformers.", "diffusers.optimization.")) and name.endswith(SCHEDULES):
        return o_schedule(run, args, e)
    top = name.partition(".")[0]
    if top in ("numpy", "math", "scipy", "cmath"):
        return call_numpy(run, name, args, e)
    if top == "random":
        return call_random(run, name, args, e)
    if top == "itertools":
        return call_itertools(run, name, args)
    if top in HARMLESS or name.rpartition(".")[0] in HARMLESS:
        return UNKNOWN if top in CARRIERS else FOREIGN
    for value in args.all():
        escape(run, value)
    return FOREIGN if top in OTHER_WORLDS else UNKNOWN


# What these give is surely nothing of torch's, so it has no graph. Any other library may give modules and tensors:
# `hydra.utils.instantiate` builds them, a web framework or a graph of networkx hands out what was put in.
OTHER_WORLDS = frozenset(
    "gym gymnasium minigrid procgen pettingzoo tensorflow keras jax flax haiku optax paddle mxnet tinygrad cupy numba "
    "xgboost lightgbm nltk spacy requests absl pybullet mujoco datasets tokenizers sentencepiece sympy plotly bokeh "
    "boto3 redis librosa soundfile setuptools distutils".split()
)


# ---------------------------------------------------------------- torch


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
            return _tensors.call_method(run, owner, name.rpartition(".")[2], rest, e)
        return UNKNOWN
    if name.startswith("torch.nn.init.") and name.endswith("_"):
        return args.positional[0] if args.positional else UNKNOWN
    if name.startswith(SETTINGS):
        return UNKNOWN
    for value in args.all():
        escape(run, value)
    return UNKNOWN


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
        _training.called_event(run, name, args, e, result)
    return result


WATCHED = frozenset({"torch.softmax", "torch.sigmoid", "torch.dropout", "torch.argmax"})


def make_tensor(run: Interpreter, name: str, factory: torchlib.Factory, args: Args, place: Place | None) -> Value:
    dtype = INT if factory.dtype == "int" else FLOAT
    wanted = args.get(None, "dtype", None)
    if isinstance(wanted, External):
        dtype = INT if wanted.name in _tensors.INT_DTYPES else FLOAT
    rank = ANY_RANK
    sizes = args.positional
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        items = sizes[0].cells.get("items")
        sizes = list(items) if isinstance(items, tuple) else [UNKNOWN]
    known = [s.value for s in sizes if isinstance(s, Const)]
    if name.rpartition(".")[2] in ("zeros", "ones", "rand", "randn", "empty") and len(known) == len(sizes):
        if not known or all(k == 1 for k in known):
            rank = SCALAR
        elif any(isinstance(k, int) and k > 1 for k in known):
            rank = MANY
    shape = shapes.of_factory(name, args)
    made = Tensor(rank=rank, dtype=dtype, storage=Storage(), made=place, shape=shape)
    return with_flag(run, made, args, place, f"{name}(...)")


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


def t_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else None
    data = args.get(0, "data", UNKNOWN) or UNKNOWN
    return replace(rewrap(run, data, args, place, "torch.tensor(...)"), shape=shapes.of_literal(data))


def t_float_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`torch.Tensor(t)` and `torch.FloatTensor(t)` are aliases of a tensor; of a list, copies without graph (facts)."""
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if isinstance(value, (Tensor, ParameterOf)):
        return value
    if isinstance(value, (Sequence, Array)):
        return rewrap(run, value, Args([value], {}), place, "torch.Tensor(...)")
    return Tensor(dtype=FLOAT, storage=Storage(), made=place, certain=not isinstance(value, Unknown))


def t_int_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return Tensor(dtype=INT, storage=Storage())


def t_as_tensor(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if isinstance(value, (Tensor, ParameterOf)):
        return value
    return rewrap(run, value, args, place, "torch.as_tensor(...)")


def t_from_numpy(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    cuts = (value.cut,) if isinstance(value, Array) and value.cut is not None else ()
    return Tensor(None, cuts, True, storage=Storage(), made=place)


def t_parameter(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`nn.Parameter(data)`: a new leaf; a graph in `data` is left behind."""
    value = args.get(0, "data", UNKNOWN) or UNKNOWN
    place = run.place(e.at) if e is not None else None
    leaf = Leaf("", place, "parameter")
    if run.state.mode.kind == "inference":
        leaf.cells["inference"] = True
    flag = args.get(1, "requires_grad", TRUE)
    leaf.cells["requires_grad"] = run.truth(flag) if flag is not None else True
    found = Inputs()
    found.add(run, value)
    cuts = tuple(found.cuts)
    if found.nodes and found.sure and place is not None and not (isinstance(value, Tensor) and value.leaf is not None):
        cuts = (*cuts, lost_here(run, Cut("nn.Parameter(...)", "leaf", place, tuple(found.nodes), stack=run.stack)))
    if cuts and e is not None:
        called_event(run, "torch.nn.Parameter", args, e, Tensor(cuts=cuts))
    rank = value.rank if isinstance(value, Tensor) else ANY_RANK
    leaf.cells["lost"] = cuts
    other = _training.memory_of(value)
    if other is not None and place is not None:
        run.record(events.Shared(place, run.stack, leaf, other))
    made = Tensor(leaf=leaf, node=leaf.node, rank=rank, dtype=FLOAT, storage=leaf.storage, made=place)
    if run.frame.instance is not None and e is not None:
        called_event(run, "parameter-in-forward", args, e, made)
    return made


def t_variable(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`Variable(t)`: a new leaf of any tensor that has a graph (facts: it is no no-op)."""
    value = args.positional[0] if args.positional else UNKNOWN
    place = run.place(e.at) if e is not None else None
    if not isinstance(value, Tensor) or value.opaque:
        return value if isinstance(value, Tensor) else Tensor(certain=False)
    flag = args.get(1, "requires_grad", FALSE)
    truth = run.truth(flag) if flag is not None else False
    found = Inputs()
    found.add(run, value)
    cuts = list(found.cuts)
    if found.nodes and place is not None:
        cuts.append(lost_here(run, Cut("Variable(...)", "rewrap", place, tuple(found.nodes), stack=run.stack)))
    if truth is True:
        leaf = Leaf("Variable(...)", place, "tensor")
        if place is not None:
            run.record(events.GradFlag(place, run.stack, "Variable(..., requires_grad=True)", value, True, value))
        return Tensor(
            leaf=leaf, node=leaf.node, cuts=tuple(cuts), rank=value.rank, dtype=value.dtype, storage=leaf.storage
        )
    return Tensor(None, tuple(cuts), truth is False, value.rank, value.dtype, storage=value.storage, made=place)


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
        return Function(
            value.code, value.unit, value.base, value.module, value.closure, value.owner, value.bound,
            (*value.decorators, (External("torch.compile"), place)), value.defaults,  # type: ignore[arg-type]
        )  # fmt: skip
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
    if truth is True and isinstance(result, Tensor) and result.node is not None and not args.spread:
        # Reentrant: only direct tensor arguments connect the result to the graph (facts).
        direct = Inputs()
        for value in inner.positional:
            if isinstance(value, (Tensor, ParameterOf, Unknown)):
                direct.add(run, value)
        if not direct.nodes and not direct.unknown and e is not None:
            place = run.place(e.at)
            cut = Cut("reentrant checkpoint", "checkpoint", place, (result.node,), stack=run.stack)
            return replace(result, node=None, cuts=(*result.cuts, lost_here(run, cut)), certain=True)
    return result


def t_functional_call(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """`functional_call(module, parameters, args)`: the module's forward with other parameters in the place of its own."""
    module, given = args.get(0, "module", UNKNOWN), args.get(1, "parameter_and_buffer_dicts", UNKNOWN)
    inputs = args.get(2, "args", NONE)
    items = inputs.cells.get("items") if isinstance(inputs, Sequence) and inputs.kind == "tuple" else None
    if not isinstance(module, Object) or isinstance(inputs, Unknown):
        for value in args.all():
            escape(run, value)
        return UNKNOWN
    inner = Args(list(items), {}) if isinstance(items, tuple) else Args([inputs or NONE], {})
    result = call(run, module, inner, e)
    own = given.cells.get("rest") if isinstance(given, Mapping) and given.cells.keys() <= {"rest", "covers"} else None
    if isinstance(own, ParameterOf) and own.all_of and set(own.leaves) == set(leaves_of(run, module)[0]):
        return result
    if not isinstance(result, Tensor):
        return UNKNOWN
    replaced = in_place_of(run, module, given, result, run.place(e.at) if e is not None else None)
    if replaced is not None:
        return replaced
    found = Inputs()
    found.add(run, given)
    nodes = (*((result.node,) if result.node is not None else ()), *found.nodes)
    node = (
        Node("functional_call", run.place(e.at) if e is not None else None, nodes, phi=True, opaque=True)
        if nodes
        else None
    )
    return replace(result, node=node, certain=False)


def in_place_of(
    run: Interpreter, module: Object, given: Value | None, result: Tensor, place: Place | None
) -> Tensor | None:
    """What a module's forward gives where tensors that surely have a graph stand in the place of its parameters; None if
    that is not known.

    Of which of them is not known, the graph may have both; in the place of all, none of its own is left in it.
    """
    leaves, exact = leaves_of(run, module)
    below = _training.walk(result.node)
    if not isinstance(given, Mapping) or not exact or not result.certain or result.opaque or below.opaque:
        return None
    if result.node is None or set(leaves).isdisjoint(below.sure) or not (given.complete or given.cells.get("covers")):
        return None
    found = Inputs()
    for value in given.cells.values():
        if isinstance(value, Value):
            one = Inputs()
            one.add(run, value)
            if not one.sure or one.unknown or isinstance(value, (Sequence, Mapping)):
                return None
            found.add(run, value)
    if not found.nodes:
        return None
    covers = given.cells.get("covers")
    if not isinstance(covers, tuple) or not set(leaves) <= set(covers):
        node = Node("functional_call", place, (result.node, *found.nodes), phi=True)
        return replace(result, node=node, cuts=(*result.cuts, *found.cuts))
    others = [leaf.node for leaf in below.sure if leaf not in leaves and leaf.node is not None]
    perhaps = [leaf.node for leaf in below.maybe if leaf not in leaves and leaf.node is not None]
    if perhaps:
        others.append(Node("phi", None, tuple(perhaps), phi=True))
    cuts = tuple(dict.fromkeys((*below.cuts, *found.cuts)))
    node = Node("functional_call", place, (*dict.fromkeys(found.nodes), *others), cuts, stack=run.stack)
    return replace(result, node=node, cuts=cuts)


def t_identity(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return args.positional[0] if args.positional else UNKNOWN


def t_clip(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    params = args.get(0, "parameters", UNKNOWN) or UNKNOWN
    if e is not None:
        leaves, _, used = parameters_in(run, params, run.place(e.at))
        states = {_training.grad_of(leaf).state for leaf in leaves}
        scaled = {_training.grad_of(leaf).scaled for leaf in leaves if _training.grad_of(leaf).state == "fresh"}
        result = Tensor(rank=SCALAR, dtype=FLOAT, tag=",".join(sorted(states)))
        limit = args.get(1, "max_norm", args.get(None, "clip_value", UNKNOWN)) or UNKNOWN
        grads = tuple(_training.grad_of(leaf) for leaf in leaves)
        run.record(events.Clip(run.place(e.at), run.stack, tuple(leaves), grads, limit, scaled == {True}))
        if used is not None:
            where = args.place(0, "parameters") or run.place(e.at)
            data: dict[str, object] = {"parameters": params}
            run.record(events.Raised(where, run.stack, "exhausted-parameters", "clip_grad", ((used, "used up"),), data))
        return result
    return UNKNOWN


def t_zero_(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
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


def t_jit(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return args.positional[0] if args.positional else UNKNOWN


def t_parametrize(run: Interpreter, args: Args, e: ir.Call | None, kind: str = "") -> Value:
    value = args.positional[0] if args.positional else UNKNOWN
    if e is not None:
        called_event(run, kind, args, e, value)
    return value


def t_recorded(shown: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    """A function of torch's that is written in Python: one tensor, computed from all that it is given."""

    def apply(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        found = Inputs()
        for value in args.all():
            found.add(run, value)
        return recorded(run, shown, found, run.place(e.at) if e is not None else None)

    return apply


def t_pack(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    data = t_recorded("pack")(run, Args(args.positional[:1], {}, args.spread), e)
    if not isinstance(data, Tensor) or not args.positional:
        return UNKNOWN
    return packed(data, run.place(e.at) if e is not None else None)


def t_pad_packed(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.get(0, "sequence", UNKNOWN)
    if not is_packed(value):
        return UNKNOWN
    return Sequence("tuple", {"items": (t_recorded("pad_packed_sequence")(run, args, e), Tensor(dtype=INT))})


PRUNES = (
    "l1_unstructured",
    "random_unstructured",
    "ln_structured",
    "random_structured",
    "custom_from_mask",
    "identity",
)


def t_parametrized(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The layer's weight is computed from another parameter from now on, and is none itself."""
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Object):
        run.state.set(value.cells, "parametrized", True)
    return value


def t_register_parametrization(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """What the layer's weight is computed from has parameters of its own, perhaps."""
    value, made = t_parametrized(run, args, e), args.get(2, "parametrization", UNKNOWN) or UNKNOWN
    if not isinstance(made, Object) or not is_module(made) or leaves_of(run, made) != ([], True):
        place = run.place(e.at).start if e is not None else 0
        replacing.put_unnamed(run, value, made)
        if isinstance(value, Object):
            run.state.set(value.attrs, f"[{place}]", made)
    return value


def t_func_grad(name: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    """`torch.func.grad(f)`: a function that gives the gradient of `f` (see `functional.py`)."""

    def apply(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        return functional.make(run, name, args, e)

    return apply


def t_weight_norm(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """New Parameters take the place of the old ones (facts: the only parametrization of torch that does so)."""
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Object) and isinstance(value.cells.get("leaf"), Leaf):
        old = value.cells["leaf"]
        assert isinstance(old, Leaf)
        run.state.set(value.cells, "parametrized", True)
        place = run.place(e.at) if e is not None else old.place
        run.state.set(value.cells, "leaf", Leaf(old.label, place, "weights"))
        if e is not None:
            called_event(run, "weight_norm", args, e, value)
    elif isinstance(value, Object) and isinstance(own := value.attrs.get("weight"), Tensor) and own.leaf is not None:
        place = run.place(e.at) if e is not None else own.leaf.place
        leaf = Leaf("weight", place, "weights")  # both of them, and `weight` is computed from them
        run.state.set(value.cells, "parametrized", True)
        run.state.set(value.cells, "leaf", leaf)
        node = Node("weight_norm", place, (leaf.node,) if leaf.node is not None else ())
        run.state.set(value.attrs, "weight", Tensor(node=node, dtype=FLOAT))
    return value


def t_parameters_to_vector(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """All parameters in one tensor, with their graph."""
    if e is None:
        return UNKNOWN
    found = Inputs()
    found.add(run, args.get(0, "parameters", UNKNOWN) or UNKNOWN)
    return recorded(run, "parameters_to_vector", found, run.place(e.at), MANY, saves=False)


def t_vector_to_parameters(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The values go into the parameters' `.data`: these keep no graph back to the vector."""
    if e is not None:
        for leaf in parameters_in(run, args.get(1, "parameters", UNKNOWN) or UNKNOWN, run.place(e.at))[0]:
            leaf.cells["written"] = True
    return NONE


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
    AVERAGED: t_averaged,
    "torch.optim.swa_utils.update_bn": t_nothing,  # it runs the model under `no_grad`
    "torch.tensor": t_tensor,
    "torch.Tensor": t_float_tensor,
    "torch.FloatTensor": t_float_tensor,
    "torch.LongTensor": t_int_tensor,
    "torch.IntTensor": t_int_tensor,
    "torch.as_tensor": t_as_tensor,
    "torch.asarray": t_as_tensor,
    "torch.from_numpy": t_from_numpy,
    "torch.nn.Parameter": t_parameter,
    "torch.nn.parameter.Parameter": t_parameter,
    "torch.autograd.Variable": t_variable,
    "torch.autograd.variable.Variable": t_variable,
    "torch.is_grad_enabled": t_is_grad_enabled,
    "torch.compiler.is_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch.compiler.is_dynamo_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch._dynamo.is_compiling": lambda run, args, e: Const(run.compiled is not None),
    "torch.save": t_save,
    "torch.multiprocessing.spawn": t_spawn,
    "torch.multiprocessing.start_processes": t_spawn,
    "torch.compile": t_compile,
    "torch.utils.checkpoint.checkpoint": t_checkpoint,
    "torch.func.functional_call": t_functional_call,
    "torch.nn.utils.stateless.functional_call": t_functional_call,
    "torch.nn.utils.clip_grad_norm_": t_clip,
    "torch.nn.utils.clip_grad_value_": t_clip,
    "torch.nn.utils.clip_grad_norm": t_clip,
    "torch.nn.utils.rnn.pad_sequence": t_recorded("pad_sequence"),
    "torch.nn.utils.rnn.pack_padded_sequence": t_pack,
    "torch.nn.utils.rnn.pack_sequence": t_pack,
    "torch.nn.utils.rnn.pad_packed_sequence": t_pad_packed,
    "torch.distributions.kl_divergence": t_recorded("kl_divergence"),
    "torch.distributions.kl.kl_divergence": t_recorded("kl_divergence"),
    "torch.nn.utils.parameters_to_vector": t_parameters_to_vector,
    "torch.nn.utils.vector_to_parameters": t_vector_to_parameters,
    "torch.nn.utils.weight_norm": t_weight_norm,
    "torch.nn.utils.parametrizations.weight_norm": t_weight_norm,
    "torch.nn.utils.spectral_norm": t_parametrized,
    "torch.nn.utils.parametrizations.spectral_norm": t_parametrized,
    "torch.nn.utils.parametrizations.orthogonal": t_parametrized,
    "torch.nn.utils.parametrize.register_parametrization": t_register_parametrization,
    **{f"torch.nn.utils.prune.{name}": t_parametrized for name in PRUNES},
    **{f"torch.func.{name}": t_func_grad(f"torch.func.{name}") for name in ("grad", "grad_and_value")},
    "torch.autocast": t_autocast("torch.autocast"),
    "torch.cuda.amp.autocast": t_autocast("torch.cuda.amp.autocast"),
    "torch.cpu.amp.autocast": t_autocast("torch.cpu.amp.autocast"),
    "torch.jit.trace": t_jit,
    "torch.jit.script": t_jit,
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


# ---------------------------------------------------------------- NumPy, math


# Functions of NumPy that make an array of the one thing that they are given, be it a tensor or a list of tensors.
CONVERTING = frozenset(
    "abs argmax argmin array asanyarray asarray ascontiguousarray ceil copy cos cumsum exp expm1 float32 floor isfinite isinf "
    "isnan log log10 log1p log2 median nan_to_num nanmax nanmean nanmin nanstd nansum negative ravel rint sign sin sqrt "
    "square tanh unique".split()
)
# Of one tensor these call the method of the same name, and get on or fail in another way.
CONVERTING_LISTS = CONVERTING | frozenset(
    "amax amin concatenate float64 hstack max mean min prod stack std sum var vstack".split()
)


# These write into their first argument, as `np.add.at` does.
ARRAY_WRITES = frozenset({"copyto", "put", "put_along_axis", "place", "putmask"})


def converts(name: str, args: Args) -> bool:
    """Whether a function of NumPy surely asks the tensors that it is given for their arrays."""
    module, _, short = name.rpartition(".")
    plain = len(args.positional) == 1 and not args.spread
    if module != "numpy" or not plain or args.keywords.keys() - (["dtype"] if short.endswith("array") else []):
        return False
    given = args.positional[0]
    if isinstance(given, Sequence):
        return short in CONVERTING_LISTS and given.kind in ("list", "tuple")
    return short in CONVERTING and isinstance(given, (Tensor, ParameterOf))


def call_numpy(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    found = Inputs()
    for value in args.positional:
        found.add(run, value)
    short = name.rpartition(".")[2]
    place = run.place(e.at) if e is not None else None
    if name.startswith("numpy.") and (short in ARRAY_WRITES or name.endswith(".at")) and len(args.positional) > 1:
        target = args.positional[0]
        if isinstance(target, Array) and place is not None and e is not None and not args.spread:
            for value in args.positional[1:]:
                write_into_array(run, target, value, e.args[0], place)
        return NONE
    if short in ("zeros_like", "ones_like", "empty_like"):
        return Array()  # nothing of the values
    kind = "number" if name.startswith(("math.", "cmath.")) else "numpy"
    cut = None
    if found.nodes and found.sure:
        cut = cut_of(run, found, f"{name}(...)", kind, place)
    elif found.cuts:
        cut = found.cuts[-1]
    if place is not None and cut is not None and cut.place == place and converts(name, args):
        refuse_numpy(run, place, cut, several=isinstance(args.positional[0], Sequence))
    if name.startswith(("math.", "cmath.")) or short in ("mean", "sum", "max", "min", "std", "float32", "float64"):
        if kind == "number":
            return Number(cut, place, f"{name}(...)")
        return (
            Number(cut, place, f"{name}(...)")
            if short in ("float32", "float64", "mean", "sum") and not args.keywords
            else Array(cut)
        )
    if found.unknown and not found.nodes:
        return (
            Array(cut) if short in ("array", "asarray", "zeros", "ones", "concatenate", "stack", "arange") else FOREIGN
        )
    return Array(cut)


# ---------------------------------------------------------------- the standard library and friends


SCHEDULES = ("_schedule", "_schedule_with_warmup", "_restarts_schedule_with_warmup", ".get_scheduler")


def o_schedule(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """Functions of transformers that make a `LambdaLR` of an optimizer."""
    optimizer = args.keywords.get("optimizer") or next((v for v in args.positional if isinstance(v, Object)), UNKNOWN)
    if e is None:
        return UNKNOWN
    return make_object(run, "torch.optim.lr_scheduler.LambdaLR", Args([optimizer], {}), run.place(e.at), e)


def o_partial(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if not args.positional or args.spread:
        return UNKNOWN
    return Partial(args.positional[0], tuple(args.positional[1:]), tuple(args.keywords.items()))


def o_wraps(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return External("functools.wraps")


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


def o_nullcontext(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return Context(None, name="contextlib.nullcontext")


def o_tqdm(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.get(0, "iterable", NONE) or NONE
    if isinstance(value, Const):
        return FOREIGN
    if isinstance(value, Parameters):
        return value
    found = iterate(run, value, None)
    if isinstance(value, Range):
        return Range(found.each, found.mode, length=value.length, counted=value.counted)
    return Range(found.each, found.mode)


def o_defaultdict(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    factory = args.positional[0] if args.positional else NONE
    place = run.place(e.at) if e is not None else None
    mapping = Mapping({}, place, complete=False)
    if not isinstance(factory, Const):
        mapping.cells["rest"] = call(run, factory, Args([], {}), None)
    return mapping


def o_deque(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else None
    if not args.positional:
        return Sequence("list", {"items": ()}, place)
    found = iterate(run, args.positional[0], None)
    return Sequence("list", {"items": None, "each": found.each}, place)


def o_namedtuple(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    names = args.get(1, "field_names", UNKNOWN)
    title = args.get(0, "typename", UNKNOWN)
    listed: list[str] = []
    if isinstance(names, Const) and isinstance(names.value, str):
        listed = names.value.replace(",", " ").split()
    elif isinstance(names, Sequence) and isinstance(names.cells.get("items"), tuple):
        listed = [i.value for i in names.cells["items"] if isinstance(i, Const)]  # type: ignore[attr-defined]
    if not listed or e is None:
        return UNKNOWN
    label = title.value if isinstance(title, Const) else "namedtuple"
    cls = Class(str(label), run.place(e.at), run.frame.module, Scope({}).names, (External("typing.NamedTuple"),))
    cls.mro = (cls, External("typing.NamedTuple"))
    cls.fields = tuple((n, None) for n in listed)
    return cls


def o_reduce(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    if len(args.positional) < 2:
        return UNKNOWN
    found = iterate(run, args.positional[1], None)
    total = args.positional[2] if len(args.positional) > 2 else found.each
    for _ in range(2):
        total = call(run, args.positional[0], Args([total, found.each], {}), e)
    return total


def call_itertools(run: Interpreter, name: str, args: Args) -> Value:
    short = name.rpartition(".")[2]
    if short.startswith("chain"):
        values = args.positional
        if len(values) == 1 and short != "chain":
            values = [iterate(run, values[0], None).each]
        if values and all(isinstance(v, Parameters) for v in values):
            leaves = tuple(leaf for v in values for leaf in v.leaves)  # type: ignore[attr-defined]
            exact = all(v.exact for v in values)  # type: ignore[attr-defined]
            return Parameters(values[0], values[0].named, leaves, exact)  # type: ignore[attr-defined]
        eaches = []
        for v in values:
            eaches.append(iterate(run, v, None).each)
        return Range(join_all(eaches)) if eaches else UNKNOWN  # type: ignore[arg-type]
    if short in ("cycle", "islice", "takewhile", "dropwhile"):
        index = 1 if short.endswith("while") else 0
        if len(args.positional) > index:
            found = iterate(run, args.positional[index], None)
            return Range(drawn(run, found.each), found.mode)
    if short == "count":
        return Range(Number())
    if short in ("product", "combinations", "permutations"):
        return Range(Sequence("tuple", {"items": None, "each": UNKNOWN}))
    return UNKNOWN


def call_random(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    short = name.rpartition(".")[2]
    if short not in ("sample", "choice", "choices", "shuffle") or not args.positional:
        return Number()
    value = args.positional[0]
    each = drawn(run, iterate(run, value, None).each)
    if short == "choice":
        return each
    if short == "shuffle":
        if isinstance(value, Sequence):
            run.state.set(value.cells, "each", each)
            run.state.set(value.cells, "items", None)
        return NONE
    return Sequence("list", {"items": None, "each": each}, run.place(e.at) if e is not None else None)


def o_exit_stack(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    return stacks.make(run, run.place(e.at) if e is not None else None)


def o_expand(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """einops: the graph goes on."""
    value = args.positional[0] if args.positional else UNKNOWN
    return operate(run, "torch.reshape", [value], e) if isinstance(value, Tensor) else UNKNOWN


def o_einops_reduce(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The same, and what comes out may be a single number."""
    value = args.positional[0] if args.positional else UNKNOWN
    return t_recorded("reduce")(run, Args([value], {}), e) if isinstance(value, Tensor) else UNKNOWN


OTHERS: dict[str, Callable[[Interpreter, Args, ir.Call | None], Value]] = {
    "functools.partial": o_partial,
    "functools.wraps": o_wraps,
    "functools.reduce": o_reduce,
    "types.MethodType": replacing.method_type,
    "copy.deepcopy": o_deepcopy,
    "copy.copy": o_copy,
    "contextlib.nullcontext": o_nullcontext,
    "contextlib.suppress": o_nullcontext,
    "tqdm.tqdm": o_tqdm,
    "tqdm.auto.tqdm": o_tqdm,
    "tqdm.notebook.tqdm": o_tqdm,
    "tqdm.trange": b_range,
    "tqdm.auto.trange": b_range,
    "sklearn.metrics.accuracy_score": lambda run, args, e: Number(measure=AGREEMENT),
    "sklearn.metrics.balanced_accuracy_score": lambda run, args, e: Number(measure=AGREEMENT),
    "sklearn.metrics.f1_score": lambda run, args, e: Number(measure=AGREEMENT),
    "sklearn.metrics.roc_auc_score": lambda run, args, e: Number(measure=AGREEMENT),
    "tqdm": o_tqdm,
    "rich.progress.track": o_tqdm,
    "collections.defaultdict": o_defaultdict,
    "collections.OrderedDict": b_dict,
    "collections.deque": o_deque,
    "collections.namedtuple": o_namedtuple,
    "threading.Thread": threads.thread,
    "concurrent.futures.ThreadPoolExecutor": threads.pool,
    "concurrent.futures.thread.ThreadPoolExecutor": threads.pool,
    "multiprocessing.pool.ThreadPool": threads.pool,
    "contextlib.ExitStack": o_exit_stack,
    "einops.rearrange": o_expand,
    "einops.repeat": o_expand,
    "einops.reduce": o_einops_reduce,
    "typing.cast": lambda run, args, e: args.positional[1] if len(args.positional) > 1 else UNKNOWN,
    "time.time": lambda run, args, e: Number(),
    "time.perf_counter": lambda run, args, e: Number(),
}

# The parts of the interpreter know each other: these come when this one is complete.
from . import tensors as _tensors  # noqa: E402
from . import training as _training  # noqa: E402

__all__ = ["DATA", "GradOf", "Mapping", "Text", "call_external", "clear", "clone", "element", "graph_of", "is_module"]
