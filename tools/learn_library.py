#!/usr/bin/env python3
"""Learn from the installed torch its modules, optimizers, schedulers, factories, and who has several names.

    python tools/learn_library.py server/torchlib/library.json

Each class of `torch.nn` is built and called with the inputs of torch's own module database (needs `expecttest`) or of
`OWN` below; the rest is introspection. Read `Module`, `Factory`, ... in `server/torchlib/__init__.py` for what is
recorded.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import sys
import warnings

import torch
from op_samples import by_hand, opinfo_samples, public_names, resolve, samples_of, walk, words
from torch import nn

# Where torch documents a thing, best first; what is in none of them goes by its shortest path
HOMES = words(
    "torch torch.nn torch.nn.functional torch.linalg torch.special torch.fft torch.optim "
    "torch.optim.lr_scheduler torch.optim.swa_utils torch.autograd torch.autograd.functional "
    "torch.utils.data torch.utils.checkpoint torch.nn.utils torch.nn.utils.rnn torch.nn.init "
    "torch.nn.parallel torch.amp torch.cuda torch.cuda.amp torch.distributions torch.func torch.jit "
    "torch.compiler torch.distributed"
)
# Packages that hold things under more than one name
ROOTS = words(
    "torch.nn torch.optim torch.autograd torch.utils.data torch.utils.checkpoint torch.amp torch.cuda.amp"
    " torch.cpu.amp torch.distributions torch.func torch.functional torch.linalg torch.special torch.fft "
    "torch.nested torch.random torch.distributed.fsdp torch.distributed.optim torch.nn.attention "
    "torch.compiler torch.jit"
)
# Modules that people import with a star
STARS = words(
    "torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.optim torch.optim.lr_scheduler torch.autograd "
    "torch.distributions torch.utils.data torch.cuda.amp torch.amp"
)
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


# ------------------------------------------------------------------ names
def namespaces():
    """Every importable public module below `ROOTS`, and torch itself."""
    yield "torch", torch
    for root in ROOTS:
        package = importlib.import_module(root)
        yield root, package
        for entry in pkgutil.walk_packages(getattr(package, "__path__", ()), root + "."):
            if "._" in entry.name or ".test" in entry.name or "tensorboard" in entry.name:
                continue
            try:
                yield entry.name, importlib.import_module(entry.name)
            except Exception:
                continue


def aliases():
    """Every further public path of a class or function -> the path under which it is documented."""
    paths = {}
    for space, m in namespaces():
        for n, v in vars(m).items():
            if n.startswith("_") or not (inspect.isclass(v) or inspect.isroutine(v)):
                continue
            if not (getattr(v, "__module__", "") or "").startswith("torch") and not space.startswith(tuple(HOMES[:6])):
                continue
            if getattr(v, "__module__", None) in ("builtins", "typing", "collections", "functools"):
                continue
            paths.setdefault(id(v), set()).add(f"{space}.{n}")
    found = {}
    for names in paths.values():
        best = min(names, key=rank)
        if best.startswith("torch."):
            found.update({n: best for n in names if n != best})
    return found


def stars():
    """What `from torch... import *` binds."""
    found = {}
    for space in STARS:
        names = {}
        exec(f"from {space} import *", names)
        names.pop("__builtins__", None)
        found[space] = " ".join(sorted(names))
    return found


def rank(name):
    space = name.rpartition(".")[0]
    return (HOMES.index(space) if space in HOMES else len(HOMES), name.count("."), len(name), name)


# ------------------------------------------------------------------ modules
def own():
    """Class name -> constructor arguments, their keywords, inputs: for what torch's module database leaves out."""
    x = lambda *s: torch.rand(*s).requires_grad_()  # noqa: E731
    long = lambda *s: torch.zeros(*s, dtype=torch.long)  # noqa: E731
    lazy = {
        f"Lazy{kind}{n}d": (args, {}, (x(2, 3, *[4] * n),))
        for n in (1, 2, 3)
        for kind, args in (("Conv", (2, 2)), ("ConvTranspose", (2, 2)), ("BatchNorm", ()), ("InstanceNorm", ()))
    }
    norms = {f"InstanceNorm{n}d": ((3,), {}, (x(2, 3, *[4] * n),)) for n in (1, 2, 3)}
    cells = {k: ((3, 4), {}, (x(5, 2, 3),)) for k in ("RNN", "LSTM", "GRU")}
    pools = {f"MaxUnpool{n}d": ((2,), {}, (x(1, 1, *[2] * n), long(1, 1, *[2] * n))) for n in (1, 2, 3)}
    return (
        lazy
        | norms
        | cells
        | pools
        | {
            "Linear": ((3, 2), {}, (x(4, 3),)),
            "LazyLinear": ((2,), {}, (x(4, 3),)),
            "TransformerEncoderLayer": ((4, 2, 8), {}, (x(3, 2, 4),)),
            "TransformerEncoder": ((nn.TransformerEncoderLayer(4, 2, 8), 1), {}, (x(3, 2, 4),)),
            "TransformerDecoderLayer": ((4, 2, 8), {}, (x(3, 2, 4), x(3, 2, 4))),
            "Hardsigmoid": ((), {}, (x(2, 3),)),
            "TripletMarginLoss": ((), {}, (x(2, 3), x(2, 3), x(2, 3))),
            "Identity": ((), {}, (x(2, 3),)),
            "Bilinear": ((3, 4, 2), {}, (x(2, 3), x(2, 4))),
            "Embedding": ((5, 3), {}, (torch.tensor([0, 2]),)),
            "EmbeddingBag": ((5, 3), {}, (torch.tensor([[0, 2]]),)),
            "Flatten": ((), {}, (x(2, 3, 4),)),
            "Unflatten": ((1, (2, 2)), {}, (x(3, 4),)),
            "Fold": (((4, 4), 2), {}, (x(1, 4, 9),)),
            "Unfold": ((2,), {}, (x(1, 2, 4, 4),)),
            "Upsample": ((), {"scale_factor": 2}, (x(1, 2, 3, 3),)),
            "UpsamplingNearest2d": ((), {"scale_factor": 2}, (x(1, 2, 3, 3),)),
            "UpsamplingBilinear2d": ((), {"scale_factor": 2}, (x(1, 2, 3, 3),)),
            "PixelShuffle": ((2,), {}, (x(1, 4, 2, 2),)),
            "PixelUnshuffle": ((2,), {}, (x(1, 1, 4, 4),)),
            "ChannelShuffle": ((2,), {}, (x(1, 4, 2, 2),)),
            "Dropout": ((0.5,), {}, (x(8, 8),)),
            "Dropout1d": ((0.5,), {}, (x(4, 8, 3),)),
            "Dropout2d": ((0.5,), {}, (x(4, 8, 3, 3),)),
            "Dropout3d": ((0.5,), {}, (x(4, 8, 2, 2, 2),)),
            "AlphaDropout": ((0.5,), {}, (x(8, 8),)),
            "FeatureAlphaDropout": ((0.5,), {}, (x(4, 8, 3),)),
            "RReLU": ((), {}, (torch.randn(4, 4).requires_grad_(),)),
            "CosineSimilarity": ((), {}, (x(2, 3), x(2, 3))),
            "PairwiseDistance": ((), {}, (x(2, 3), x(2, 3))),
            "Softmax2d": ((), {}, (x(1, 2, 3, 3),)),
            "FractionalMaxPool2d": ((2,), {"output_size": 2}, (x(1, 2, 4, 4),)),
            "FractionalMaxPool3d": ((2,), {"output_size": 2}, (x(1, 2, 4, 4, 4),)),
            "LPPool1d": ((2, 2), {}, (x(1, 2, 4),)),
            "LPPool2d": ((2, 2), {}, (x(1, 2, 4, 4),)),
            "LPPool3d": ((2, 2), {}, (x(1, 2, 4, 4, 4),)),
            "AdaptiveLogSoftmaxWithLoss": ((4, 6, [2]), {}, (x(3, 4), torch.tensor([0, 1, 5]))),
            "TripletMarginWithDistanceLoss": ((), {}, (x(2, 3), x(2, 3), x(2, 3))),
            "NLLLoss2d": ((), {}, (x(1, 2, 3, 3), torch.zeros(1, 3, 3, dtype=torch.long))),
            "Transformer": ((4, 2, 1, 1, 8), {}, (x(3, 2, 4), x(3, 2, 4))),
            "TransformerDecoder": (
                (nn.TransformerDecoderLayer(4, 2, 8), 1),
                {},
                (x(3, 2, 4), x(3, 2, 4)),
            ),
            "MultiheadAttention": ((4, 2), {}, (x(3, 2, 4), x(3, 2, 4), x(3, 2, 4))),
            "SyncBatchNorm": ((3,), {}, None),
        }
    )


