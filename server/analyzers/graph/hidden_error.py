"""`requires_grad` is switched on for a loss that has lost its graph: the error is gone, and nothing trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Severity
from ...flow.trails import cut_steps
from ...messages import say
from ...rule import Rule
from ._hidden import hidden
from ._mending import Mended, mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event, _ in hidden(flow):
        assert event.before is not None
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} makes a new leaf of a value that has lost its graph: the error is gone, and no parameter "
                "gets a gradient", code=flow.code(event.place)),
            cut_steps(event.before.cuts, event.place),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the switch away and the cut that it hides back.

    Needs: the place is the whole assignment (`loss.requires_grad = True`), the call (`loss.requires_grad_()`) or the
    wrapping (`Variable(loss, requires_grad=True)`, `torch.tensor(loss, requires_grad=True)`); the trail leads to the
    cuts that it hides, the origin last, as in detached-loss, and is empty if the wrapping is the only cut.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cuts = [step.place for step in finding.trail]
    switch = _switch(tree, finding)
    if switch is None:
        mended = mend(context, finding.place, [*cuts, finding.place] if not cuts else [finding.place, *cuts])
    else:
        mended = mend(context, finding.place, cuts) if cuts else None
        mended = mended and Mended((switch, *mended.edits), mended.safe, (say("Take requires_grad away"), *mended.said))
    if mended is None:
        return None
    return Fix(mended.message, Applicability.SAFE if mended.safe else Applicability.UNSAFE, mended.edits)


def _switch(tree: Tree, finding: Finding) -> Edit | None:
    """The edit that takes the switch away; None if the place is a wrapping."""
    cst = tree.cst
    node = tree.find(finding.place, cst.Assign, cst.Call)
    if isinstance(node, cst.Assign):
        return tree.delete(node)
    if node is None or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "requires_grad_":
        return None
    statement = tree.parent(node)
    if isinstance(statement, cst.Expr):
        return tree.delete(statement)
    (edit,) = tree.unwrap(node, node.func.value)
    return edit


RULE = Rule(code="GL103", severity=Severity.ERROR, check=check)
