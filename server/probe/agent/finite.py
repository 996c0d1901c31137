"""The operation that makes values or gradients infinite or NaN: the first one to make them of finite ones."""

from __future__ import annotations

from typing import Any

from . import ops
from .places import Place, one
from .run import Run

MAX_GUARDED = 2_000  # operations whose backward is watched
GUARD_DEPTH = 3


def look(run: Run, name: str, inputs: list, outputs: Any, place: Place | None) -> None:
    """Note the first operation that made infinite or NaN of finite numbers."""
    with run.quiet(), run.torch.no_grad():
        isfinite = run.torch.isfinite
        if all(bool(isfinite(o).all()) for o in outputs if o.is_floating_point()):
            return
        if all(bool(isfinite(t).all()) for t in inputs if t.is_floating_point()):
            run.first_bad = {"module": f"{name}()", "op": name, "at": one(place)}


def guard(run: Run, name: str, inputs: list, output: Any, place: Place | None) -> None:
    """Watch the backward of an operation whose derivative may be infinite: it sees its own gradients come and go.

    The hook lives and dies with the node of the graph, and gives nothing back, so that gradients stay what they are.
    """
    before = {t.grad_fn for t in inputs if t.grad_fn is not None}
    level = [output.grad_fn]
    for _ in range(GUARD_DEPTH):  # what Python functions are made of: `normalize` divides by a norm
        for node in level:
            if type(node).__name__.removesuffix("0").removesuffix("1").removesuffix("Backward") in ops.RISKY_NODES:
                run.guarded += 1
                node.register_hook(_watcher(run, name, type(node).__name__, place))
        level = [n for one in level for n, _ in one.next_functions if n is not None and n not in before][:8]


def _watcher(run: Run, name: str, node: str, place: Place | None) -> Any:
    def watch(gradients: Any, arriving: Any) -> None:
        if run.done or run.bad_backward is not None or not run.values_visible():
            return
        run.safely(examine, gradients, arriving)

    def examine(gradients: Any, arriving: Any) -> None:
        isfinite = run.torch.isfinite
        with run.quiet(), run.torch.no_grad():
            bad = any(g is not None and not bool(isfinite(g).all()) for g in gradients)
            if bad and all(g is None or bool(isfinite(g).all()) for g in arriving):
                run.bad_backward = {"op": name, "node": node, "module": f"the backward of {name}()", "at": one(place)}

    return watch
