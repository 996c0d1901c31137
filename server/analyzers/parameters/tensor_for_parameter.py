"""A tensor that is no Parameter is assigned where a module has one: torch raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Raised):
        if event.rule == "tensor-for-parameter":
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} is a Parameter of the module, and a tensor that is none is assigned to it: this raises; write "
                    "into it under `no_grad`, or assign an `nn.Parameter`", code=flow.code(event.place)),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Write the values into the parameter.

    Needs: the place is the target of an assignment that stands alone.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    target: Any = tree.exactly(finding.place, cst.Attribute)
    holder: Any = target and tree.parent(target)
    assign: Any = holder and tree.parent(holder)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not tree.block(tree.statement(assign)):
        return None
    code = f"{tree.code(target)}.data.copy_({tree.code(assign.value)})"
    return Fix(say("Write the values into the parameter"), Applicability.UNSAFE, (tree.replace(assign, code),))


RULE = Rule(code="GL515", severity=Severity.ERROR, check=check)
