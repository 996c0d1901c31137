"""`backward()` without an argument is called on a tensor that holds more than one number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import MANY, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if (
            event.gradient
            or event.grad
            or not isinstance(value, Tensor)
            or value.opaque
            or value.rank != MANY
            or value.dead
        ):
            continue
        trail = ()
        if value.made is not None and value.made != event.value_place:
            trail = (Step(value.made, say("this leaves one number for each element")),)
        yield Finding(
            "", "", RULE.severity, event.value_place,
            say("{loss} was not reduced to a single number, which `backward()` without an argument needs: it raises",
                loss=flow.code(event.value_place)), trail,
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Go backward from the mean. A loss function that was told not to reduce takes it by default: there it is safe.

    Needs: the place is the receiver of `backward`; the trail ends at the call that leaves more than one number
    (`F.mse_loss(..., reduction="none")`, `nn.CrossEntropyLoss(reduction="none")`, `model(x)`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.find(finding.place, cst.BaseExpression)
    if node is None or tree.place(node) != finding.place:
        return None
    origin = context.text(finding.trail[-1].place) if finding.trail else ""
    told = "reduction=" in origin.replace(" ", "")
    end = tree.outer_span(node)[1]
    edit = Edit(tree.path, end, end, ".mean()")
    return Fix(say("Go backward from the mean"), Applicability.SAFE if told else Applicability.UNSAFE, (edit,))


RULE = Rule(code="GL301", severity=Severity.ERROR, check=check)
