"""Every backward call: what was differentiated, what its graph reaches, and who has a gradient afterwards."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any

from . import grad_mode, ops
from .places import show
from .run import Run

MAX_RECORDS = 128
MAX_NAMES = 200
NOTHING_HERE = -1.0  # a sharded gradient of which this rank holds no element


def install(run: Run) -> None:
    """Replace `torch.autograd.backward`, which `Tensor.backward` looks up when called, and `torch.autograd.grad`."""
    autograd = run.torch.autograd
    original, original_grad = autograd.backward, autograd.grad

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not run.ours():
            return original(tensors, *args, **kwargs)
        record = run.safely(before, run, tensors, args, kwargs, sys._getframe(1)) or {}
        run.busy += 1  # a reentrant checkpoint calls backward inside backward
        start = time.perf_counter()
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException as error:
            run.busy -= 1
            run.safely(failed, run, record, error)
            raise
        run.busy -= 1
        run.safely(run.wait)
        if not run.safely(after, run, record, time.perf_counter() - start):
            run.blind = True  # what has a gradient is not known: nothing may be said of what has none
        run.maybe_stop()
        return result

    def grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        result = original_grad(outputs, inputs, *args, **kwargs)
        if run.ours():
            run.safely(_grad, run, outputs, result, args, kwargs, sys._getframe(1))
        return result

    for mine, theirs in ((backward, original), (grad, original_grad)):
        mine.__doc__, mine.__wrapped__ = theirs.__doc__, theirs  # type: ignore[attr-defined]
    autograd.backward, autograd.grad = backward, grad
    run.undo += [lambda: setattr(autograd, "backward", original), lambda: setattr(autograd, "grad", original_grad)]


def _grad(run: Run, outputs: Any, result: Any, args: tuple, kwargs: dict, frame: Any) -> None:
    """Without `create_graph` the gradients that come back carry no graph: a cut like any other."""
    from . import cuts

    run.autograd_grads += 1
    create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
    if create or not isinstance(result, (list, tuple)) or run.options["level"] != "full":
        return
    with run.quiet():
        sources = [t for t in (outputs if isinstance(outputs, (list, tuple)) else (outputs,)) if t.requires_grad]
        key = cuts.cut(run, "autograd.grad", "no create_graph", sources, frame)
        for tensor in result:
            if tensor is not None:
                cuts.mark(run, tensor, frozenset((key,)))


def first(tensors: Any) -> Any:
    return tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors


def before(run: Run, tensors: Any, args: tuple, kwargs: dict, frame: Any) -> dict:
    run.phases.add("forward", run.forward_seconds + run.wait())
    run.phases.ends("forward")
    run.forward_seconds = 0.0
    run.backward_calls += 1
    run.since_step += 1
    run.idle = False
    tensor = first(tensors)
    stack = run.places.stack(frame, 6)
    record: dict[str, Any] = {
        "n": run.backward_calls,
        "step": run.steps,
        "at": show(stack),
        "grad_enabled": run.grad_on(),
    }
    record["training"] = [ref().training for ref, _ in run.roots.values() if ref() is not None]
    if run.first_backward is None:
        run.first_backward = round(time.time() - run.started, 3)
    blame = grad_mode.blamed(run)
    if blame is not None:
        record["grad_off_since"] = run.strip(blame)
        code = blame.get("code")
        inner = frame
        while code is not None and inner is not None:  # the blamed function is still running: name the line it is at
            if inner.f_code is code:
                record["inside"] = {"file": code.co_filename, "line": inner.f_lineno, "function": code.co_name}
            inner = inner.f_back
    if len(run.backwards) < MAX_RECORDS:
        run.backwards.append(record)
    if not isinstance(tensor, run.torch.Tensor):
        record["type"] = type(tensor).__name__
        return record
    with run.quiet():
        record.update(
            shape=list(tensor.shape),
            dtype=str(tensor.dtype).replace("torch.", ""),
            device=str(tensor.device),
            requires_grad=tensor.requires_grad,
            grad_fn=type(tensor.grad_fn).__name__ if tensor.grad_fn is not None else None,
        )
        born = run.born.get(id(tensor))
        if born is not None and born[0]() is tensor:
            record["made"] = run.one(born[1])
        if tensor.numel() == 1 and not tensor.is_meta and not hasattr(tensor, "_local_tensor"):
            value = tensor.detach().float().item()
            finite = value == value and abs(value) != float("inf")
            record["value"] = value if finite else str(value)
            if not finite:
                run.anomalies.append({"kind": "loss is not finite", "value": str(value), "at": record["at"]})
                run.look_everywhere = run.first_bad is None
        leaves, nodes = run.walk(tensor)
        record["graph_nodes"], record["leaves"] = len(nodes), len(leaves)
        record["_leaves"] = set(leaves)
        record["_nodes"] = nodes
        run.reached.update(leaves)
        _functions(run, nodes)
        if tensor.is_leaf and tensor.requires_grad:
            record["is_leaf"] = True
            made = run.made_leaf.get(id(tensor))
            if made is not None and made[0]() is tensor:
                record["made_leaf"] = {"at": show(made[1]), "how": made[2]}
        keys = marks_of(run, tensor)
        record["_marks"] = keys
        run.loss_marks |= keys
        record["cuts_feeding_the_loss"] = [[*list(key[0] or ("?", 0)), key[1]] for key in list(keys)[:50]]
        _dead_terms(run, tensor)
        _broadcasts(run, tensor)
        retain = kwargs.get("retain_graph", args[1] if len(args) > 1 else None)
        create = kwargs.get("create_graph", args[2] if len(args) > 2 else False)
        here = sum(step == run.steps for _, step in run.loss_nodes)
        if tensor.grad_fn is not None and not retain and not create and here < 2:
            # holding a node holds what its graph saved: only of graphs that backward frees, and of few
            run.loss_nodes.append((tensor.grad_fn, run.steps))
            del run.loss_nodes[:-4]
        parameters = record["_parameters"] = run.parameters()
        run.had = {}
        for key, (_, parameter) in parameters.items():
            if key not in run.stepped:
                continue
            gradient = parameter.grad if parameter.is_leaf else None
            if gradient is None or (not gradient.is_sparse and not bool(local(gradient).any())):
                run.stepped.pop(key, None)  # cleared since its step
                run.stale.pop(key, None)
            else:
                run.had[key] = (parameter, gradient._version)
    return record


def _functions(run: Run, nodes: set) -> None:
    """Note the user's own autograd functions in the graph, and which leaves lie upstream of each."""
    for node in nodes:
        cls = getattr(type(node), "_forward_cls", None)
        if cls is None or cls in run.functions or len(run.functions) > 31:
            continue
        code = getattr(getattr(cls, "backward", None), "__code__", None)
        if code is not None and run.places.is_user(code.co_filename):
            run.functions[cls] = set(run.upstream(node))


