"""`torch.no_grad()` as a statement of its own changes nothing; `with torch.no_grad:` without the call raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

TRAINING = {"backward", "step", "zero_grad", "train"}  # calls after which it is not plain what was meant


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.BareContext):
        if event.in_with:
            yield Finding(
                "", "", Severity.ERROR, event.place,
                say("`with {how}:` lacks the call and raises TypeError: write `{how}()`", how=event.how),
            )  # fmt: skip
        else:
            yield Finding(
                "", "", Severity.WARNING, event.place,
                say("`{how}` as a statement changes nothing: it acts in a `with` or as a decorator",
                    how=f"{event.how}()" if event.called else event.how),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call it, or put what follows in its block under it.

    Needs: the place is the expression (`torch.no_grad()` of the statement, `torch.no_grad` of the `with`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.find(finding.place, cst.Call, cst.Attribute, cst.Name)
    if node is None or tree.place(node) != finding.place:
        return None
    if isinstance(tree.parent(node), cst.WithItem):
        end = finding.place.end
        return Fix(say("Call it"), Applicability.SAFE, (Edit(tree.path, end, end, "()"),))
    statement = tree.statement(node)
    block = tree.block(statement)
    index = next((i for i, other in enumerate(block) if other is statement), len(block))
    following = [one for one in block[index + 1 :] if not isinstance(one, (cst.FunctionDef, cst.ClassDef))]
    if not following or not isinstance(tree.parent(node), cst.Expr):
        return None
    start, end = finding.place.start, tree.block_end(block[-1])
    called = "" if isinstance(node, cst.Call) else "()"
    rest = {tree.code(name) for one in block[index + 1 :] for name in tree.attributes(one)}
    safe = not rest & TRAINING and len(following) == len(block) - index - 1
    head = Edit(tree.path, start, start, "with ")
    tail = Edit(tree.path, finding.place.end, finding.place.end, f"{called}:")
    lines = tree.indented(tree.block_end(statement), end)
    applicability = Applicability.SAFE if safe else Applicability.UNSAFE
    return Fix(say("Put what follows under it"), applicability, (head, tail, *lines))


RULE = Rule(code="GL203", severity=Severity.WARNING, check=check)
