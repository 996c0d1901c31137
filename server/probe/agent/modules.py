"""Module calls: which ones ran, with which mode and in which order, and which belong to nobody."""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any

from . import grad_mode
from .places import Place, one
from .run import Run


def install(run: Run) -> None:
    module_file = run.torch.nn.modules.module
    Module = run.torch.nn.Module

    # dynamo traces hooks too: this is a constant to it, so that nothing of ours gets into the user's graphs
    compiling = getattr(getattr(run.torch, "compiler", None), "is_compiling", None)
    if compiling is None:
        if run.options.get("keep_compile"):
            run.note("modules are not watched: this torch would compile the probe's hooks into the program's graphs")
            return
        compiling = bool

    def before(module: Any, args: Any) -> None:
        if compiling():
            return
        if run.ours():
            run.safely(_enter, run, module, args, sys._getframe(1))

    def after(module: Any, args: Any, output: Any) -> None:
        if compiling():
            return
        if run.ours():
            run.safely(_leave, run, module, output, sys._getframe(1))

    handles = [module_file.register_module_forward_pre_hook(before)]
    register = module_file.register_module_forward_hook
    always = "always_call" in register.__code__.co_varnames  # since torch 2.0: also when forward raises
    handles.append(register(after, always_call=True) if always else register(after))

    def registered(module: Any, name: str, value: Any) -> None:
        if not (run.done or run.busy) and value is not None:
            run.safely(_registered, run, module, name, value, sys._getframe(1))

    for hook in ("register_module_parameter_registration_hook", "register_module_module_registration_hook"):
        if hasattr(module_file, hook):  # since torch 2.0
            handles.append(getattr(module_file, hook)(registered))
    run.undo.extend(handle.remove for handle in handles)

    train = Module.train

    def traced(self: Any, mode: bool = True) -> Any:
        if not (run.done or run.busy):
            place = run.places.near(sys._getframe(1))
            if place is not None:
                run.train_at[id(self)] = place
        return train(self, mode)

    traced.__doc__, traced.__wrapped__ = train.__doc__, train  # type: ignore[attr-defined]
    Module.train = traced
    run.undo.append(lambda: setattr(Module, "train", train))


def _registered(run: Run, module: Any, name: str, value: Any, frame: Any) -> None:
    place = run.places.near(frame)
    if place is None:
        return
    run.registered_at.setdefault((id(module), name), place)
    if run.stack and any(outer is module for outer in run.stack) and isinstance(value, run.torch.nn.Parameter):
        run.born_in_forward.setdefault(id(module), (weakref.ref(module), name, place, run.backward_calls))


def _is_loss(run: Run, module: Any) -> bool:
    return isinstance(module, run.torch.nn.modules.loss._Loss)


def _flat(values: Any, out: list, depth: int = 0) -> list:
    for value in values:
        if isinstance(value, (list, tuple)) and depth < 3:
            _flat(value, out, depth + 1)
        elif isinstance(value, dict) and depth < 3:
            _flat(value.values(), out, depth + 1)
        else:
            out.append(value)
    return out


