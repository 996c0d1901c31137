#!/usr/bin/env python3
"""Learn from the installed torch what each of its public functions does to gradients.

    python tools/learn_op_facts.py server/torchlib/ops.json [--only NAME ...]

Nothing is learned from names: each fact comes from calling the function with the small inputs of `op_samples.py`.
Every function runs in a forked child, so a crash or a hang costs one entry. Needs torch and `expecttest`.

What is recorded of a name:

  grad      flows          every floating output requires grad, and some gradient is not zero
            zero           the output requires grad, but every gradient measured is exactly zero
            partial        some outputs carry gradient and others do not (`max(dim)`: values, indices)
            cut            floating tensor without grad, and its values depend on the input's
            cut_dtype      only integer and bool tensors
            cut_value      Python number, list or array, and it depends on the input's values
            like           tensor without grad whose values do not depend on the input's (`zeros_like`)
            meta           no tensor, nothing that depends on the input's values (`size`, `dim`)
            depends        it differs between samples: see `by_sample`
            factory        takes no floating tensor (`zeros`, `arange`)
            int_only       takes only integer tensors
            no_derivative  the output requires grad, but backward through it raises
            raises         raises when an input requires grad
            untested       no sample asked for a gradient
  outputs   per output: what gradient it carries, dtype, whether it requires grad (`varies`: their number does, and
            one entry stands for all); outputs_dim: those of a call with `dim`, where they are others
  inputs    per argument (position or keyword): flows, zero or none
  fields    the names of the outputs, in order (`x.sort().values`)
  alias     the output shares storage with an input: always, sometimes, never
  inplace   returns an input, changed
  saves     per argument: what is kept for backward while this argument requires grad ("out": an output);
            found by changing that tensor in place and seeing whether backward raises
  may_save  the same, of some samples only
  frees     a second backward through it raises: always, sometimes, never
  shape     scalar (0-dim whatever goes in), elementwise (0-dim if and only if all inputs are), reduce (0-dim without
            `dim`; with as few tensors as it takes: `max(x)`, not `max(x, y)`), nonscalar (never 0-dim), unknown
  sizes     broadcast: the (first) output has the size of all inputs, broadcast; of a loss, with reduction="none"
  reduction, dim   where that argument stands, counted as the call is written
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import platform
import signal
import sys
import time
import warnings

import torch
from op_samples import (
    MAX_SAMPLES,
    by_hand,
    floating,
    is_tensor,
    opinfo_samples,
    public_names,
    rebuild,
    resolve,
    samples_of,
    walk,
    why_skipped,
)

CPU_SECONDS = 60  # of one function: a busy machine must not change the result, so not wall time
SAVE_SAMPLES = 6  # samples on which is measured what an op keeps; it takes many calls each
KIND: dict[str, str] = {}  # name -> "function" or "property"
ORDER = ("none", "zero", "flows")


def dtype_class(t):
    if t.dtype == torch.bool:
        return "bool"
    if t.is_complex():
        return "complex"
    if t.is_floating_point():
        return "float"
    return "quantized" if t.is_quantized else "int"


def show(o):
    if is_tensor(o):
        return f"{dtype_class(o)[0].upper()}{list(o.shape)}"
    if isinstance(o, (list, tuple)):
        return "[" + ", ".join(show(v) for v in o) + "]"
    if isinstance(o, float):
        return f"{o:.3g}"
    return repr(o)[:30] if not callable(o) else "fn"


def storage(t):
    try:
        return t.untyped_storage().data_ptr()
    except Exception:
        return None


def outputs_of(r):
    """The result as a flat list of `(kind, value)`."""
    if is_tensor(r):
        return [("tensor", r)]
    if isinstance(r, torch.Size):
        return [("Size", r)]
    if isinstance(r, (list, tuple)) and any(is_tensor(v) for v in r):
        return [("tensor", v) if is_tensor(v) else (type(v).__name__, v) for v in r]
    if inspect.isgenerator(r) or type(r).__name__ in ("tuple_iterator", "list_iterator"):
        return outputs_of(list(r))
    return [(type(r).__name__, r)]


def names_of(r):
    """The names under which the outputs can be had: `x.sort().values`."""
    return list(getattr(r, "__match_args__", ()) if isinstance(r, tuple) else ())


def same(a, b):
    """Whether two results are equal; None if that cannot be told."""
    try:
        if is_tensor(a):
            a, b = a.detach(), b.detach()
            if a.is_sparse or b.is_sparse or a.layout != torch.strided:
                a, b = a.to_dense(), b.to_dense()
            if a.shape != b.shape:
                return False
            return bool(((a == b) | ((a != a) & (b != b))).all())
        r = a == b
        if hasattr(r, "all"):
            r = bool(r.all())
        return bool(r)
    except Exception:
        return None


def call(name, args, kw):
    space, n = name.rsplit(".", 1)
    if space == "torch.Tensor":
        if KIND.get(name) == "property":
            return getattr(args[0], n)
        result = getattr(torch.Tensor, n)(*args, **kw)
        return args[0] if n == "__setitem__" else result
    return resolve(name)(*args, **kw)


def first_line(e, most=160):
    text = str(e).splitlines()
    return f"{type(e).__name__}: {text[0][:most] if text else ''}"


def weighted(o):
    """A real scalar of an output in which every element counts differently."""
    v = o.to_dense() if o.layout != torch.strided else o
    v = v.to(torch.complex64) if v.dtype == torch.complex32 else v
    if v.is_complex():
        s = (v * torch.rand(v.shape).to(v.dtype) * (1 + 0.5j)).sum()
        return s.real + s.imag
    return (v * (torch.rand(v.shape, dtype=torch.float64).to(v.dtype) + 0.1)).sum()


class Inputs:
    """Fresh copies of a sample's tensors: `leaf` of each, and behind it what is handed in (a clone: an in-place op
    may change it)."""

    def __init__(self, args, kw, requires=None):
        """`requires`: indices of the distinct tensors that require grad; None leaves it as in the sample."""
        self.leaves, self.used, self.paths = [], [], []
        seen = {}

        def use(t):
            if id(t) not in seen:
                leaf = t.detach().clone()
                if floating(leaf) and (t.requires_grad if requires is None else len(self.leaves) in requires):
                    leaf.requires_grad_()
                seen[id(t)] = len(self.leaves)
                self.leaves.append(leaf)
                self.used.append(leaf.clone() if leaf.requires_grad else leaf)
            return self.used[seen[id(t)]]

        found = [(str(i), a) for i, a in enumerate(args)] + list(kw.items())
        self.paths = [(p, t) for p, a in found for _, t in walk(a)]
        self.args, self.kw = rebuild(args, use), rebuild(kw, use)
        self.index = [(p, seen[id(t)]) for p, t in self.paths]


# ------------------------------------------------------------------ one call
def measure(name, args, kw):
    """The facts of one call; `{"error": ...}` if it raises."""
    torch.manual_seed(0)
    x = Inputs(args, kw)
    grads = [(p, x.leaves[i]) for p, i in x.index if x.leaves[i].requires_grad]
    storages = {storage(t) for t in x.used if t.numel()}
    f = {"float_in": any(floating(t) for t in x.leaves), "int_in": any(not floating(t) for t in x.leaves)}
    f["grad_in"] = bool(grads)
    versions = [t._version for t in x.used]
    try:
        torch.manual_seed(0)
        r = call(name, x.args, x.kw)
    except BaseException as e:
        return {"error": first_line(e), **f}
    outs, per_in = outputs_of(r), {}
    f["bumps"] = any(t._version > v for t, v in zip(x.used, versions, strict=True) if is_tensor(r) and r is t)
    f["out"] = []
    for kind, o in outs:
        d = {"kind": kind}
        f["out"].append(d)
        if kind != "tensor":
            continue
        d.update(
            dtype=dtype_class(o), rg=o.requires_grad, alias=bool(o.numel() and storage(o) in storages), grad="none"
        )
        if not (o.requires_grad and grads):
            continue
        if o.numel() == 0:
            d["grad"] = "empty"
            continue
        try:
            got = torch.autograd.grad(weighted(o), [leaf for _, leaf in grads], retain_graph=True, allow_unused=True)
            for (p, _), g in zip(grads, got, strict=True):
                state = "none"
                if g is not None:
                    g = g.to_dense() if g.layout != torch.strided else g
                    state = "flows" if bool((g != 0).any()) else "zero"
                per_in[p] = max(per_in.get(p, "none"), state, key=ORDER.index)
                d["grad"] = max(d["grad"], state, key=ORDER.index)
        except Exception as e:
            d["grad"], d["grad_error"] = "error", first_line(e)
    for p, _ in grads:
        per_in.setdefault(p, "none")
    f["inputs"] = per_in
    f["values"] = depends_on_values(name, args, kw) if f["float_in"] else None
    f["ins"] = [list(t.shape) for _, t in x.paths]
    f["tensors"] = len({p for p, _ in x.paths})  # arguments that hold some
    f["fields"] = names_of(r)
    f["shapes"] = [list(o.shape) for kind, o in outs if kind == "tensor"]
    return f


def depends_on_values(name, args, kw):
    """Whether the result changes when only the values of the floating inputs do."""

    def fresh(change):
        done = {}
        g = lambda t: done.setdefault(id(t), change(t.detach().clone()))  # noqa: E731
        a, k = rebuild(args, g), rebuild(kw, g)
        torch.manual_seed(0)
        return outputs_of(call(name, a, k))

    def changed(mode):
        n = [0]

        def p(t):
            if not floating(t):
                return t
            n[0] += 1
            if mode == 7:  # only the first input becomes zero
                return torch.zeros_like(t) if n[0] == 1 else t
            if mode == 8:  # all weight on the last element
                z = torch.zeros_like(t)
                if z.numel():
                    z.view(-1, z.shape[-1] if z.dim() else 1)[:, -1] = 1
                return z
            if t.layout != torch.strided:
                return t * (3 + mode)
            if mode == 0:
                return t * (1 + 0.01 * torch.rand(t.shape).to(t.dtype))
            if mode == 1:
                return -t
            if mode == 2:
                return torch.randn(t.shape).to(t.dtype)
            return torch.full_like(t, (0.0, float("nan"), float("inf"), float("-inf"))[mode - 3])

        return p

    for mode in range(9):
        try:
            r1, r0 = fresh(lambda t: t), fresh(lambda t: t)
            if not (len(r0) == len(r1) and all(same(u[1], v[1]) for u, v in zip(r0, r1, strict=True))):
                return False  # not repeatable (empty, pointers): says nothing
            r2 = fresh(changed(mode))
            if len(r1) != len(r2) or any(same(u[1], v[1]) is False for u, v in zip(r1, r2, strict=True)):
                return True
        except BaseException:
            continue
    return False


def measure_saves(name, args, kw):
    """`({argument: [what is kept while it requires grad]}, {argument: a second backward raises})` of one call."""
    probe = Inputs(args, kw)
    distinct = {}
    for p, i in probe.index:
        distinct.setdefault(i, p)
    wants = [i for i in distinct if probe.leaves[i].requires_grad and probe.leaves[i].numel()]
    saves, frees = {}, {}

    def run(i):
        torch.manual_seed(0)
        x = Inputs(args, kw, {i})
        outs = [o for kind, o in outputs_of(call(name, x.args, x.kw)) if kind == "tensor"]
        live = [o for o in outs if o.requires_grad and o.numel()]
        return x, outs, live, [torch.ones_like(o) for o in live]

    def touched(t):
        with torch.no_grad():
            t.copy_(t.detach().clone())

    def backward(x, live, ones, i):
        torch.autograd.grad(live, x.leaves[i], ones, allow_unused=True)

    for i in wants:
        try:
            x, outs, live, ones = run(i)
            if not live:
                continue
            backward(x, live, ones, i)
        except Exception:
            continue
        path = distinct[i]
        try:
            backward(x, live, ones, i)
            frees[path] = False
        except RuntimeError as e:
            frees[path] = "second time" in str(e)
        kept = saves.setdefault(path, [])
        for j in [*distinct, "out"]:
            x, outs, live, ones = run(i)
            try:
                for t in outs if j == "out" else [x.used[j]]:
                    touched(t)
            except RuntimeError:
                continue
            try:
                backward(x, live, ones, i)
            except RuntimeError as e:
                if "modified by an inplace operation" in str(e):
                    kept.append("out" if j == "out" else distinct[j])
    return saves, frees


def classify(f):
    if "error" in f:
        return "raises"
    tensors = [d for d in f["out"] if d["kind"] == "tensor"]
    if not f["float_in"]:
        return "int_only" if f["int_in"] else "factory"
    if not f["grad_in"]:
        return "untested"
    if not tensors:
        return "cut_value" if f["values"] else "meta"
    live = [d for d in tensors if d["rg"]]
    if not live:
        if not f["values"]:
            return "like"
        return "cut" if any(d["dtype"] in ("float", "complex", "quantized") for d in tensors) else "cut_dtype"
    if any(d["grad"] == "error" for d in live):
        return "flows" if any(d["grad"] == "flows" for d in live) else "no_derivative"
    best = [d["grad"] for d in live if d["grad"] != "empty"]
    if not best:
        return "empty"
    if "flows" not in best:
        return "zero" if "zero" in best else "unconnected"
    return "flows" if len(live) == len(tensors) else "partial"


# ------------------------------------------------------------------ where an argument stands
def positions(name, wanted):
    """Every position at which torch's signatures of `name` have one of the arguments `wanted`, `self` counted."""
    space, n = name.rsplit(".", 1)
    found = set()
    prefix = {"torch.linalg": "linalg_", "torch.special": "special_", "torch.fft": "fft_"}.get(space, "")
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{prefix}{n}"):
        for i, a in enumerate(schema.arguments):
            if a.name in wanted:
                found.add((a.name, i))
    try:
        for i, p in enumerate(inspect.signature(resolve(name)).parameters.values()):
            if p.name in wanted:
                found.add((p.name, i if p.kind is not p.KEYWORD_ONLY else -1))
    except (ValueError, TypeError, AttributeError):
        pass
    return sorted(found)