def database():
    """Class -> a list of `(constructor args, keywords, inputs)` from torch's module database."""
    from torch.testing._internal.common_modules import module_db

    found = {}
    for info in module_db:
        calls = found.setdefault(info.module_cls, [])
        try:
            for s in info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=True):
                if s.forward_input is None:
                    continue
                calls.append(
                    (
                        s.constructor_input.args,
                        s.constructor_input.kwargs,
                        s.forward_input.args,
                        s.forward_input.kwargs,
                    )
                )
        except Exception as e:
            print(f"{info.module_cls.__name__}: {e}", file=sys.stderr)
    return found


def kinds(r):
    if torch.is_tensor(r):
        return "tensor"
    if isinstance(r, (tuple, list)):
        return [kinds(v) for v in r]
    return type(r).__name__ if r is not None else "None"


def flat(r):
    if torch.is_tensor(r):
        return [r]
    return [t for v in r for t in flat(v)] if isinstance(r, (tuple, list)) else []


def inputs_of(args):
    """Copies of the inputs: floating ones are clones of leaves, so that they may be changed in place."""
    leaves = []

    def copy(a):
        if torch.is_tensor(a):
            if not a.is_floating_point():
                return a.clone()
            leaf = a.detach().clone().requires_grad_(a.requires_grad)
            if a.requires_grad:
                leaves.append(leaf)
            return leaf.clone()
        return type(a)(map(copy, a)) if type(a) in (tuple, list) else a

    return [copy(a) for a in args], leaves


