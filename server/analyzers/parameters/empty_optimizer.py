"""Every parameter was frozen before, and the optimizer gets those that are not: none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Leaf, Object, Parameters, Sequence, replace
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.training.optimizers import is_empty
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete or flow.run is None:
        return
    frozen: events.Event | None = None
    for event in flow.among(events.GradFlag, events.Called, events.OptimizerMade):
        if (isinstance(event, events.GradFlag) and event.value is False) or (
            isinstance(event, events.Called) and event.name == "Module.requires_grad_"
        ):
            frozen = event
        elif isinstance(event, events.OptimizerMade) and frozen is not None and _gets_nothing(flow, event):
            where = event.argument_place or event.place
            yield Finding(
                "", "", RULE.severity, where,
                say("{code} lets no parameter through, since each is frozen: the optimizer raises", code=flow.code(where)),
                (Step(frozen.place, say("this turns the parameters' gradients off")),),
            )  # fmt: skip


def _gets_nothing(flow: Flow, event: events.OptimizerMade) -> bool:
    """Whether it was given the parameters of a module that require grad, and surely none does."""
    given = event.arguments[0] if event.arguments else None
    if isinstance(given, Sequence):
        source = given.cells.get("source")
        given = replace(source, trainable_only=True) if isinstance(source, Parameters) and is_empty(given) else None
    if not isinstance(given, Parameters) or not given.trainable_only or not isinstance(given.owner, Object):
        return False
    if event.leaves or not event.exact or event.used_up is not None or event.branches:
        return False
    assert flow.run is not None
    leaves, exact = leaves_of(flow.run, given.owner)
    return exact and bool(leaves) and all(_is_frozen(leaf) for leaf in leaves)


def _is_frozen(leaf: Leaf) -> bool:
    return leaf.cells.get("requires_grad") is False and not leaf.cells.get("escaped")


RULE = Rule(code="GL518", severity=Severity.ERROR, check=check)
