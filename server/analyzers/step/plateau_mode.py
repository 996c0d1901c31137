"""`ReduceLROnPlateau` waits for a number to fall that should rise, or the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import AGREEMENT, LOSS, Const, Number, Tensor
from ...findings import Finding, Severity, Step
from ...messages import say
from ...rule import Rule
from ._scheduler import argument, creation, optimizer_of

if TYPE_CHECKING:
    from ...flow import Flow

OTHER = {"min": "max", "max": "min"}
WRONG = {"min": AGREEMENT, "max": LOSS}
WHAT = {AGREEMENT: say("an accuracy, which should rise"), LOSS: say("a loss, which should fall")}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.called("Scheduler.step"):
        _, name = optimizer_of(event)
        mode = argument(event, 1, "mode", Const("min"))
        value = event.args[0] if event.args else event.keywords.get("metrics")
        if (
            not name.endswith(".ReduceLROnPlateau")
            or not isinstance(mode, Const)
            or not isinstance(value, (Number, Tensor))
        ):
            continue
        made = creation(flow, event)
        if made is not None and value.measure and WRONG.get(str(mode.value)) == value.measure:
            other = OTHER[str(mode.value)]
            yield Finding(
                "", "", RULE.severity, made.place,
                say("this scheduler is in mode {mode!r} but is given {what}: the rate is cut while training goes "
                    "well; say `mode={other!r}`", mode=mode.value, what=WHAT[value.measure], other=other),
                (Step(event.place, say("it is given {what}", what=WHAT[value.measure])),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Say the other mode.

    Needs: the place is the whole call that makes the scheduler.
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    if call is None or any(arg.star for arg in call.args):
        return None
    given: Any = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "mode"), None)
    if given is None and len(call.args) > 1 and call.args[1].keyword is None:
        given = call.args[1]
    if given is None:
        end = tree.span(call.args[-1])[1]
        return Fix(say('Say mode="max"'), Applicability.SAFE, (Edit(tree.path, end, end, ', mode="max"'),))
    if not isinstance(given.value, cst.SimpleString) or given.value.raw_value not in OTHER:
        return None
    other = f"{given.value.quote}{OTHER[given.value.raw_value]}{given.value.quote}"
    return Fix(say("Say mode={other}", other=other), Applicability.SAFE, (tree.replace(given.value, other),))


RULE = Rule(code="GL414", severity=Severity.WARNING, check=check)