def call(cls, sample, training=True):
    args, kw, inputs, forward_kw = sample
    torch.manual_seed(0)
    m = cls(*args, **kw).train(training)
    given, leaves = inputs_of(inputs)
    lazy = any(nn.parameter.is_lazy(t) for t in [*m.parameters(), *m.buffers()])
    before = list(m.buffers()) if lazy else [b.clone() for b in m.buffers()]
    torch.manual_seed(1)
    out = m(*given, **forward_kw)
    changed = any(not torch.equal(a, b) for a, b in zip(before, m.buffers(), strict=True))
    return m, given, leaves, out, changed


def alike(a, b):
    return a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


def live(out):
    return [t for t in flat(out) if t.requires_grad]


def grad_to_input(cls, sample):
    _, _, leaves, out, _ = call(cls, sample)
    if not leaves:
        return ""
    if not live(out):
        return "none"
    first = live(out)[0]
    got = torch.autograd.grad((first * torch.rand_like(first)).sum(), leaves, allow_unused=True)
    got = [g for g in got if g is not None]
    return "flows" if any(bool((g != 0).any()) for g in got) else "zero" if got else "none"


def kept(cls, sample):
    """Which of "in" (the first input) and "out" (the first output) backward needs unchanged."""
    found = set()
    for what in ("in", "out"):
        _, given, _, out, _ = call(cls, sample)
        target = next(iter(given), None) if what == "in" else flat(out)[0]
        if not torch.is_tensor(target) or not live(out):
            continue
        s = sum(t.sum() for t in live(out))
        with torch.no_grad():
            target.copy_(target.clone())
        try:
            s.backward()
        except RuntimeError as e:
            if "modified by an inplace operation" in str(e):
                found.add(what)
    return found


def learn_module(cls, samples):
    parameters = list(inspect.signature(cls.__init__).parameters)[1:]
    entry = {"container": cls.__name__ in CONTAINERS, "loss": issubclass(cls, nn.modules.loss._Loss)}
    entry["inplace"] = "inplace" in parameters
    if "reduction" in parameters:
        entry["reduction"] = parameters.index("reduction")
    outs, ranks, sizes, grads, keeps, by_mode = [], [], [], [], [], False
    for sample in samples[:12]:
        try:
            m, given, _, out, changed = call(cls, sample)
        except Exception as e:
            print(f"{cls.__name__}: {type(e).__name__}: {str(e)[:90]}", file=sys.stderr)
            continue
        if not outs:
            entry["parameters"] = [n for n, _ in m.named_parameters()]
            entry["inputs"] = sum(torch.is_tensor(a) for a in given)
        outs.append(kinds(out))
        if flat(out) and sample[1].get("reduction") != "none":
            ranks.append((flat(out)[0].dim(), [a.dim() for a in given if torch.is_tensor(a)]))
        if flat(out) and flat(given) and not entry["loss"]:
            sizes.append([flat(out)[0].shape, *(t.shape for t in flat(given))])
        grads.append(grad_to_input(cls, sample))
        if given:
            keeps.append(kept(cls, sample))
        if len(outs) == 1:
            quiet = call(cls, sample, training=False)[3]
            by_mode = changed or any(not alike(a, b) for a, b in zip(flat(out), flat(quiet), strict=True))
    if not outs:
        return {k: v for k, v in entry.items() if v}
    entry["outputs"] = outs[0]
    entry["grad"] = next((g for g in ("flows", "zero", "none") if g in grads), "")
    entry["saves"] = sorted(set.intersection(*keeps)) if keeps else []
    entry["by_mode"] = by_mode
    if ranks and all(r == 0 for r, _ in ranks):
        entry["shape"] = "scalar" if any(any(ins) for _, ins in ranks) else "unknown"
    elif ranks and all((r > 0) == any(ins) for r, ins in ranks):
        entry["shape"] = "elementwise"
    elif ranks and all(r > 0 for r, _ in ranks):
        entry["shape"] = "nonscalar"
    if any(len(first) > 1 for _, first, *_ in sizes) and all(first == size for size, first, *_ in sizes):
        told = any(len(one) == 2 or len(set(one)) > 1 for one in sizes)  # that it is the first input's, not another's
        entry["sizes"] = "same" if told else ""
    return {k: v for k, v in entry.items() if v or (v == 0 and k == "reduction")}