def given(places, args, kw):
    """The value of the first of the arguments `places` that the call passes, else None."""
    for n, i in places:
        if kw.get(n) is not None:
            return kw[n]
        if 0 <= i < len(args) and args[i] is not None and not is_tensor(args[i]) and args[i] != ():
            if isinstance(args[i], bool) and n != "keepdim":
                continue  # std(x, unbiased): another overload has another argument there
            return args[i]
    return None


def shape_of(facts):
    """The rank effect that all samples agree on. `facts`: those of the calls that returned."""
    pool = [f for f in facts if f["shapes"] and all(d["kind"] == "tensor" for d in f["out"]) and f["ins"]]
    pool = [f for f in pool if f["reduction"] not in ("none", 0)]
    if not pool or len(pool) < sum(1 for f in facts if f["reduction"] not in ("none", 0)):
        return "unknown"
    if any(f["dim_at"] for f in pool):  # max(x), not max(x, y)
        fewest = min(f["tensors"] for f in pool)
        pool = [f for f in pool if f["tensors"] == fewest]
    rank = lambda f: len(f["shapes"][0])  # noqa: E731
    full = lambda f: any(f["ins"])  # noqa: E731
    if any(f["reduction"] is not None for f in facts):
        return "scalar" if all(rank(f) == 0 for f in pool) else "unknown"
    if all((rank(f) > 0) == full(f) for f in pool):
        return "elementwise" if any(full(f) for f in pool) else "unknown"
    if all(rank(f) > 0 for f in pool):
        return "nonscalar"
    plain = [f for f in pool if f["dim"] is None and not f["keepdim"]]
    if any(full(f) for f in plain) and all(rank(f) == 0 for f in plain):
        return "reduce" if len(plain) < len(pool) or any(f["dim_at"] for f in pool) else "scalar"
    return "unknown"


