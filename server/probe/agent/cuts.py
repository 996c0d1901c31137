"""Where the graph is cut: one `TorchFunctionMode` that marks what came out of a cut and follows it to the loss."""

from __future__ import annotations

import os
import sys
import weakref
from typing import Any

from . import finite, grad_mode, ops, sources
from .modules import carry
from .places import Place, one
from .run import Run

IDLE_AFTER = 200_000  # calls without a module call or a backward: data is being prepared, stop looking until one comes
CUT_WALK = 20_000
MAX_BROADCASTS = 64


def install(run: Run) -> None:
    """Enter the mode in this thread, for good; `run.undo` leaves it again."""
    mode = make(run)
    mode.__enter__()
    run.undo.append(lambda: mode.__exit__(None, None, None))
    _watch_variable(run)


def _watch_variable(run: Run) -> None:
    """`Variable(loss, requires_grad=True)` gives a new leaf, and is no torch function."""
    meta = type(run.torch.autograd.Variable)
    if "__call__" in vars(meta):
        return

    def __call__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = type.__call__(cls, *args, **kwargs)
        if run.ours():
            run.safely(_variable, run, args, kwargs, made, sys._getframe(1))
        return made

    try:
        meta.__call__ = __call__
    except TypeError:
        return
    run.undo.append(lambda: delattr(meta, "__call__"))


def _variable(run: Run, args: tuple, kwargs: dict, made: Any, frame: Any) -> None:
    source = args[0] if args else kwargs.get("data")
    if source is None or not (isinstance(source, run.torch.Tensor) and isinstance(made, run.torch.Tensor)):
        return
    with run.quiet():
        keys = marks_of(run, source)
        if source.requires_grad:
            keys |= {cut(run, "Variable", "detach", [source], frame)}
        if keys:
            mark(run, made, keys)
        if made.requires_grad:
            run.made_leaf[id(made)] = (
                weakref.ref(made),
                run.places.stack(frame, 5),
                "Variable(..., requires_grad=True)",
            )


def marks_of(run: Run, tensor: Any) -> frozenset:
    entry = run.marks.get(id(tensor))
    return entry[1] if entry is not None and entry[0]() is tensor else frozenset()


def mark(run: Run, tensor: Any, keys: frozenset) -> None:
    key, marks = id(tensor), run.marks

    def gone(ref: Any) -> None:
        if marks.get(key, (None,))[0] is ref:
            marks.pop(key, None)

    try:
        marks[key] = (weakref.ref(tensor, gone), keys)
    except TypeError:
        pass


def cut(run: Run, name: str, kind: str, inputs: list, frame: Any) -> tuple:
    """Remember a cut, with the parameters that lie upstream of it; gives its key."""
    stack = run.places.stack(frame, 4)
    place = stack[0] if stack else None
    key = (place[:2] if place else None, name, kind)
    entry = run.cuts.get(key)
    if entry is None:
        up: set[int] = set()
        for tensor in inputs:
            if tensor.requires_grad:
                if tensor.is_leaf and tensor.grad_fn is None:
                    up.add(id(tensor))
                else:
                    up.update(run.walk(tensor, CUT_WALK)[0])
            for other in marks_of(run, tensor):
                up |= run.cuts[other]["up"]
        from .places import show

        entry = run.cuts[key] = {
            "op": name,
            "kind": kind,
            "at": show(stack),
            "count": 0,
            "up": up,
            "shapes": [list(t.shape) for t in inputs[:2]],
        }
        if all(t.is_leaf and t.grad_fn is None for t in inputs if t.requires_grad):
            entry["leaves_only"] = True
        blame = grad_mode.blamed(run) if kind == "grad mode off" else None
        if blame is not None:
            entry["mode"] = run.strip(blame)
        if name == "detach" and place is not None and sources.discards(place, "detach"):
            entry["discarded"] = True
        if kind == "value" and run.compiled:
            inner = frame
            while inner is not None:
                if inner.f_code in run.compiled:
                    entry["compiled"] = run.compiled[inner.f_code]
                    break
                inner = inner.f_back
    elif entry["count"] < 20:
        for tensor in inputs:
            if tensor.requires_grad and tensor.is_leaf:
                entry["up"].add(id(tensor))
            for other in marks_of(run, tensor):
                entry["up"] |= run.cuts[other]["up"]
    entry["count"] += 1
    return key