def modules():
    known, extra = database(), own()
    found = {}
    for n, cls in sorted(vars(nn).items()):
        if not inspect.isclass(cls) or not issubclass(cls, nn.Module):
            continue
        samples = known.get(cls, [])
        if n in extra and extra[n][2] is not None:
            args, kw, inputs = extra[n]
            samples = [(args, kw, inputs, {}), *samples]
        found[f"torch.nn.{n}"] = learn_module(cls, samples)
    return found


# ------------------------------------------------------------------ factories, optimizers
def factories():
    """Functions whose result can be asked to require grad by a keyword, and those that take no tensor."""
    table, (ops, _) = by_hand(), opinfo_samples()
    found = {}
    for name, kind in sorted(public_names().items()):
        last = name.rpartition(".")[2]
        if kind == "property" or last in ("nonzero_static", "requires_grad_"):
            continue
        fn = resolve(name)
        for args, kw in samples_of(name, ops.get(name, []), table):
            kw.pop("dtype", None)
            try:
                r = fn(*args, **{**kw, "requires_grad": True})
                accepts = torch.is_tensor(r) and r.requires_grad and r.is_leaf
            except Exception:
                accepts = False
            try:
                torch.manual_seed(0)
                a = fn(*args, **kw)
                torch.manual_seed(0)
                b = fn(*args, **kw)
                c = fn(*args, **kw)
            except Exception:
                continue
            if not torch.is_tensor(a) or not (accepts or not any(True for a in args for _ in walk(a))):
                continue
            # values, not requires_grad: empty() is neither random nor repeatable
            random = torch.equal(a, b) and not torch.equal(a, c)
            e = found.setdefault(name, {"dtype": set(), "random": False, "requires_grad": False})
            e["dtype"].add(
                "float"
                if a.is_floating_point()
                else "complex"
                if a.is_complex()
                else "bool"
                if a.dtype == torch.bool
                else "int"
            )
            e["random"] |= bool(random)
            e["requires_grad"] |= accepts
    for e in found.values():
        e["dtype"] = "/".join(sorted(e["dtype"]))
    return {n: e for n, e in found.items() if e["requires_grad"] or not n.startswith("torch.Tensor.")}


def optimizers():
    found = {}
    for n, cls in sorted(vars(torch.optim).items()):
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer):
            closure = inspect.signature(cls.step).parameters.get("closure")
            needed = closure is not None and closure.default is inspect.Parameter.empty
            found[f"torch.optim.{n}"] = {"closure": "needed" if needed else "allowed"}
    return found


def schedulers():
    found = {}
    space = torch.optim.lr_scheduler
    for n, cls in sorted(vars(space).items()):
        if inspect.isclass(cls) and issubclass(cls, space.LRScheduler) and not n.startswith("_"):
            metric = "metrics" in inspect.signature(cls.step).parameters
            found[f"torch.optim.lr_scheduler.{n}"] = {"metric": metric}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parts = {
        "torch": torch.__version__,
        "modules": modules(),
        "factories": factories(),
        "optimizers": optimizers(),
        "schedulers": schedulers(),
        "stars": stars(),
        "aliases": dict(sorted(aliases().items())),
    }
    with open(a.out, "w", encoding="utf-8") as f:
        lines = []
        for key, value in parts.items():
            if not isinstance(value, dict):
                lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
                continue
            rows = ",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{rows}\n}}")
        f.write("{" + ",\n".join(lines) + "}\n")
    print({k: len(v) for k, v in parts.items() if isinstance(v, dict)}, file=sys.stderr)


if __name__ == "__main__":
    main()
