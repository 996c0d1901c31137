"""An evaluation runs with gradients on, and what it keeps holds the graph of every batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Switched, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from .._graph import below, wanted

if TYPE_CHECKING:
    from ...flow import Flow


EVALUATES = ({"eval"}, {"own"})


def evaluated_by(flow: Flow, kept: events.Kept) -> events.Forward | None:
    """The call of a model in evaluation mode whose graph is kept; None if there is none."""
    graph = below(kept.value)
    for event in reversed(flow.events[: flow.events.index(kept)]):
        if isinstance(event, events.Forward) and isinstance(event.result, Tensor) and id(event.result.node) in graph:
            kinds = {mode.kind for mode in event.modes if isinstance(mode, Switched)}
            return event if kinds in EVALUATES else None
    return None


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole or not flow.complete or flow.tainted or any(event.opaque for event in flow.of(events.Backward)):
        return  # a backward whose graph is not known may go through any
    kept_by = set()
    for kept in flow.of(events.Kept):
        if kept.freed is not None or below(kept.value) & wanted(flow):
            continue
        event = evaluated_by(flow, kept)
        if event is not None:
            switched = next(mode.place for mode in event.modes if isinstance(mode, Switched))
            trail = [Step(kept.place, say("this keeps the graph of every batch"))]
            if switched is not None:
                trail.append(Step(switched, say("`eval()` does not turn gradients off")))
            yield Finding(
                "", "", RULE.severity, event.place,
                say("this evaluation builds graphs that nobody goes backward through: run it under `torch.no_grad()`"),
                tuple(trail),
            )  # fmt: skip
            kept_by.add(event.place)
    for event in flow.of(events.Forward):
        if event.loops and event.inside is None and event.place not in kept_by and _for_nothing(flow, event):
            yield Finding(
                "", "", Severity.INFO, event.place,
                say("this evaluation builds graphs that nobody goes backward through: under `torch.no_grad()` it "
                    "costs less"),
            )  # fmt: skip


def _for_nothing(flow: Flow, event: events.Forward) -> bool:
    """A model in evaluation mode gives a result whose graph nobody uses."""
    kinds = {mode.kind for mode in event.modes if isinstance(mode, Switched)}
    result = event.result
    if kinds not in EVALUATES or not isinstance(result, Tensor) or not result.live or result.node is None:
        return False
    return id(result.node) not in wanted(flow)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Compute it under `no_grad`.

    Needs: the place is the whole call of the model in a loop or a function that only evaluates.
    """
    tree = context.scope_tree(finding.place)
    call = tree and tree.exactly(finding.place, tree.cst.Call)
    if tree is None or call is None or not tree.block(tree.statement(call)):
        return None
    source = context.source(finding.place.path).text.replace("\r", "\n")
    if "import torch\n" not in source or tree.enclosing(call, tree.cst.Return) is not None:
        return None
    statement = tree.statement(call)
    return Fix(
        say("Compute it under no_grad"), Applicability.SAFE, tree.wrap(statement, statement, "with torch.no_grad():")
    )


RULE = Rule(code="GL902", severity=Severity.WARNING, check=check)