def other_sizes(name, args, kw):
    """What the call gives when its tensors have other sizes, where it takes them: `ins`, `shapes` and `out` of each."""

    def row(t):
        while t.dim() > 1:
            t = t[0]
        return t

    changes = (
        lambda t: t.reshape(-1),
        row,
        lambda t: row(t)[:1],
        lambda t: t[0] if t.dim() else t,
        lambda t: t.reshape(-1)[0],
        lambda t: torch.stack([t, t]),
    )
    for change in changes:
        try:
            a, k = (rebuild(x, lambda t, change=change: change(t.detach()).clone()) for x in (args, kw))
            outs = outputs_of(call(name, a, k))
        except BaseException:
            continue
        yield {
            "ins": [list(t.shape) for x in [*a, *k.values()] for _, t in walk(x)],
            "shapes": [list(o.shape) for kind, o in outs if kind == "tensor"],
            "out": [{"kind": kind} for kind, _ in outs],
        }


def sizes_of(facts):
    """Whether the first output always has the size of all inputs, broadcast: of a loss, where it does not reduce."""
    if any(f["reduction"] is not None for f in facts):
        facts = [f for f in facts if f["reduction"] == "none"]
    told = False
    for f in facts:
        if not f["shapes"] or not f["ins"] or f["out"][0]["kind"] != "tensor":
            return ""
        try:
            if f["shapes"][0] != list(torch.broadcast_shapes(*f["ins"])):
                return ""
        except RuntimeError:
            return ""
        told = told or len(f["shapes"][0]) > 1
    return "broadcast" if told else ""


