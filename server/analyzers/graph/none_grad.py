"""`.grad` is None here, and something is asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Severity
from ...flow import events
from ...rule import Rule

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
    found = [edits for assign in bound if (edits := _leaf(tree, assign.value)) is not None]
    return Fix("Make it a leaf", Applicability.SAFE, found[0]) if len(found) == 1 else None


def _leaf(tree: Tree, made: Any) -> tuple[Edit, ...] | None:
    """`a * f(b, requires_grad=True)` becomes `(a * f(b)).requires_grad_()`; None if it is a leaf already."""
    cst = tree.cst
    first, last = tree.span(made)
    flags = [arg for arg in tree.nodes(cst.Arg) if arg.keyword is not None and arg.keyword.value == "requires_grad"]
    flags = [arg for arg in flags if first <= tree.span(arg)[0] < last]
    if len(flags) != 1 or tree.code(flags[0].value) != "True":
        return None
    call: Any = tree.parent(flags[0])
    if call is made:
        return None
    index = next(i for i, arg in enumerate(call.args) if arg is flags[0])
    start = tree.span(call.args[index - 1].value)[1] if index else tree.span(flags[0])[0]
    end = tree.span(flags[0].value)[1]
    loose = isinstance(made, (cst.BinaryOperation, cst.UnaryOperation)) and not made.lpar
    head = (Edit(tree.path, first, first, "("),) if loose else ()
    tail = Edit(tree.path, last, last, ").requires_grad_()" if loose else ".requires_grad_()")
    return *head, Edit(tree.path, start, end, ""), tail


RULE = Rule(code="GL107", severity=Severity.ERROR, check=check)
