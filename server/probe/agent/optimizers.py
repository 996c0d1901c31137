"""Optimizers: which parameters they hold, when gradients are cleared, and what a step changed."""

from __future__ import annotations

import functools
import sys
import time
import weakref
from typing import Any

from .backward import local
from .places import show
from .run import Run

WHOLE = 1 << 20  # a parameter of up to so many elements is compared as a whole, a larger one by a sample
SAMPLE = 1 << 16


def install(run: Run) -> None:
    """Patch the base classes (every subclass, GradScaler and trainers come through them) and use the global hooks."""
    module = sys.modules["torch.optim.optimizer"]
    Optimizer, Module = module.Optimizer, run.torch.nn.Module
    init, zero_grad, module_zero = Optimizer.__init__, Optimizer.zero_grad, Module.zero_grad
    hooks = hasattr(module, "register_optimizer_step_pre_hook")  # since torch 2.0
    if run.options.get("keep_compile") and not hasattr(getattr(run.torch, "compiler", None), "is_compiling"):
        hooks = False  # this dynamo takes what calls the hooks off the optimizers

    @functools.wraps(init)
    def __init__(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        if run.done:
            return init(self, params, *args, **kwargs)
        if isinstance(params, (list, tuple)):
            _look_at(run, params, sys._getframe(1))
        result = init(self, params, *args, **kwargs)
        run.safely(made, run, self, sys._getframe(1))
        if not hooks:
            _wrap_step(run, type(self))
        return result

    @functools.wraps(zero_grad)
    def cleared(self: Any, *args: Any, **kwargs: Any) -> Any:
        if run.ours():
            run.safely(_cleared, run, self, sys._getframe(1))
        return _unread(run, zero_grad, self, *args, **kwargs)

    @functools.wraps(module_zero)
    def module_cleared(self: Any, *args: Any, **kwargs: Any) -> Any:
        if run.ours():
            run.safely(_cleared, run, self, sys._getframe(1))
        return _unread(run, module_zero, self, *args, **kwargs)

    Optimizer.__init__, Optimizer.zero_grad, Module.zero_grad = __init__, cleared, module_cleared
    run.undo += [
        lambda: setattr(Optimizer, "__init__", init),
        lambda: setattr(Optimizer, "zero_grad", zero_grad),
        lambda: setattr(Module, "zero_grad", module_zero),
    ]
    if hooks:
        handles = [
            module.register_optimizer_step_pre_hook(lambda o, args, kwargs: _before(run, o, args, kwargs)),
            module.register_optimizer_step_post_hook(lambda o, args, kwargs: _after(run, o)),
        ]
        run.undo.extend(handle.remove for handle in handles)


def _unread(run: Run, call: Any, *args: Any, **kwargs: Any) -> Any:
    """Torch's own look at `.grad` is not the user's."""
    before = run.grad_read
    try:
        return call(*args, **kwargs)
    finally:
        run.grad_read = before


def _wrap_step(run: Run, cls: type) -> None:
    step = cls.__dict__.get("step")
    if step is None or hasattr(step, "_gradline"):
        return

    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        _before(run, self, (self, *args), kwargs)
        result = step(self, *args, **kwargs)
        _after(run, self)
        return result

    stepped._gradline = True  # type: ignore[attr-defined]
    stepped.hooked = False  # type: ignore[attr-defined]  # else dynamo would take it off
    cls.step = stepped  # type: ignore[attr-defined]
    run.undo.append(lambda: setattr(cls, "step", step))


def _look_at(run: Run, params: Any, frame: Any) -> None:
    """Before torch refuses a tensor that is no leaf: remember where it was made."""
    for item in params:
        if isinstance(item, run.torch.Tensor) and item.grad_fn is not None:
            born = run.born.get(id(item))
            if born is not None and born[0]() is item:
                run.anomalies.append({"kind": "not a leaf", "at": run.one(born[1]), "shape": list(item.shape)})


def made(run: Run, optimizer: Any, frame: Any) -> None:
    stack = run.places.stack(frame, 5)
    if run.entry(optimizer) is not None:  # a subclass may call the base twice
        return
    ids = {id(p) for group in optimizer.param_groups for p in group["params"]}
    for entry in run.optimizers:
        older = entry["ref"]()
        if older is not None and entry["steps"] and entry["type"] == type(optimizer).__name__:
            same = ids & {id(p) for group in older.param_groups for p in group["params"]}
            if same == ids and stack and entry["at"] and entry["at"]["line"] == stack[0].line:
                run.extra.append(
                    {
                        "rule": "optimizer-rebuilt",
                        "message": f"{entry['type']} is made anew over the same parameters: its state starts again",
                        "at": show(stack),
                        "confidence": "possible",
                    }
                )
    run.optimizers.append(
        {
            "ref": weakref.ref(optimizer),
            "type": type(optimizer).__name__,
            "at": show(stack),
            "groups": len(optimizer.param_groups),
            "params": len(ids),
            "steps": 0,
            "frozen": [id(p) for group in optimizer.param_groups for p in group["params"] if not p.requires_grad],
        }
    )


def _cleared(run: Run, owner: Any, frame: Any) -> None:
    place = run.places.near(frame)
    if run.since_step:
        run.cleared = {"at": run.one(place), "after_backward": run.backward_calls}
    if isinstance(owner, run.torch.nn.Module):
        parameters = list(owner.parameters())
    else:
        parameters = [p for group in owner.param_groups for p in group["params"]]
    run.clears.append((id(owner), place, run.backward_calls, {id(p) for p in parameters}))
    del run.clears[:-64]
    for parameter in parameters:
        for n in run.fresh.pop(id(parameter), ()):
            if run.in_step:  # a closure's backward, which the step around it uses
                run.used.add(n)
                continue
            entry = run.thrown.setdefault(n, {"ids": set(), "at": run.one(place), "read": False})
            entry["ids"].add(id(parameter))
            entry["read"] |= run.grad_read


def _cleared_another(run: Run, optimizer: Any) -> dict | None:
    """The last clearing, if it was another optimizer's and nothing was back-propagated into that one since."""
    if not run.clears:
        return None
    owner, place, when, ids = run.clears[-1]
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if owner == id(optimizer) or ids & mine:
        return None
    later = (record.get("_leaves", set()) for record in run.backwards if record["n"] > when)
    return None if any(ids & leaves for leaves in later) else run.one(place)


def _before(run: Run, optimizer: Any, args: tuple, kwargs: dict) -> None:
    if run.ours():
        closure = any(callable(a) for a in args[1:]) or callable(kwargs.get("closure"))
        run.safely(_look_before, run, optimizer, closure, sys._getframe(1))
        run.in_step = True
        run.stepping = not closure
        run.step_started = time.perf_counter()


def _after(run: Run, optimizer: Any) -> None:
    if run.ours():
        run.safely(run.wait)
        seconds = time.perf_counter() - run.step_started
        run.in_step = run.stepping = False
        run.safely(_look_after, run, optimizer, seconds, sys._getframe(1))
        run.maybe_stop()


def _sample(tensor: Any) -> Any:
    values = local(tensor).detach()
    if values.numel() > WHOLE and values.is_contiguous():
        values = values.view(-1)[:: max(1, values.numel() // SAMPLE)]
    return values


def _look_before(run: Run, optimizer: Any, closure: bool, frame: Any) -> None:
    torch = run.torch
    stack = run.places.stack(frame, 5)
    with run.quiet(), torch.no_grad():
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters]
        have = [g for g in gradients if g is not None]
        entry = run.entry(optimizer)
        if entry is None:
            made(run, optimizer, frame)
            entry = run.entry(optimizer)
            assert entry is not None
            entry["at"] = None
        if parameters and not any(p.requires_grad for p in parameters):
            entry["frozen_at_step"] = True
        stale = [run.stale[id(p)] for p in parameters if id(p) in run.stale]
        if stale and not any(a["kind"] == "gradients accumulate" for a in run.anomalies):
            run.anomalies.append(
                {
                    "kind": "gradients accumulate",
                    "count": len(stale),
                    "backward": stale[0]["at"],
                    "at": show(stack),
                    "cleared_another": _cleared_another(run, optimizer),
                    "type": entry["type"],
                }
            )
        zero = bool(have) and all(not bool(local(g).any()) for g in have if not g.is_sparse)
        if run.backward_calls and not closure and (not have or zero) and run.grads and run.since_step:
            run.anomalies.append(
                {
                    "kind": "step without gradients",
                    "detail": f"every gradient is {'zero' if have else 'None'} at optimizer.step()",
                    "at": show(stack),
                    "cleared": run.cleared,
                    "made": entry["at"],
                }
            )
        elif not run.backward_calls and not closure and not have:
            run.anomalies.append({"kind": "step before any backward", "at": show(stack)})
        versions = [(id(g), g._version) for g in have]
        if (
            not closure
            and have
            and not zero
            and entry["steps"]
            and entry.get("last_backward") == run.backward_calls
            and entry.get("versions") == versions
        ):
            run.anomalies.append(
                {"kind": "stepped twice", "at": show(stack), "first": entry.get("last_at"), "type": entry["type"]}
            )
        entry["versions"] = versions
        small = run.steps < 2 * max(1, run.options["steps"])
        run.snapshot = [(p, _sample(p).clone()) for p in parameters] if small else []


def _look_after(run: Run, optimizer: Any, seconds: float, frame: Any) -> None:
    torch = run.torch
    stack = run.places.stack(frame, 5)
    entry = run.entry(optimizer)
    assert entry is not None
    entry["steps"] += 1
    entry.setdefault("step_at", show(stack))
    entry["last_at"], entry["last_backward"] = show(stack), run.backward_calls
    run.steps += 1
    run.since_step, run.cleared, run.scaled = 0, None, None
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            key = id(parameter)
            run.stepped[key] = 1
            run.used.update(run.fresh.pop(key, ()))
            run.in_place.append((tuple(parameter.shape), "optimizer.step", stack[0] if stack else None))
    del run.in_place[:-2000]
    with run.quiet(), torch.no_grad():
        rows = [(id(parameter), _sample(parameter), before) for parameter, before in run.snapshot]
        equal = _equal(run, [now for _, now, _ in rows], [before for _, _, before in rows])
        moved = [row for row, same in zip(rows, equal) if not same and row[1].is_floating_point()]
        weight = _norms(run, [before for _, _, before in moved])
        change = _norms(run, _differences(run, [now for _, now, _ in moved], [before for _, _, before in moved]))
        for (key, _, _), w, c in zip(moved, weight, change):
            run.updates[key] = {"changed": True, "ratio": c / w if w else None, "weight": w}
        still = [row for row, same in zip(rows, equal) if same and row[0] not in run.updates]
        for (key, _, _), w in zip(still, _norms(run, [before for _, _, before in still])):
            run.updates[key] = {"changed": False, "ratio": 0.0, "weight": w}
        if rows:
            entry["unchanged_first" if entry["steps"] == 1 else "unchanged_last"] = [sum(equal), len(rows)]
        bad = [key for (key, _, _), c in zip(moved, change) if c != c or c == float("inf")]
        if bad:
            run.anomalies.append({"kind": "weights not finite after step", "count": len(bad), "at": show(stack)})
    run.snapshot = []
    run.phases.add("step", seconds)
    run.phases.ends("step")
    run.iterations.append({"optimizer": entry["type"], **run.phases.taken()})


def _differences(run: Run, now: list, before: list) -> list:
    try:
        return list(run.torch._foreach_sub(now, before))
    except (AttributeError, RuntimeError, TypeError):  # of several shapes, dtypes or devices
        return [one - other for one, other in zip(now, before)]


def _equal(run: Run, now: list, before: list) -> list[bool]:
    equal = run.torch.equal
    return [one.shape == other.shape and bool(equal(one, other)) for one, other in zip(now, before)]


def _norms(run: Run, tensors: list) -> list[float]:
    from .backward import norms

    return norms(run, [t if t.is_floating_point() or t.is_complex() else t.float() for t in tensors])