# ------------------------------------------------------------------ one function
def learn(name, ops, table):
    facts, broken, saves, frees = [], "", [], []
    overloads = set()  # of which was measured what they keep: `x ** y` and `x ** 2` are two
    reduction_at, dim_at = positions(name, ("reduction",)), positions(name, ("dim", "dims", "axis"))
    keepdim_at, sizes = positions(name, ("keepdim",)), []
    begun = time.process_time()
    for args, kw in samples_of(name, ops, table):
        example = "(" + ", ".join([show(a) for a in args] + [f"{k}={show(v)}" for k, v in kw.items()]) + ")"
        try:
            f = measure(name, args, kw)
        except BaseException as e:
            broken = broken or first_line(e)
            continue
        f.update(ex=example[:90], reduction=given(reduction_at, args, kw), dim=given(dim_at, args, kw))
        f.update(keepdim=bool(given(keepdim_at, args, kw)), dim_at=bool(dim_at))
        f["class"] = classify(f)
        if f["class"] != "raises" and len(sizes) < 60:
            same_call = {k: f[k] for k in ("reduction", "dim", "keepdim", "dim_at", "tensors")}
            sizes.extend(same_call | s for s in other_sizes(name, args, kw))
        facts.append(f)
        overload = tuple(is_tensor(a) for a in args)
        if f["class"] in ("flows", "partial", "zero") and (len(saves) < SAVE_SAMPLES or overload not in overloads):
            overloads.add(overload)
            try:
                s, fr = measure_saves(name, args, kw)
                saves.append(s)
                frees.append(fr)
            except BaseException as e:
                broken = broken or first_line(e)
        if len(facts) >= MAX_SAMPLES * 2 or time.process_time() - begun > 20:
            break
    if not facts:
        return {"failed": broken or "no sample"}
    good = [f for f in facts if f["class"] != "raises"]
    if not good:
        return only_raises(name, ops, table, facts)
    entry = {"grad": summed_class(good)}
    if entry["grad"] == "depends":
        by = {}
        for f in good:
            by.setdefault(f["class"], f["ex"])
        entry["by_sample"] = by
    entry.update(outputs_entry(good))
    if entry.get("varies") and dim_at:  # max(), and max(dim) with its indices
        plain, along = [f for f in good if f["dim"] is None], [f for f in good if f["dim"] is not None]
        for key, part in (("outputs", plain), ("outputs_dim", along)):
            form = outputs_entry(part) if part else {"varies": True}
            if "varies" not in form:
                entry[key] = form["outputs"]
                entry.pop("varies", None)
    fields = next((f["fields"] for f in good if f["fields"]), None)
    if fields:
        entry["fields"] = fields
    inputs = {}
    for f in good:
        for p, g in f.get("inputs", {}).items():
            inputs[p] = max(inputs.get(p, "none"), g, key=ORDER.index)
    if inputs:
        entry["inputs"] = inputs
    shared = {any(d.get("alias") for d in f["out"]) for f in good if any(d["kind"] == "tensor" for d in f["out"])}
    if shared:
        entry["alias"] = "always" if shared == {True} else "never" if shared == {False} else "sometimes"
    entry.update(saves_entry(saves, frees))
    method = name.startswith("torch.Tensor.")
    entry["shape"] = shape_of(good + sizes)
    if found := sizes_of(good + sizes):
        entry["sizes"] = found
    bumped = {f["bumps"] for f in good}
    if bumped == {True}:
        entry["inplace"] = True
    for key, at in (("reduction", reduction_at), ("dim", dim_at)):
        if at:
            entry[key] = {n: (i - 1 if method else i) if i >= 0 else -1 for n, i in at}
    error = next((d["grad_error"] for f in good for d in f["out"] if "grad_error" in d), None)
    if error and entry["grad"] == "no_derivative":
        entry["error"] = error
    if KIND.get(name) == "property":
        entry["property"] = True
    return entry


