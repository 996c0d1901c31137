"""Gradients are never cleared: each step applies those of all earlier batches once more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule
from ._shared import not_called
from .wrong_optimizer_zeroed import wrongly_zeroed

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Step):
        stale = [(leaf, place) for leaf, place in event.stale if not leaf.cells.get("escaped")]
        if not stale or event.optimizer.cells.get("escaped") or not_called(flow, event.optimizer, "zero_grad"):
            continue
        if wrongly_zeroed(flow, event) is not None:
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            "this step also applies the gradients of earlier steps: nothing clears them in between",
            (Step(stale[0][1], "backward adds to the gradients that the step before has already applied"),),
        )  # fmt: skip


RULE = Rule(code="GL401", severity=Severity.WARNING, check=check)
