"""The result of `backward()` (always None) is kept in place of the loss, and then used as if it were one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    given = {event.place for event in flow.of(events.Backward)}
    for event in flow.of(events.NoneUsed):
        if event.origin is not None and event.origin in given:
            yield Finding(
                "", "", RULE.severity, event.origin,
                say("{call} returns None, and its result is used as a tensor (`.{name}`): let the call stand alone",
                    call=flow.code(event.origin), name=event.name),
                (Step(event.place, say("`.{name}` of None is asked for here", name=event.name)),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Let the call stand alone.

    Needs: the place is the whole call of `backward`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    outer: Any = call and tree.parent(call)
    if isinstance(outer, cst.Assign) and _renames(tree, outer, call):
        name, loss = tree.code(outer.targets[0].target), tree.text(*tree.outer_span(call.func.value))
        rest = tree.text(tree.span(call.func)[1], tree.span(call)[1])
        edits = tree.replace(call, loss), tree.insert_after(tree.statement(call), f"{name}.backward{rest}")
        return Fix(say("Let the call stand alone"), Applicability.SAFE, edits)
    if isinstance(outer, cst.Assign):
        edit = Edit(tree.path, tree.span(outer)[0], tree.span(call)[0], "")
        return Fix(say("Let the call stand alone"), Applicability.SAFE, (edit,))
    if isinstance(outer, cst.Return) and isinstance(call.func, cst.Attribute) and tree.block(tree.statement(call)):
        loss = tree.text(*tree.outer_span(call.func.value))
        edits = tree.replace(outer, tree.code(call)), tree.insert_after(tree.statement(call), f"return {loss}")
        return Fix(say("Return the loss"), Applicability.UNSAFE, edits)
    return None


def _renames(tree: Tree, outer: Any, call: Any) -> bool:
    """Whether the loss has no name but the one that its `backward()` is given, as in `loss = f(x).backward()`."""
    cst = tree.cst
    if len(outer.targets) != 1 or not isinstance(call.func, cst.Attribute) or not tree.block(tree.statement(call)):
        return False
    target = outer.targets[0].target
    return isinstance(target, (cst.Name, cst.Attribute)) and tree.code(target) != tree.code(call.func.value)


RULE = Rule(code="GL303", severity=Severity.ERROR, check=check)
