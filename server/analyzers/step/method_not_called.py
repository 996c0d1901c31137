"""A method of the training loop is named but not called: the line does nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Object
from ...findings import Finding, Severity
from ...flow import events
from ...flow.modules import library_class
from ...flow.objects import is_module
from ...flow.training import is_optimizer
from ...messages import say
from ...rule import Rule
from ...torchlib import scheduler

if TYPE_CHECKING:
    from ...flow import Flow

EFFECTS = {
    "zero_grad": say("gradients are not cleared"),
    "step": say("nothing steps"),
    "train": say("the mode does not change"),
    "eval": say("the mode does not change"),
    "update": say("the scale is not updated"),
}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.NotCalled):
        owner = event.owner
        if isinstance(owner, Object) and event.name in _methods(owner):
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} is named but not called, so {effect}: put `()` behind it",
                    code=flow.code(event.place), effect=EFFECTS[event.name]),
            )  # fmt: skip


def _methods(owner: Object) -> tuple[str, ...]:
    cls = library_class(owner)
    if is_optimizer(owner):
        return ("step", "zero_grad")
    if is_module(owner):
        return ("train", "eval", "zero_grad")
    if cls.endswith(".GradScaler"):
        return ("update",)
    return ("step",) if scheduler(cls) is not None else ()


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call it."""
    end = finding.place.end
    return Fix(say("Call it"), Applicability.SAFE, (Edit(finding.place.path, end, end, "()"),))


RULE = Rule(code="GL408", severity=Severity.WARNING, check=check)
