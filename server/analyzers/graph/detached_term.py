"""A term of the loss has lost its graph: it changes the number that is printed, and nothing that is learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import cut_note
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ._hidden import leaves_below
from ._mending import mend
from .untrained_parameters import untrained

if TYPE_CHECKING:
    from ...flow import Flow

# How a term loses its graph by mistake. A term computed under `no_grad` was meant to have none, and one that was
# compared or counted never had any.
_KINDS = frozenset({"detach", "data", "rewrap", "numpy"})


def check(flow: Flow) -> Iterable[Finding]:
    held = {id(leaf) for event in flow.of(events.OptimizerMade) for leaf in event.leaves}
    if not held:
        return
    walked = {id(node): event for event in flow.of(events.Backward) for node in event.nodes}
    # A cut behind which parameters get no gradient at all is untrained-parameters' to tell.
    told = {id(cut) for _, cut, _, _ in untrained(flow)}
    for term in flow.of(events.DeadTerm):
        event = walked.get(id(term.node))
        if event is None:
            continue
        inside = {id(node) for node in event.nodes}
        # What was cut on the way to another cut went on from there with a graph: that one is not what ended it.
        behind = {id(c) for cut in term.cuts for source in cut.sources for c in walk(source).cuts}
        for cut in term.cuts:
            if (
                id(cut) in behind
                or id(cut) in told
                or cut.kind not in _KINDS
                or any(id(source) in inside for source in cut.sources)
            ):
                continue  # `x - x.detach()` and the like: the same value is in the loss with its graph
            if not any(id(leaf) in held for source in cut.sources for leaf in leaves_below(source)):
                continue
            yield Finding(
                "", "", RULE.severity, cut.place,
                say("{note}, so this term adds nothing to any gradient", note=cut_note(cut)),
                (Step(term.place, say("here it is added to the loss")),
                 Step(event.value_place, say("and this backward passes it by"))),
            )  # fmt: skip
            break


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back.

    Needs: the place is the cut (`gap.detach()`, `torch.tensor(parts)`).
    """
    mended = mend(context, finding.place, [finding.place])
    return None if mended is None else Fix(mended.message, Applicability.UNSAFE, mended.edits)


RULE = Rule(code="GL110", severity=Severity.WARNING, check=check)