def only_raises(name, ops, table, facts):
    """The entry of a function that refused every sample: is it the gradient that it refuses?"""
    for args, kw in samples_of(name, ops, table):
        try:
            plain = lambda t: t.detach().clone()  # noqa: E731
            call(name, rebuild(args, plain), rebuild(kw, plain))
        except BaseException:
            continue
        return {"grad": "raises", "error": facts[0]["error"]}
    return {"failed": facts[0]["error"]}


def summed_class(good):
    classes = [f["class"] for f in good]
    kinds = set([c for c in classes if c not in ("untested", "empty")] or classes)
    if len(kinds) > 1:
        kinds = kinds - {"factory", "int_only"} or kinds
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= {"flows", "zero", "unconnected"}:
        return "flows"  # zero for some inputs only: relu of negatives
    if kinds <= {"cut", "like", "cut_dtype"}:
        return "cut" if "cut" in kinds else "cut_dtype"
    if kinds <= {"cut_value", "meta"}:
        return "cut_value"
    if kinds == {"flows", "partial"}:
        return "partial"
    return "depends"


def outputs_entry(good):
    most = max(len(f["out"]) for f in good)
    vary = len({len(f["out"]) for f in good}) > 1
    if vary:
        merged = [[(d, f) for f in good for d in f["out"]]]
    else:
        merged = [[(f["out"][i], f) for f in good] for i in range(min(most, 8))]
    outs = []
    for pairs in merged:
        tensors = [(d, f) for d, f in pairs if d["kind"] == "tensor"]
        out = {"kind": "/".join(sorted({d["kind"] for d, _ in pairs}))}
        if tensors:
            asked = {d["rg"] for d, f in tensors if f["grad_in"]} or {d["rg"] for d, _ in tensors}
            got = {d["grad"] for d, _ in tensors}
            out["dtype"] = "/".join(sorted({d["dtype"] for d, _ in tensors}))
            out["rg"] = "always" if asked == {True} else "never" if asked == {False} else "sometimes"
            out["grad"] = next((g for g in ("flows", "zero", "error") if g in got), "none")
        outs.append(" ".join(out.get(k) or "-" for k in ("grad", "kind", "dtype", "rg")))
    return {"outputs": outs, **({"varies": True} if vary else {})}


