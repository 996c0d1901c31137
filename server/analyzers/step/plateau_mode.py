"""`ReduceLROnPlateau` waits for a number to fall that should rise, or the other way round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import AGREEMENT, LOSS, Const, Number, Tensor
from ...findings import Finding, Severity, Step
from ...rule import Rule
from ._scheduler import argument, creation, optimizer_of

if TYPE_CHECKING:
    from ...flow import Flow

WRONG = {"min": AGREEMENT, "max": LOSS}
WHAT = {AGREEMENT: "an accuracy, which should rise", LOSS: "a loss, which should fall"}


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
            other = "max" if mode.value == "min" else "min"
            yield Finding(
                "", "", RULE.severity, made.place,
                f"this scheduler is in mode {mode.value!r} but is given {WHAT[value.measure]}: the rate is cut while training "
                f"goes well; say `mode={other!r}`",
                (Step(event.place, f"it is given {WHAT[value.measure]}"),),
            )  # fmt: skip


RULE = Rule(code="GL414", severity=Severity.WARNING, check=check)
