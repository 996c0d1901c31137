"""`x.detach()` stands as a statement of its own: it returns a new tensor, and `x` keeps its graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Discarded):
        value = event.owner
        if event.name != "detach" or not isinstance(value, Tensor):
            continue
        if any(cut.kind == "detach" and cut.place == event.place and cut.sources for cut in value.cuts):
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{call} returns a new tensor, which is thrown away here: the old one keeps its graph; assign "
                    "what it returns", call=flow.code(event.place)),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Keep what it returns.

    Needs: the place is the call, which is the whole statement, on a name or an attribute.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    if call is None or not isinstance(call.func, cst.Attribute) or not isinstance(tree.parent(call), cst.Expr):
        return None
    target = call.func.value
    if not isinstance(target, (cst.Name, cst.Attribute)):
        return None
    start = finding.place.start
    return Fix(
        say("Keep what it returns"), Applicability.SAFE, (Edit(tree.path, start, start, f"{tree.code(target)} = "),)
    )


RULE = Rule(code="GL109", severity=Severity.WARNING, check=check)
