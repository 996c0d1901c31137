"""`.grad` is None here, and something is asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity
from ...flow import events
from ...rule import Rule
from ..parameters._leaf import as_leaf

if TYPE_CHECKING:
    from ...flow import Flow

_WHY = {
    "non-leaf": "the tensor is the result of an operation, and only leaves keep their gradient (or call `retain_grad()`)",
    "no-grad": "the tensor does not require grad",
    "no-backward": "no backward has reached it yet",
    "cleared": "it was cleared and no backward has reached it since",
}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.NoneUsed):
        if event.why not in _WHY or (event.why in ("no-backward", "cleared") and not flow.whole):
            continue
        yield Finding(
            "", "", RULE.severity, event.place, f"`.grad` is None here, and has no `.{event.name}`: {_WHY[event.why]}"
        )


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the tensor a leaf: first compute it, then ask for its gradient.

    Needs: the place holds `x.grad`; `x` is bound once in the same scope, to an expression around a tensor with
    `requires_grad=True` (`0.01 * torch.randn(4, requires_grad=True)`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    read: Any = tree.find(finding.place, cst.Attribute)
    while isinstance(read, cst.Attribute) and read.attr.value != "grad":
        read = read.value
    if not isinstance(read, cst.Attribute):
        return None
    name = tree.code(read.value)
    bound = [assign for assign in tree.nodes(cst.Assign) if tree.code(assign.targets[0].target) == name]
    found = [edits for assign in bound if (edits := as_leaf(tree, assign.value)) is not None]
    return Fix("Make it a leaf", Applicability.SAFE, found[0]) if len(found) == 1 else None


RULE = Rule(code="GL107", severity=Severity.ERROR, check=check)