def _enter(run: Run, module: Any, args: Any, frame: Any) -> None:
    run.idle = False
    key = id(module)
    stack = run.stack
    place: Place | None = None
    if stack:
        root = stack[0]
        members = run.root_members.get(id(root))
        if members is not None and key not in members:
            members = run.root_members[id(root)] = {id(inner) for inner in root.modules()}
            known = any(key in ids for owner, ids in run.root_members.items() if owner != id(root))
            if key not in members and key not in run.unregistered and not known:
                place = run.places.near(frame)
                run.unregistered[key] = (weakref.ref(module), weakref.ref(stack[-1]), place, len(stack))
                run.root_members[key] = {id(inner) for inner in module.modules()}
                run.roots[key] = (weakref.ref(module), f"<unregistered {type(module).__name__}>")
                if place is not None and (len(list(module.parameters())) or "Dropout" in type(module).__name__):
                    weakref.finalize(module, _gone, run, key, type(module).__name__, place).atexit = False
    else:
        if key not in run.roots and not _is_loss(run, module):
            new_root(run, module)
        if run.old and run.grad_on():
            for value in _flat(args, []):
                old = run.old.get(id(value))
                if old is not None and old[0]() is value and value.requires_grad:
                    place = place or run.places.near(frame)
                    carry(run, value, old, place, whole=True)
        run.entered = time.perf_counter()
    stack.append(module)
    call = run.calls.get(key)
    if call is None:
        call = run.calls[key] = {
            "n": 0,
            "on": 0,
            "off": 0,
            "order": len(run.calls),
            "ref": weakref.ref(module),
            "at": place or run.places.near(frame),
            "root": len(stack) == 1,
        }
    call["n"] += 1
    call["training"] = module.training
    if run.grad_on():
        call["on"] += 1
    else:
        call["off"] += 1
        setter = grad_mode.blamed(run)
        if setter:
            call["setter"] = setter


def _gone(run: Run, key: int, label: str, place: Place) -> None:
    """A module that was called and belonged to nobody is gone: made in forward, and thrown away."""
    if not run.done and len(run.gone_modules) < 64:
        run.gone_modules[key] = (label, place)


def carry(run: Run, tensor: Any, old: tuple, place: Place | None, whole: bool) -> None:
    """A tensor whose graph an earlier backward went through takes part again."""
    if len(run.carried) < 200:
        run.carried.append(
            {
                "born": old[1],
                "used": place,
                "backward": old[2],
                "now": run.backward_calls,
                "whole": whole,
                "id": id(tensor),
            }
        )


def new_root(run: Run, module: Any) -> None:
    name = type(module).__name__
    taken = {label for _, label in run.roots.values()}
    label, n = name, 2
    while label in taken:
        label, n = f"{name}#{n}", n + 1
    # a part that ran by itself before the whole is the whole's part from now on
    members = {id(inner) for inner in module.modules()}
    for key in [k for k in run.roots if k in members and k != id(module)]:
        del run.roots[key]
    if not any(id(module) in ids for ids in run.root_members.values()):
        run.roots[id(module)] = (weakref.ref(module), label)
    run.root_members[id(module)] = members


def _leave(run: Run, module: Any, output: Any, frame: Any) -> None:
    stack = run.stack
    while stack and stack[-1] is not module:
        stack.pop()
    if stack:
        stack.pop()
    if not stack:
        run.forward_seconds += time.perf_counter() - run.entered
    call = run.calls.get(id(module))
    tensor: Any = output
    if isinstance(output, (list, tuple)) and output:
        tensor = output[0]
    if not isinstance(tensor, run.torch.Tensor):
        return
    if call is not None:
        call["output"] = [list(tensor.shape), str(tensor.dtype).replace("torch.", ""), str(tensor.device)]
    if (
        run.steps == 0
        and run.since_step <= 1
        and not module._modules
        and module.training
        and tensor.is_floating_point()
        and run.grad_on()
        and run.values_visible()
    ):
        _look(run, module, tensor, frame)


def _look(run: Run, module: Any, output: Any, frame: Any) -> None:
    with run.quiet(), run.torch.no_grad():
        values = output.detach()
        if run.first_bad is None and not bool(run.torch.isfinite(values).all()):
            run.first_bad = {"module": name_of(run, module), "at": one(run.places.near(frame))}
        if type(module).__name__ in ("ReLU", "ReLU6") and values.numel() and not bool(values.any()):
            run.dead_relus[id(module)] = {"module": name_of(run, module), "at": one(run.places.near(frame))}


def name_of(run: Run, module: Any) -> str:
    for ref, name in list(run.roots.values()):
        root = ref()
        for inner, candidate in root.named_modules() if root is not None else ():
            if candidate is module:
                return f"{name}.{inner}" if inner else name
    return type(module).__name__
