"""A term of the loss has lost its graph: it changes the number that is printed, and nothing that is learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import WALK_LIMIT, Cut, Node
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
    told = {id(cut) for _, cut, _, _ in untrained(flow, every=True)}
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
                or _for_its_value(term, cut)
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


# What sums up and scales, as it is written and as torch calls it.
_SUMS = frozenset(("+ - add sub rsub subtract neg negative positive clone view reshape squeeze unsqueeze flatten to float "
                   "double half bfloat16 contiguous alias").split())  # fmt: skip
_PRODUCTS = frozenset("* / mul div multiply divide true_divide".split())


def _summands(starts: Iterable[Node], products: bool) -> tuple[set[int], set[int]]:
    """What values are sums of multiples of: all of it, and what of it is no such sum itself. `products`: products of
    what has a graph are opened, too."""
    seen: set[int] = set()
    last: set[int] = set()
    todo = list(starts)
    while todo and len(seen) < WALK_LIMIT:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        opened = node.op in _SUMS or (node.op in _PRODUCTS and (products or len(node.inputs) == 1))
        if node.inputs and opened:
            todo += node.inputs
        else:
            last.add(id(node))
    return seen, last


def _for_its_value(term: events.DeadTerm, cut: Cut) -> bool:
    """Whether the term puts the value of the other one right and leaves its gradient: `(y - x).detach() + x` has the
    value of y, `(x - k * x).detach() + k * x` that of x. Then both are sums of the same."""
    live = term.node.inputs if term.node is not None else ()
    if _summands(cut.sources, False)[0] & _summands(live, False)[0]:
        return True
    mine, others = _summands(cut.sources, True)[1], _summands(live, True)[1]
    return bool(mine) and mine <= others


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back.

    Needs: the place is the cut (`gap.detach()`, `torch.tensor(parts)`).
    """
    mended = mend(context, finding.place, [finding.place])
    return None if mended is None else Fix(mended.message, Applicability.UNSAFE, mended.edits)


RULE = Rule(code="GL110", severity=Severity.WARNING, check=check)