def saves_entry(saves, frees):
    always, ever, free = {}, {}, set()
    for s in saves:
        for p, kept in s.items():
            always[p] = [k for k in always.get(p, kept) if k in kept]
            ever.setdefault(p, set()).update(kept)
    for fr in frees:
        free.update(fr.values())
    entry = {}
    sure = {p: k for p, k in always.items() if k}
    maybe = {p: sorted(k - set(always[p])) for p, k in ever.items() if k - set(always[p])}
    if sure:
        entry["saves"] = sure
    if maybe:
        entry["may_save"] = maybe
    if free:
        entry["frees"] = "always" if free == {True} else "never" if free == {False} else "sometimes"
    return entry


# ------------------------------------------------------------------ all of them
def in_child(name, ops, table, verbose):
    """`learn` in a forked process, which may crash or be stopped."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(r)
        try:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            signal.alarm(CPU_SECONDS * 10)
            if not verbose:
                quiet = os.open(os.devnull, os.O_WRONLY)
                os.dup2(quiet, 1)
                os.dup2(quiet, 2)
            torch.manual_seed(0)
            out = learn(name, ops, table)
        except BaseException as e:
            out = {"failed": first_line(e)}
        try:
            data = json.dumps(out).encode()
            while data:
                data = data[os.write(w, data) :]
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(data) if data else {"failed": "the child died"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="the file to write; with --only it is printed instead")
    parser.add_argument("--only", nargs="*", help="these names alone")
    parser.add_argument("--verbose", action="store_true")
    a = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    KIND.update(public_names())
    ops, why = opinfo_samples()
    if why:
        sys.exit(f"torch's operator database cannot be read ({why}); install expecttest")
    torch.manual_seed(0)
    table = by_hand()
    for n, kind in KIND.items():
        if kind == "property" and n not in table:
            x = torch.rand(3, 3, dtype=torch.complex64 if n.endswith(".imag") else torch.float32)
            table[n] = [((x.requires_grad_(),), {})]
    learned, failed = {}, {}
    for n in sorted(KIND) if not a.only else a.only:
        reason = why_skipped(n)
        known = n in table or n in ops
        if not known or reason == "not an operation on tensors":
            continue
        entry = in_child(n, ops.get(n, []), table, a.verbose)
        (failed if "failed" in entry else learned)[n] = entry
    if a.only:
        json.dump({**learned, **failed}, sys.stdout, indent=1)
        return
    write(a.out, learned)
    print(f"{len(learned)} learned; failed: {failed}", file=sys.stderr)


def write(path, learned):
    """Equal entries once, with the names that share them: small, and quick to load."""
    groups = {}
    for n, e in learned.items():
        groups.setdefault(json.dumps(e, sort_keys=True), []).append(n)
    rows = [{"op": json.loads(e), "names": names} for e, names in groups.items()]
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{{"torch": {json.dumps(torch.__version__)}, "python": {json.dumps(platform.python_version())},\n')
        f.write('"rows": [\n')
        f.write(",\n".join(json.dumps([r["op"], " ".join(r["names"])], separators=(",", ":")) for r in rows))
        f.write("\n]}\n")


if __name__ == "__main__":
    main()
