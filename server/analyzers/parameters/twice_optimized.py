"""Two optimizers step on the same parameters, and another module of the loss is in none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Leaf, Node, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ._held import all_known, held

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    made = [event for event in flow.of(events.OptimizerMade) if event.leaves]
    if len(made) < 2 or not flow.whole or not flow.complete or flow.tainted or not all_known(flow):
        return
    backwards = [event for event in flow.of(events.Backward) if not event.grad]
    if any(event.optimizer.cells.get("escaped") or not event.exact for event in made):
        return
    if any(event.opaque or not isinstance(event.value, Tensor) for event in backwards):
        return
    for index, second in enumerate(made):
        first = next((one for one in made[:index] if _same(one, second)), None)
        if first is None or not _together(flow, first, second):
            continue
        for backward in backwards:
            left = _in_none(flow, backward)
            both = any(leaf in backward.reached for leaf in second.leaves)
            if left and (both or (backward.loops and len(left) == len(backward.reached))):
                names, others = flow.names(second.leaves), flow.names(left)
                text = (
                    say("two optimizers hold the same parameters ({names}) and both step; none holds {left}, which the "
                        "loss reaches, too", names=names, left=others)
                    if both
                    else say("two optimizers hold the same parameters ({names}) and both step; none holds {left}, which is "
                             "all that a loss reaches", names=names, left=others)
                )  # fmt: skip
                yield Finding(
                    "", "", RULE.severity, second.argument_place or second.place, text,
                    (Step(first.argument_place or first.place, say("the other optimizer got them here")),
                     Step(backward.value_place, say("this loss reaches what no optimizer holds"))),
                )  # fmt: skip
                break


def _same(first: events.OptimizerMade, second: events.OptimizerMade) -> bool:
    """Whether two optimizers were given the same, each once."""
    return (
        first.optimizer is not second.optimizer
        and first.place != second.place
        and not (first.in_loop or second.in_loop or first.branches or second.branches)
        and set(first.leaves) == set(second.leaves)
    )


def _together(flow: Flow, first: events.OptimizerMade, second: events.OptimizerMade) -> bool:
    """Whether the two step in the same turns of the same loop, under no condition, and nowhere else."""
    turns: list[set[tuple[int, ...]]] = []
    for made in (first, second):
        steps = [event for event in flow.of(events.Step) if event.optimizer is made.optimizer]
        if not steps or any(event.branches or event.guards or event.closure for event in steps):
            return False
        turns.append({tuple(id(loop) for loop in event.loops if not loop.unrolled) for event in steps})
    return turns[0] == turns[1]


def _in_none(flow: Flow, backward: events.Backward) -> list[Leaf]:
    """The parameters that get a gradient of this loss and that surely nobody moves."""
    taken = held(flow)
    for node in flow.handed:
        if isinstance(node, Node):
            found = walk(node)
            taken.update((*found.sure, *found.maybe))
    return [
        leaf
        for leaf in backward.reached
        if leaf not in taken
        and leaf.kind in ("weights", "parameter")
        and leaf.cells.get("requires_grad") is True
        and not any(leaf.cells.get(why) for why in ("escaped", "kept-by-hand", "grad-read", "taken-apart"))
    ]


RULE = Rule(code="GL517", severity=Severity.WARNING, check=check)
