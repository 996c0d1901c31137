"""Who switches grad mode, and where: one hook under every public way to do it."""

from __future__ import annotations

import os
import sys
import time
from types import FrameType
from typing import Any

from .places import OWN, Place, one, show
from .run import MAX_TIMELINE, Run

HOW = {"__init__": "called", "__enter__": "with", "__exit__": "left", "__call__": "decorating"}


def install(run: Run) -> None:
    """Replace `torch._C._set_grad_enabled`, which `no_grad`, `enable_grad` and `set_grad_enabled` look up when called.

    `inference_mode` has a C++ guard of its own: its class is patched. Names imported before (`from torch import
    no_grad`) are the same classes, so they are seen too.
    """
    core = run.torch._C
    original = core._set_grad_enabled
    grad_enabled = run.torch.is_grad_enabled
    mode_file = run.torch.autograd.grad_mode.__file__
    context = sys.modules.get("torch.utils._contextlib")
    files = {mode_file, getattr(context, "__file__", mode_file)}
    torch_folder = os.path.dirname(run.torch.__file__) + os.sep

    def _set_grad_enabled(*args: Any, **kwargs: Any) -> Any:
        if run.done or run.busy:
            return original(*args, **kwargs)
        before = grad_enabled()
        result = original(*args, **kwargs)
        after = grad_enabled()
        if before != after:
            run.safely(changed, run, after, sys._getframe(1), files, torch_folder, None)
        return result

    _set_grad_enabled.__wrapped__ = original  # type: ignore[attr-defined]
    core._set_grad_enabled = _set_grad_enabled
    run.undo.append(lambda: setattr(core, "_set_grad_enabled", original))

    inference = run.torch.autograd.grad_mode.inference_mode
    enter, leave = inference.__enter__, inference.__exit__

    def __enter__(self: Any) -> Any:
        result = enter(self)
        if not run.done and not run.busy and getattr(self, "mode", True):
            run.safely(changed, run, False, sys._getframe(1), files, torch_folder, "inference_mode")
        return result

    def __exit__(self: Any, *exc: Any) -> Any:
        result = leave(self, *exc)
        if not run.done and not run.busy and getattr(self, "mode", True):
            run.safely(changed, run, grad_enabled(), sys._getframe(1), files, torch_folder, "inference_mode")
        return result

    inference.__enter__, inference.__exit__ = __enter__, __exit__

    def undo() -> None:
        inference.__enter__, inference.__exit__ = enter, leave

    run.undo.append(undo)


def changed(run: Run, mode: bool, frame: FrameType | None, files: set[str], torch_folder: str, via: str | None) -> None:
    """Note one change: what made it (class and how), the user's frame, the decorated function."""
    import threading

    if threading.get_ident() != run.thread:
        return
    names: list[tuple[str, str]] = []
    decorated = None
    while frame is not None and (frame.f_code.co_filename in files or frame.f_code.co_filename.startswith(OWN)):
        code = frame.f_code
        if code.co_name in ("decorate_context", "generator_context"):
            function = frame.f_locals.get("func") or frame.f_locals.get("orig_func")
            decorated = getattr(function, "__code__", None) or decorated
        elif code.co_filename in files:
            me = frame.f_locals.get("self")
            names.append((type(me).__name__ if me is not None else "", code.co_name))
        frame = frame.f_back
    mine = frame is not None and run.places.is_user(frame.f_code.co_filename)
    mine = mine or (decorated is not None and run.places.is_user(decorated.co_filename))
    kind = via or (names[-1][0] if names and names[-1][0] else "torch._C._set_grad_enabled")
    how = HOW.get(names[-1][1], names[-1][1]) if names else "called"
    if decorated is not None and how != "left":
        how = "decorator"
    stack = run.places.stack(frame, 3) if frame is not None else []
    event: dict[str, Any] = {"mode": mode, "via": kind, "how": how, "at": show(stack)}
    if decorated is not None:
        event["decorated"] = one(Place(decorated.co_filename, decorated.co_firstlineno, decorated.co_name))
        event["code"] = decorated
    if not mine:
        if frame is None or frame.f_code.co_filename.startswith(torch_folder):
            event["internal"] = True  # torch's own business: an optimizer, checkpointing, initialisers
        else:
            event["library"] = one(Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
    if not mode and how == "called" and kind in ("set_grad_enabled", "torch._C._set_grad_enabled"):
        event["persistent"] = True
    _remember(run, mode, how, event)
    if event.get("internal"):
        return
    at = stack[0][:2] if stack else None
    key = (mode, kind, how, at, decorated.co_firstlineno if decorated else 0, str(event.get("library")))
    seen = run.modes.get(key)
    if seen is None:
        shown = {k: v for k, v in event.items() if k != "code"}
        seen = run.modes[key] = dict(shown, count=0, first_s=round(time.time() - run.started, 4))
    seen["count"] += 1
    if len(run.timeline) < MAX_TIMELINE:
        place = event.get("decorated") or event["at"] or event.get("library")
        run.timeline.append(
            {"s": round(time.time() - run.started, 5), "mode": mode, "via": kind, "how": how, "at": place}
        )


def _remember(run: Run, mode: bool, how: str, event: dict) -> None:
    """Keep who is to blame while the mode is off; leaving an inner `enable_grad` gives it back to the outer one."""
    if not mode:
        if how != "left" or not run.off:
            run.off.append(event)
            del run.off[:-64]
    elif how == "left":
        run.off.pop() if run.off else None
    elif how == "called":
        run.off.clear()


def blamed(run: Run) -> dict | None:
    """The change that keeps grad mode off now, as far as it was seen."""
    return run.off[-1] if run.off and not run.grad_on() else None
