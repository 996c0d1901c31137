"""The standard library, and the few libraries around torch that hand on what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    AGREEMENT,
    FOREIGN,
    NONE,
    UNKNOWN,
    Class,
    Const,
    Context,
    External,
    Mapping,
    Number,
    Object,
    Parameters,
    Partial,
    Range,
    Scope,
    Sequence,
    Tensor,
    Value,
    join_all,
)
from .. import replacing, stacks, threads
from ..calls import call
from ..frames import Args
from ..objects import drawn
from ..operations import operate
from ..python.builtins import b_dict, b_range
from ..python.iteration import iterate
from .copies import o_copy, o_deepcopy
from .nn_utils import t_recorded
from .torch import make_object

if TYPE_CHECKING:
    from ..interp import Interpreter


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
