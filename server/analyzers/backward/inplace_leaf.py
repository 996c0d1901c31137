"""A parameter (or a view of one) is changed in place while gradients are recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Place, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    chains: dict[tuple[object, int], Place] = {}  # where one begins, and its first call: `e.mul_(m).add_(p)`
    for event in flow.of(events.InPlace):
        leaf, mode = event.leaf, event.mode
        if leaf is None or mode is None or not mode.records:
            continue
        if event.how in (".requires_grad_()", ".detach_()"):
            continue
        if chains.setdefault((event.place.path, event.place.start), event.place) != event.place:
            continue  # the first call has raised
        # One of several parameters (`for p in model.parameters()`) shares its memory with no leaf that is known.
        view = event.target.leaf is None and event.target.storage is leaf.storage
        what = say("a view of a parameter") if view else say("a parameter")
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} changes {what} in place while gradients are recorded, which raises: do it under "
                "`torch.no_grad()`", code=flow.code(event.place), what=what),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Do it without gradients.

    Needs: the place is the statement, the call or the item that changes it (`w -= lr * w.grad`, `w.clamp_(0, 1)`, `w[0]`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.exactly(finding.place, cst.AugAssign, cst.Call, cst.Assign, cst.Subscript)
    if node is None or not tree.block(tree.statement(node)):
        return None
    imports = context.source(finding.place.path).text
    if "import torch\n" not in imports.replace("\r", "\n"):
        return None
    statement = tree.statement(node)
    return Fix(
        say("Do it without gradients"), Applicability.SAFE, tree.wrap(statement, statement, "with torch.no_grad():")
    )


RULE = Rule(code="GL306", severity=Severity.ERROR, check=check)
