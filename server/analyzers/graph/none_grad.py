"""`.grad` is None here, and something is asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...facts import Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ..parameters._leaf import as_leaf

if TYPE_CHECKING:
    from ...flow import Flow

_WHY = {
    "non-leaf": say(
        "the tensor is the result of an operation, and only leaves keep their gradient (or call `retain_grad()`)"
    ),
    "no-grad": say("the tensor does not require grad"),
    "no-backward": say("no backward has reached it yet"),
    "cleared": say("it was cleared and no backward has reached it since"),
}


def check(flow: Flow) -> Iterable[Finding]:
    last: events.Backward | None = None
    for event in flow.among(events.NoneUsed, events.Backward):
        if isinstance(event, events.Backward) and event.reached and not event.grad:
            last = event
        if isinstance(event, events.Backward) and _ends_here(event):
            return  # the program ends there, and what has cut the graph is said there
        if (
            not isinstance(event, events.NoneUsed)
            or event.why not in _WHY
            or (event.why in ("no-backward", "cleared") and not flow.whole)
        ):
            continue
        code, why = flow.code(event.place), _WHY[event.why]
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} is asked of a `.grad` that is None: {why}", why=why, code=code)
            if event.name.isidentifier()
            else say("{code} is None, and `{operator}` raises: {why}", why=why, code=code, operator=event.name),
            (Step(last.value_place, say("this backward does not reach {names}", names=flow.names(event.leaves))),)
            if last is not None and event.leaves and event.why == "no-backward"
            else (),
            data=(("why", event.why),),
        )  # fmt: skip


def _ends_here(event: events.Backward) -> bool:
    """Whether this backward raises on every run: its loss has surely lost its graph."""
    value = event.value
    dead = isinstance(value, Tensor) and value.dead and bool(value.cuts) and not value.opaque
    return dead and event.always and not event.grad and not event.branches


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the tensor a leaf: first compute it, then ask for its gradient. Where there is no gradient yet, ask first.

    Needs: the place holds `x.grad`; for a gradient that no backward has made, `x.grad.zero_()` or `x.grad *= 2` stands alone; for a
    tensor that is no leaf, `x` is bound once in the same scope, to an expression around a tensor with
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
    if finding.get("why") in ("no-backward", "cleared"):
        return _asked(tree, read)
    bound = [assign for assign in tree.nodes(cst.Assign) if tree.code(assign.targets[0].target) == name]
    found = [edits for assign in bound if (edits := as_leaf(tree, assign.value)) is not None]
    return Fix(say("Make it a leaf"), Applicability.SAFE, found[0]) if len(found) == 1 else None


def _asked(tree: Tree, read: Any) -> Fix | None:
    """`x.grad.zero_()` or `x.grad *= 2` under `if x.grad is not None:`"""
    cst = tree.cst
    statement = tree.statement(read)
    method = tree.parent(read)
    call = tree.parent(method) if isinstance(method, cst.Attribute) else None
    alone = isinstance(call, cst.Call) and isinstance(tree.parent(call), cst.Expr)
    if not (alone or (isinstance(method, cst.AugAssign) and method.target is read)) or not tree.block(statement):
        return None
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    edits = tree.wrap(statement, statement, f"if {tree.code(read)} is not None:")
    return Fix(say("Ask whether there is a gradient"), Applicability.SAFE, edits)


RULE = Rule(code="GL107", severity=Severity.ERROR, check=check)
