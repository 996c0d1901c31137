"""A reentrant checkpoint without an input that requires grad: nothing inside it is trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Lost):
        if event.cut.kind == "checkpoint":
            yield Finding(
                "", "", RULE.severity, event.place,
                say("a reentrant checkpoint gives a result with a graph only if an argument requires grad, and none "
                    "does: what is inside gets no gradient; pass `use_reentrant=False`"),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Use the checkpoint that is not reentrant.

    Needs: the place is the call of `checkpoint`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if call is None:
        return None
    said = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "use_reentrant"), None)
    if said is not None:
        edit = tree.replace(said.value, "False")
    else:
        end = tree.span(call.args[-1].value)[1]
        edit = Edit(tree.path, end, end, ", use_reentrant=False")
    return Fix(say("Use a checkpoint that is not reentrant"), Applicability.SAFE, (edit,))


RULE = Rule(code="GL702", severity=Severity.WARNING, check=check)
