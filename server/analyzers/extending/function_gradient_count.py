"""`backward` of an autograd Function returns another number of gradients than `forward` has inputs."""

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
    for event in flow.of(events.Raised):
        if event.rule == "function-gradient-count":
            data = event.data
            yield Finding(
                "", "", RULE.severity, event.place,
                say("`{name}.backward` returns {got}, and `forward` has {expected}: `backward()` raises; inputs "
                    "without a gradient get None",
                    name=data["name"], expected=data["expected"],
                    got=say("1 gradient") if data["got"] == 1 else say("{n} gradients", n=data["got"])),
                data=(("missing", data["missing"]),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Return None for the inputs that get no gradient.

    Needs: the place is the returned expression; `missing` is how many there are too few.
    """
    missing = finding.get("missing")
    tree = context.scope_tree(finding.place)
    if tree is None or not isinstance(missing, int) or missing <= 0:
        return None
    cst = tree.cst
    value: Any = tree.exactly(finding.place, cst.BaseExpression)
    if value is None or not isinstance(tree.parent(value), cst.Return):
        return None
    end = tree.span(value)[1]
    if isinstance(value, cst.Tuple) and value.lpar:
        end -= 1
    return Fix(
        say("Return None for the inputs without a gradient"), Applicability.UNSAFE,
        (Edit(tree.path, end, end, ", None" * missing),),
    )  # fmt: skip


RULE = Rule(code="GL701", severity=Severity.ERROR, check=check)