def _tensors(values: Any, tensor_type: type, size: type, out: list, floats: list, depth: int = 0) -> None:
    for value in values:
        if isinstance(value, tensor_type):
            out.append(value)
        elif isinstance(value, float):
            floats.append(value)
        elif depth < 2 and isinstance(value, (list, tuple)) and type(value) is not size:
            _tensors(value, tensor_type, size, out, floats, depth + 1)


def _no_log_probabilities(run: Run, name: str, source: Any, place: Place | None) -> None:
    with run.quiet(), run.torch.no_grad():
        largest = float(source.detach().max()) if source.numel() else 0.0
    if largest <= 1e-3 or any(entry["rule"] == "no-log-probabilities" for entry in run.extra):
        return
    run.extra.append(
        {
            "rule": "no-log-probabilities",
            "message": f"{name} expects log-probabilities, which are never above 0: its input reaches {largest:.3g}",
            "at": one(place),
            "confidence": "likely",
            "evidence": [],
        }
    )


def _remember_floats(run: Run, value: Any, key: tuple) -> None:
    """An equal float among later arguments carries the mark on: `.item()` and back."""
    if isinstance(value, float):
        run.values[value] = key
        return
    todo = list(value)[:256] if isinstance(value, list) else []
    while todo:
        item = todo.pop()
        if isinstance(item, float):
            run.values[item] = key
        elif isinstance(item, list):
            todo.extend(item[:256])


