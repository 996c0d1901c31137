"""A gradient of `autograd.grad` is a part of the loss, and was taken without `create_graph=True`: it is a constant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    walked = {id(node): event for event in flow.of(events.Backward) for node in event.nodes}
    for term in flow.of(events.DeadTerm):
        event = walked.get(id(term.node))
        cut = next((cut for cut in term.cuts if cut.kind == "grad"), None)
        if event is None or cut is None:
            continue
        yield Finding(
            "", "", RULE.severity, cut.place,
            say("{call} gives a part of the loss, and without `create_graph=True` it is a constant: the term trains "
                "nothing", call=flow.code(cut.place)),
            (Step(event.value_place, say("this loss goes backward")),),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the gradient part of the graph.

    Needs: the place is the call of `autograd.grad`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if call is None or not call.args:
        return None
    said = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "create_graph"), None)
    if said is not None:
        edit = tree.replace(said.value, "True")
    else:
        end = tree.span(call.args[-1].value)[1]
        edit = Edit(tree.path, end, end, ", create_graph=True")
    return Fix(say("Keep the graph of the gradient"), Applicability.SAFE, (edit,))


RULE = Rule(code="GL703", severity=Severity.WARNING, check=check)
