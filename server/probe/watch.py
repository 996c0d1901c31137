"""The probe inside a running program: in a notebook, or around a user's own loop."""

from __future__ import annotations

import os
import sys
from typing import Any

from .agent import arrive, modules, optimizers, report
from .agent.places import Places
from .agent.run import Run


class Watch:
    """`with gradline.watch(model, optimizer) as seen:` observes what runs inside, and prints the report at its end.

    `things` are the models and optimizers to follow; what runs is followed in any case. Nothing is stopped, and every
    hook is taken out again. `seen.report` is the report as plain data, `None` before the end. Raises RuntimeError when
    entered twice, or inside another watch.
    """

    _active = False

    def __init__(self, *things: Any, level: str = "full", show: bool = True, root: str | None = None) -> None:
        self.report: dict[str, Any] | None = None
        self._things = things
        self._show = show
        self._root = os.path.abspath(root or os.getcwd())
        self._level = level
        self._run: Run | None = None

    def __enter__(self) -> Watch:
        if Watch._active or self._run is not None:
            raise RuntimeError("a watch is already active")
        import torch

        never = 1 << 60
        run = Run({"steps": never, "max_backward": never, "level": self._level, "stop": False}, Places([self._root]))
        arrive.install(run)
        for thing in self._things:
            if isinstance(thing, torch.nn.Module):
                run.safely(modules.new_root, run, thing)
            elif isinstance(thing, torch.optim.Optimizer):
                run.safely(optimizers.made, run, thing, sys._getframe(1))
        self._run = run
        Watch._active = True
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        run = self._run
        assert run is not None
        Watch._active = False
        try:
            if error is not None:
                run.failed(error.with_traceback(trace))
            run.done = True
            self.report = self._finished(report.build(run, "the watch ended"), run)
        finally:
            arrive.remove(run)
        if self._show:
            from . import terminal

            terminal.show(self.report)

    def _finished(self, data: dict[str, Any], run: Run) -> dict[str, Any]:
        return {
            **data,
            "command": "gradline.watch",
            "cwd": self._root,
            "interpreter": {"path": sys.executable, "python": data["python"], "torch": data["torch"]},
            "isolation": {"kind": "none", "folders": [], "kept_out": []},
            "verdicts": [],
        }