def make(run: Run) -> Any:
    from torch.overrides import TorchFunctionMode

    torch = run.torch
    Tensor = torch.Tensor
    size = torch.Size
    grad_on = torch.is_grad_enabled
    near = run.places.near
    ref = weakref.ref
    plain, in_place, reshape = ops.PLAIN, ops.IN_PLACE, ops.RESHAPE

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            result = func(*args, **kwargs) if kwargs else func(*args)
            if run.busy or run.done or run.idle or run.stepping:
                return result
            name = getattr(func, "__name__", "?")
            if name in ("__get__", "__set__"):
                name = f"{getattr(getattr(func, '__self__', None), '__name__', '?')}.{name}"
            if name in plain:
                return result
            try:
                look(name, args, kwargs, result, sys._getframe(1))
            except Exception as error:  # .is_leaf and .grad_fn raise for some views made under no_grad
                at = near(sys._getframe(1))
                where = f"{os.path.basename(at.file)}:{at.line}" if at else "?"
                run.note(f"probe: {name} at {where} could not be examined: {type(error).__name__}: {str(error)[:100]}")
            return result

    def look(name: str, args: tuple, kwargs: Any, result: Any, frame: Any) -> None:
        if name == "grad.__get__":
            code = frame.f_code
            if run.since_step and run.places.is_user(code.co_filename):
                run.grad_read = True
            return
        run.calls_seen += 1
        if run.calls_seen > IDLE_AFTER and not run.backward_calls and not run.stack:
            run.idle, run.calls_seen = True, 0
            run.note("many tensor operations ran before any module was called: they were not followed to their end")
            return
        place: Place | None = None
        changes = (name[-1] == "_" and name[-2:] != "__") or name in in_place
        if changes and args and isinstance(args[0], Tensor):
            place = near(frame)
            base = args[0]._base
            run.in_place.append((tuple(args[0].shape), name, place))
            if base is not None:
                run.in_place.append((tuple(base.shape), name, place))
        inputs: list = []
        floats: list = []
        _tensors(args, Tensor, size, inputs, floats)
        if kwargs:
            _tensors(kwargs.values(), Tensor, size, inputs, floats)
        if name in ("requires_grad.__set__", "requires_grad_"):
            target = inputs[0] if inputs else None
            if target is not None and not target.requires_grad and target.is_leaf:
                run.frozen_at[id(target)] = (ref(target), near(frame))
            if target is not None and target.requires_grad and target.is_leaf:
                how = "requires_grad = True" if name[-2:] == "__" else "requires_grad_()"
                run.made_leaf[id(target)] = (ref(target), run.places.stack(frame, 5), how)
            return
        if name in ("to", "type_as", "expand_as", "view_as", "reshape_as"):
            del inputs[1:]  # the others only lend their shape, type or device
        if name == "tensor" and isinstance(result, Tensor) and result.requires_grad and result.numel() == 1:
            run.made_leaf[id(result)] = (
                ref(result),
                run.places.stack(frame, 5),
                "torch.tensor(..., requires_grad=True)",
            )
        keys: frozenset | None = None
        live = False
        new_leaves: list | None = None
        marks, old, leaves = run.marks, run.old, run.leaves
        for tensor in inputs:
            entry = marks.get(id(tensor))
            if entry is not None and entry[0]() is tensor:
                keys = entry[1] if keys is None else keys | entry[1]
            if tensor.requires_grad:
                live = True
                if tensor.is_leaf:
                    known = leaves.get(id(tensor))
                    if known is None or known[0]() is not tensor:
                        new_leaves = [*(new_leaves or ()), tensor]
        if floats and run.values:
            for value in floats:
                key = run.values.get(value)
                if key is not None:
                    keys = frozenset((key,)) if keys is None else keys | {key}
        if not live and keys is None:
            return
        if isinstance(result, Tensor):
            outputs: Any = (result,)
        elif isinstance(result, (tuple, list)):
            outputs = [value for value in result if isinstance(value, Tensor)]
        else:
            outputs = ()
        on = grad_on()
        if not on and not run.off:  # nobody switched it: inside the forward of an autograd function
            return
        if live and outputs:
            place = place or near(frame)
            through = on and any(o.requires_grad and not o.is_leaf for o in outputs)
            if through:
                for tensor in new_leaves or ():
                    run.leaves[id(tensor)] = (ref(tensor), place, keys is not None)
                for output in outputs:
                    if output.requires_grad:
                        run.born[id(output)] = (ref(output), place)
                if old:
                    for tensor in inputs:
                        aged = old.get(id(tensor))
                        if aged is not None and aged[0]() is tensor:
                            carry(run, tensor, aged, place, whole=False)
                if name in ops.LOG_PROBABILITIES and not run.steps and run.values_visible():
                    run.safely(_no_log_probabilities, run, name, inputs[0], place)
                if name in ops.SQUASHED_AGAIN:
                    _squashed_again(name, inputs[0], place)
                elif name in ("softmax", "sigmoid") or (name in reshape and run.squashed):
                    _squash(name, inputs[0], outputs[0], place)
                if keys is not None and name in ops.ADD:
                    _dead_term(inputs, outputs[0], place)
                if name in ops.SUBTRACT and len(inputs) == 2:
                    _broadcast(inputs, outputs[0], place)
            early = run.steps < run.options["steps"]
            if (early and name in ops.RISKY) or run.look_everywhere:
                if run.first_bad is None and run.values_visible():
                    run.safely(finite.look, run, name, inputs, outputs, place)
                if early and through and name in ops.RISKY and run.guarded < finite.MAX_GUARDED:
                    run.safely(finite.guard, run, name, inputs, outputs[0], place)
        if live:
            keys = _cuts(name, inputs, outputs, result, keys, on, frame, place)
        elif name in ops.VALUE and keys and isinstance(result, float):
            run.values.setdefault(result, next(iter(keys)))
        if keys is not None:
            for output in outputs:
                mark(run, output, keys)
            if name in ("__setitem__", "data.__set__") and inputs:
                mark(run, inputs[0], keys)

    def _cuts(
        name: str, inputs: list, outputs: Any, result: Any, keys: Any, on: bool, frame: Any, place: Any
    ) -> frozenset | None:
        found: tuple | None = None
        for output in outputs:
            if not on:
                if any(output is tensor for tensor in inputs) and name != "detach_":
                    continue
                if output.is_floating_point() or output.is_complex():
                    kind = "detach" if name in ("detach", "data.__get__") else "grad mode off"
                    upstream = [t for t in inputs if t.requires_grad or id(t) in run.marks]
                    found = cut(run, name, kind, upstream, frame)
            elif not output.requires_grad:
                if output.is_floating_point() or output.is_complex():
                    kind = "detach" if name in ("detach", "detach_", "data.__get__") else "no gradient"
                    found = cut(run, name, kind, inputs, frame)
                elif any(t.requires_grad and t.is_floating_point() for t in inputs):
                    found = cut(run, name, "dtype", inputs, frame)
            elif name in ops.ZERO:
                key = (place[:2] if place else None, name)
                entry = run.zero_ops.get(key)
                if entry is None:
                    entry = run.zero_ops[key] = {"op": name, "at": one(place), "up": set()}
                    for tensor in inputs:
                        if tensor.requires_grad:
                            entry["up"] |= set(run.walk(tensor, CUT_WALK)[0])
            if found is not None:
                keys = frozenset((found,)) if keys is None else keys | {found}
                found = None
        if not outputs and name in ops.VALUE:
            found = cut(run, name, "value", [t for t in inputs if t.requires_grad], frame)
            _remember_floats(run, result, found)
        elif not outputs and name == "__bool__":
            cut(run, name, "branch", [t for t in inputs if t.requires_grad], frame)
        return keys

    def _squash(name: str, source: Any, output: Any, place: Place | None) -> None:
        if name in ("softmax", "sigmoid"):
            run.squashed[id(output)] = (ref(output), name, place)
            return
        entry = run.squashed.get(id(source))
        if entry is not None and entry[0]() is source:
            run.squashed[id(output)] = (ref(output), *entry[1:])

    def _squashed_again(name: str, source: Any, place: Place | None) -> None:
        entry = run.squashed.get(id(source))
        kind, why = ops.SQUASHED_AGAIN[name]
        if entry is None or entry[0]() is not source or entry[1] != kind:
            return
        if any(e["rule"] == "squashed-twice" and e["at"] == one(entry[2]) for e in run.extra):
            return
        run.extra.append(
            {
                "rule": "squashed-twice",
                "message": f"{name} {why}, but its input went through {kind} here already",
                "at": one(entry[2]),
                "confidence": "likely",
                "evidence": [{"at": one(place), "note": f"{name} is called here"}],
            }
        )

    def _broadcast(inputs: list, output: Any, place: Place | None) -> None:
        """(N, 1) - (N,) is (N, N): every prediction against every target."""
        one_, other = inputs
        shapes = {tuple(one_.shape), tuple(other.shape)}
        n = output.shape[0] if output.dim() == 2 else 0
        if n < 2 or shapes != {(n, 1), (n,)} or one_.requires_grad == other.requires_grad:
            return
        live = one_ if one_.requires_grad else other
        if live.is_leaf or len(run.broadcasts) >= MAX_BROADCASTS:
            return  # a coordinate, a centre: no prediction
        run.broadcasts.append((output.grad_fn, [list(one_.shape), list(other.shape)], place))

    def _dead_term(inputs: list, output: Any, place: Place | None) -> None:
        if output.numel() != 1 and not all(t.numel() == 1 for t in inputs):
            return
        for tensor in inputs:
            if not tensor.requires_grad and tensor.is_floating_point() and tensor.numel() == 1:
                keys = marks_of(run, tensor)
                if keys and len(run.dead_terms) < 256:
                    entry = {"keys": keys, "at": one(place)}
                    run.dead_terms.append((ref(output), output.grad_fn, None, entry))

    return Watch()
