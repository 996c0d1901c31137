"""`.item()` in compiled code: `torch.compile` has to leave its graph at every call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Const
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    captured = any(
        event.name == "capture_scalar_outputs" and not (isinstance(event.value, Const) and not event.value.value)
        for event in flow.of(events.Attribute)
    )
    if captured:
        return
    for event in flow.of(events.GraphBreak):
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{how} in compiled code breaks the graph in two at every call: return the tensor, and take the "
                "number outside", how=f"`{event.how}`"),
            (Step(event.compiled, say("this is compiled here")),),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Keep the tensor.

    Needs: the place is the whole call (`loss.item()`).
    """
    tree = context.tree(finding.place)
    call: Any = tree and tree.exactly(finding.place, tree.cst.Call)
    if tree is None or call is None or not isinstance(call.func, tree.cst.Attribute):
        return None
    edit = tree.replace(call.func.attr, "detach")
    return Fix(say("Keep the tensor, detached"), Applicability.SAFE, (edit,))


RULE = Rule(code="GL602", severity=Severity.WARNING, check=check)
