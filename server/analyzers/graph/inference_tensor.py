"""A tensor that was made in inference mode enters a graph, which torch refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Raised):
        if event.rule != "inference-tensor":
            continue
        mode = event.data.get("mode")
        place = mode if isinstance(mode, Place) else event.place
        yield Finding(
            "", "", RULE.severity, place,
            "tensors made in inference mode cannot be saved for backward: use `torch.no_grad()` for what training goes on with",
            tuple(Step(where, note) for where, note in event.trail),
        )  # fmt: skip


RULE = Rule(code="GL108", severity=Severity.ERROR, check=check)
