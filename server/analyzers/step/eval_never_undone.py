"""`eval()` is not undone: the training that follows runs without dropout and with frozen batch statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import External, Object, Switched, Tensor
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

LAYERS = ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "BatchNorm", "SyncBatchNorm", "RReLU", "Transformer")


def check(flow: Flow) -> Iterable[Finding]:
    trained: dict[int, events.Backward] = {}
    for backward in flow.of(events.Backward):
        trained.update((id(node), backward) for node in backward.nodes)
    evaluated: set[Switched] = set()  # calls of `eval` under which something was only evaluated
    clean: dict[Place, set[Switched]] = {}  # where a layer was trained in training mode, and what had put it there
    for event in flow.of(events.Forward):
        if not _cares(event.module):
            continue
        modes = {mode for mode in event.modes if isinstance(mode, Switched)}
        evals = {mode for mode in modes if mode.kind == "eval"}
        result = event.result
        used = trained.get(id(result.node)) if isinstance(result, Tensor) and result.node is not None else None
        if used is None:
            evaluated |= evals
        elif not evals:
            if all(mode.kind in ("train", "new") for mode in modes):
                clean.setdefault(event.place, set()).update(modes)
        elif evals == modes <= evaluated and event.place not in clean and event.loops:
            yield from _advice(evals, used)
        elif modes - evals <= clean.get(event.place, set()) and event.place in clean:
            for mode in evals & evaluated:
                if mode.place is not None:
                    yield Finding(
                        "", "", RULE.severity, mode.place,
                        "`eval()` is not undone: the training that follows runs without dropout, with batch statistics standing still",
                        (Step(used.value_place, "this loss comes from the model in evaluation mode, which trained before"),),
                    )  # fmt: skip


def _advice(evals: set[Switched], used: events.Backward) -> Iterable[Finding]:
    """Trained in evaluation mode from the start: some do so on purpose."""
    for mode in evals:
        if mode.place is not None:
            yield Finding(
                "", "", Severity.INFO, mode.place,
                "`eval()` is still in force in the training that follows: no dropout, and batch statistics stand still",
                (Step(used.value_place, "this loss comes from the model in evaluation mode"),),
            )  # fmt: skip


def _cares(module: Object) -> bool:
    return isinstance(module.cls, External) and module.cls.name.rpartition(".")[2].startswith(LAYERS)


RULE = Rule(code="GL407", severity=Severity.WARNING, check=check)
