"""The hooks go in when the program itself imports torch: the probe never imports it for the program."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import backward, compiling, cuts, extras, grad_mode, modules, optimizers, phases, writes
from .run import Run

OLDEST = (1, 13)


def when_imported(name: str, call: Callable[[], object]) -> None:
    """Run `call` at the end of the program's own import of a top-level module, before any name is bound from it."""
    if name in sys.modules:
        call()
        return

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, wanted: str, path: Any = None, target: Any = None) -> Any:
            if wanted != name:
                return None
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec is None or spec.loader is None:
                return spec
            loader = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                del loader.exec_module
                execute(module)
                call()

            loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())


def install(run: Run) -> None:
    """Put every hook in; one that does not fit this torch is a note."""
    torch = sys.modules["torch"]
    run.torch = torch
    run.phases = phases.Phases(torch)
    run.undo.append(run.phases.close)
    version = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2] if part.isdigit())
    if version < OLDEST:
        run.note(f"torch {torch.__version__} is older than 1.13: the probe may see less than it should")
    options = run.options
    if not options.get("keep_compile"):
        run.safely(_no_compile, run)
    fraction = options.get("gpu_fraction")
    if fraction:
        torch.cuda._lazy_call(lambda: torch.cuda.set_per_process_memory_fraction(fraction))
    hooks = [grad_mode, backward, modules, optimizers, extras, compiling]
    if options["level"] == "full":
        hooks.append(cuts)
    for hook in hooks:
        try:
            hook.install(run)
        except Exception as error:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-600:]
            run.note(
                f"probe: the hooks of {hook.__name__.rpartition('.')[2]} do not fit torch {torch.__version__}: {text}"
            )
    run.safely(writes.torch_saves, run)


def _no_compile(run: Run) -> None:
    before = os.environ.get("TORCHDYNAMO_DISABLE")
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # read when torch._dynamo is imported
    dynamo = sys.modules.get("torch._dynamo")
    was = dynamo.config.disable if dynamo is not None else None
    if dynamo is not None:
        dynamo.config.disable = True

    def undo() -> None:
        if before is None:
            os.environ.pop("TORCHDYNAMO_DISABLE", None)
        else:
            os.environ["TORCHDYNAMO_DISABLE"] = before
        if dynamo is not None:
            dynamo.config.disable = was
        elif "torch._dynamo" in sys.modules:
            sys.modules["torch._dynamo"].config.disable = False

    run.undo.append(undo)


def remove(run: Run) -> None:
    """Take every hook out again."""
    run.done = True
    while run.undo:
        try:
            run.undo.pop()()
        except Exception as error:
            run.note(f"probe: a hook could not be taken out: {error}")