def local(tensor: Any) -> Any:
    """The rank's own part of a distributed tensor: looking at it must never start a collective."""
    return getattr(tensor, "_local_tensor", tensor)


def marks_of(run: Run, tensor: Any) -> frozenset:
    entry = run.marks.get(id(tensor))
    return entry[1] if entry is not None and entry[0]() is tensor else frozenset()


def _chain(loss: Any, words: Iterable[str]) -> set:
    """The nodes from which the loss was made by nothing but nodes with one of these words in their names."""
    chain: set = set()
    todo = [loss.grad_fn]
    while todo and len(chain) < 64:
        node = todo.pop()
        if node is None or node in chain or not any(word in type(node).__name__ for word in words):
            continue
        chain.add(node)
        todo.extend(after for after, _ in node.next_functions)
    return chain


def _dead_terms(run: Run, loss: Any) -> None:
    """Sums on the way to the loss in which one term has no graph: follow only additions and scalings."""
    if not run.dead_terms:
        return
    chain = _chain(loss, ops.ADD_NODES)
    for entry in run.dead_terms:
        ref = entry[0]
        if entry[1] in chain or ref() is loss:
            entry[3]["reached"] = True
            entry[3].setdefault("backward", run.backward_calls)


def _broadcasts(run: Run, loss: Any) -> None:
    """Differences of (N, 1) and (N,) from which the loss was made by nothing but elementwise operations and sums."""
    waiting, run.broadcasts = run.broadcasts, []  # they hold the graph: only until its backward
    if not waiting or loss.numel() != 1:
        return
    chain = _chain(loss, ops.ELEMENTWISE_NODES)
    for node, shapes, place in waiting:
        at = run.one(place)
        if node not in chain or any(e["rule"] == "broadcast-loss" and e["at"] == at for e in run.extra):
            continue
        size = max(shape[0] for shape in shapes)
        text = f"shapes {shapes[0]} and {shapes[1]} are broadcast to [{size}, {size}]: every prediction is compared with every target"
        run.extra.append({"rule": "broadcast-loss", "message": text, "at": at, "confidence": "likely", "evidence": []})


def failed(run: Run, record: dict, error: BaseException) -> None:
    record["ok"] = False
    record.pop("_nodes", None)
    record.pop("_parameters", None)
    run.had = {}
    text = str(error)
    record["error"] = f"{type(error).__name__}: {text.splitlines()[0][:400] if text else ''}"
    if not isinstance(error, Exception):
        run.backwards[:] = [entry for entry in run.backwards if entry is not record]


