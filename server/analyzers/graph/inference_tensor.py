"""A tensor that was made in inference mode enters a graph, which torch refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
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
            say("tensors made in inference mode cannot be saved for backward: use `torch.no_grad()` for what "
                "training goes on with"),
            tuple(Step(where, note) for where, note in event.trail),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Use `no_grad`, whose results may be used in training.

    Needs: the place is `torch.inference_mode()` of the `with` or the decorator.
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    mode: Any = tree.exactly(finding.place, cst.Call, cst.Attribute)
    function = mode.func if isinstance(mode, cst.Call) else mode
    if not isinstance(function, cst.Attribute) or function.attr.value != "inference_mode":
        return None
    if isinstance(mode, cst.Call) and mode.args:
        return None
    return Fix(say("Use no_grad"), Applicability.SAFE, (tree.replace(function.attr, "no_grad"),))


RULE = Rule(code="GL108", severity=Severity.ERROR, check=check)
