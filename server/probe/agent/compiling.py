"""`torch.compile`: what is to be compiled, and with `--keep-compile` its graph breaks and recompilations."""

from __future__ import annotations

import functools
import logging
import re
import sys
import warnings
from typing import Any

from .run import Run

MAX_EVENTS = 200
MAX_REASON = 500
BREAK_AT = re.compile(r"in user code at (.+):(\d+)\s*$", re.M)
FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
REASON = re.compile(r"Reason: (?:Encountered graph break when attempting to trace[^\n]*\n\n)?([^\n]+)")
RECOMPILED = re.compile(r"Recompiling function (\S+) in (.+):(\d+)")
GUARD = re.compile(r"^\s*- (?:\d+/\d+: )?(.+)$", re.M)


def install(run: Run) -> None:
    """What is handed to `torch.compile` is remembered, whether compiling is on or off in this run."""
    original = getattr(run.torch, "compile", None)
    if original is None:
        return
    if run.options.get("keep_compile"):  # torch warns of global hooks, which are ours
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")

    @functools.wraps(original)
    def compiled(model: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = original(model, *args, **kwargs)
        if model is not None and not run.done:
            run.safely(_compiled, run, model)
        return result

    run.torch.compile = compiled
    run.undo.append(lambda: setattr(run.torch, "compile", original))
    method = run.torch.nn.Module.__dict__.get("compile")
    if method is not None:

        @functools.wraps(method)
        def module_compiled(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(self, *args, **kwargs)
            if not run.done:
                run.safely(_compiled, run, self)
            return result

        run.torch.nn.Module.compile = module_compiled
        run.undo.append(lambda: setattr(run.torch.nn.Module, "compile", method))


def _compiled(run: Run, model: Any) -> None:
    function: Any | None = model
    if isinstance(model, run.torch.nn.Module):
        function = type(model).forward
    code = getattr(functools.partial(function).func if callable(function) else None, "__code__", None)
    if code is not None:
        run.compiled[code] = getattr(model, "__qualname__", type(model).__name__)
    if run.options.get("keep_compile"):
        _listen(run)


def _listen(run: Run) -> None:
    """Hear what dynamo logs of graph breaks and recompilations, without having it printed."""
    if run.hears_dynamo or "torch._dynamo" not in sys.modules:
        return
    run.hears_dynamo = True

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not run.done:
                run.safely(heard, run, record.getMessage())

    ear = Ear(logging.DEBUG)
    names = [name for name in list(logging.root.manager.loggerDict) if name.startswith("torch._dynamo")]
    for name in names:
        if not name.endswith(("__graph_breaks", "__recompiles")):
            continue
        logger = logging.getLogger(name)
        before = logger.level, logger.propagate
        logger.addHandler(ear)
        if not logger.isEnabledFor(logging.DEBUG):  # else the user asked for it, and sees it too
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        run.undo.append(functools.partial(_deaf, logger, ear, before))
    # recompilations are put into words only where this artifact is on; that alone prints nothing
    enabled = sys.modules["torch._logging._internal"].log_state.artifact_names
    if "recompiles" not in enabled:
        enabled.add("recompiles")
        run.undo.append(lambda: enabled.discard("recompiles"))


def _deaf(logger: logging.Logger, ear: logging.Handler, before: tuple[int, bool]) -> None:
    logger.removeHandler(ear)
    logger.setLevel(before[0])
    logger.propagate = before[1]


def heard(run: Run, text: str) -> None:
    """One message of dynamo's: a graph break or a recompilation, with its place and the reason that it gives."""
    again = RECOMPILED.search(text)
    if again:
        function, file, line = again.groups()
        _event(run, "recompile", file, int(line), function, "; ".join(GUARD.findall(text)) or text)
        return
    place = BREAK_AT.search(text)
    frames = FRAME.findall(text)
    reason = REASON.search(text)
    if place is None and not frames:
        return
    file, line = place.groups() if place else frames[-1][:2]
    function = next((name for f, n, name in reversed(frames) if (f, n) == (file, line)), "")
    _event(run, "graph break", file, int(line), function, reason.group(1) if reason else text.splitlines()[0])


def _event(run: Run, kind: str, file: str, line: int, function: str, reason: str) -> None:
    for event in run.compile_events:
        if event["kind"] == kind and (event["at"]["file"], event["at"]["line"]) == (file, line):
            event["count"] += 1
            return
    if len(run.compile_events) < MAX_EVENTS:
        at = {"file": file, "line": line, "function": function}
        run.compile_events.append({"kind": kind, "at": at, "reason": reason[:MAX_REASON], "count": 1})