def norms(run: Run, gradients: list) -> list[float]:
    """The 2-norm of each gradient, with one call and one wait per device and dtype."""
    torch = run.torch
    groups: dict[Any, list[tuple[int, Any]]] = {}
    out = [0.0] * len(gradients)
    for index, gradient in enumerate(gradients):
        values = local(gradient).detach()
        if values.is_sparse:
            values = values.coalesce().values()
        if not values.numel() or values.is_meta:
            continue
        if values.is_complex():
            values = torch.view_as_real(values)
        groups.setdefault((values.device, values.dtype), []).append((index, values))
    for (_, dtype), entries in groups.items():
        found = _each_norm(torch, [values for _, values in entries], dtype)
        for (index, _), value in zip(entries, torch.stack(found).tolist()):
            out[index] = value
    return out


def _each_norm(torch: Any, tensors: list, dtype: Any) -> Any:
    if dtype in (torch.float32, torch.float64):
        try:
            return torch._foreach_norm(tensors, 2)
        except (AttributeError, RuntimeError, TypeError):
            pass
    wide = dtype if dtype == torch.float64 else torch.float32  # a half's square overflows
    return [torch.linalg.vector_norm(values, dtype=wide) for values in tensors]


def after(run: Run, record: dict, seconds: float) -> bool:
    """Look at the gradients; True when all of it was seen."""
    torch = run.torch
    record["ok"] = True
    record["seconds"] = round(seconds, 6)
    run.phases.add("backward", seconds)
    run.phases.ends("backward")
    with run.quiet(), torch.no_grad():
        nodes, parameters = record.pop("_nodes", set()), record.pop("_parameters", None) or run.parameters()
        _age(run, nodes)
        for key in record.get("_leaves", ()):
            run.fresh.setdefault(key, []).append(run.backward_calls)
        run.grad_read = False
        if len(run.backwards) >= MAX_RECORDS:
            return True
        named = [(key, name, p.grad) for key, (name, p) in parameters.items() if p.is_leaf and p.requires_grad]
        none = [name for _, name, gradient in named if gradient is None]
        have = [(key, name, gradient) for key, name, gradient in named if gradient is not None]
        zero: list[str] = []
        bad: list[str] = []
        good: list[float] = []
        for (key, name, gradient), norm in zip(have, norms(run, [gradient for _, _, gradient in have])):
            if not local(gradient).numel():
                run.grads.setdefault(key, NOTHING_HERE)
                continue
            finite = norm == norm and norm != float("inf")
            run.grads[key] = max(run.grads.get(key, 0.0), norm if finite else float("inf"))
            run.seen_grads[key] = {"norm": norm if finite else str(norm), "backward": run.backward_calls}
            if not finite:
                bad.append(name)
            elif norm == 0.0:
                zero.append(name)
            else:
                good.append(norm)
        for key, (parameter, version) in run.had.items():
            if parameter.grad is not None and parameter.grad._version != version and key in record["_leaves"]:
                run.stale.setdefault(key, {"at": record["at"]})
        run.had = {}  # these are strong references
        record["parameters"] = {
            "trainable": len(named),
            "with_grad": len(have),
            "none": none[:MAX_NAMES],
            "none_count": len(none),
            "zero": zero[:MAX_NAMES],
            "zero_count": len(zero),
            "not_finite": bad[:MAX_NAMES],
            "norm": sum(norm * norm for norm in good) ** 0.5,
            "largest": max(good, default=0.0),
            "smallest": min(good, default=0.0),
        }
        if bad:
            made = run.bad_backward
            entry = {"kind": "gradient is not finite", "params": bad[:20], "at": record["at"]}
            run.anomalies.append({**entry, "made": made} if made else entry)
    return True


def _age(run: Run, nodes: set) -> None:
    """What this backward went through and is still alive is old: using it again needs a graph that is freed."""
    run.old = {key: entry for key, entry in run.old.items() if entry[0]() is not None}
    for key, (ref, place) in list(run.born.items()):
        tensor = ref()
        if tensor is None:
            del run.born[key]
            continue
        try:
            node = tensor.grad_fn
        except RuntimeError:  # a view made under no_grad whose base was changed in place
            continue
        if node is not None and _meets(node, nodes):
            run.old[key] = (ref, place, run.backward_calls)
        elif node is not None and tensor.numel() == 1 and len(run.scalars) < 512:
            run.scalars.append((ref, place))
    if len(run.born) > 50_000:
        run.born.clear()


def _meets(node: Any, nodes: set) -> bool:
    """Whether a graph runs into another one within a few nodes (another output of the same layer, say)."""
    level = [node]
    for _ in range(4):
        if any(one in nodes and not hasattr(one, "variable") for one in level):
            return True
        level = [after for one in level[:16] for after, _ in one.next_functions if after is not None]
    return False
