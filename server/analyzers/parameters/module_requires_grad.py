"""`requires_grad` is assigned on a module: a plain attribute, its parameters stay as they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Const, Object, Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.objects import is_module
from ...messages import say
from ...rule import Rule
from ._held import overrides

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    assert flow.run is not None
    for event in flow.of(events.Attribute):
        owner = event.owner
        if event.name != "requires_grad" or event.own or not isinstance(owner, Object) or not is_module(owner):
            continue
        if overrides(owner, "requires_grad", "__setattr__"):
            continue
        value = event.value.value if isinstance(event.value, Const) else None
        leaves, exact = leaves_of(flow.run, owner)
        if exact and (
            not leaves or (value is True and all(leaf.cells.get("requires_grad") is True for leaf in leaves))
        ):
            continue  # nothing there to be frozen, or already as it is wanted
        if any(
            isinstance(flag.target, Tensor) and flag.target.leaf in leaves and flag.value is value
            for flag in flow.of(events.GradFlag)
        ):
            continue  # its parameters are told so too, one by one
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} is a plain attribute of a module: its parameters stay as they were; `requires_grad_(...)` "
                "was meant", code=flow.code(event.place)),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Tell its parameters.

    Needs: the place is the attribute that is assigned (`model.head.requires_grad`).
    """
    tree = context.tree(finding.place)
    target: Any = tree and tree.exactly(finding.place, tree.cst.Attribute)
    if tree is None or target is None:
        return None
    assign: Any = tree.enclosing(target, tree.cst.Assign)
    if assign is None or len(assign.targets) != 1:
        return None
    text = f"{tree.code(target.value)}.requires_grad_({tree.code(assign.value)})"
    return Fix(say("Tell its parameters"), Applicability.SAFE, (tree.replace(assign, text),))


RULE = Rule(code="GL506", severity=Severity.WARNING, check=check)
