"""An optimizer holds parameters that no backward can reach, because the line is cut on the way to the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Cut, Leaf, Node
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.trails import cut_note, mode_note
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ..parameters._held import all_known, held
from ._hidden import hidden
from ._mending import mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event, cut, leaves, made in untrained(flow):
        other = _elsewhere(flow, event, cut)
        if other:
            yield _wrong_module(flow, event, cut, leaves, made, other)
        else:
            yield _finding(flow, event, cut, leaves, made)


def untrained(flow: Flow) -> Iterator[tuple[events.Backward, Cut, list[Leaf], Place]]:
    """The backwards whose line is cut, the cut to blame, the leaves behind it that nothing else reaches, and where the
    optimizer that holds them was made."""
    if not flow.whole or not flow.complete:
        return
    backwards = [event for event in flow.of(events.Backward) if not event.grad]
    if not backwards or any(not _known(event) for event in backwards):
        return
    reached = {id(leaf) for event in flow.of(events.Backward) for leaf in event.reached}
    for node in flow.handed:
        if isinstance(node, Node):
            found = walk(node)
            reached |= {id(leaf) for leaf in (*found.sure, *found.maybe)}
    idle = _idle(flow, reached)
    if not idle:
        return
    explained = {id(backward) for _, stopped in hidden(flow) for backward in stopped}
    for event in backwards:
        if not event.reached or id(event) in explained:
            continue  # nothing at all is reached, or a leaf that hides this: other rules say it
        told: set[int] = set()
        for cut, leaves in sorted(_lost(event, reached), key=_blame):
            wanted = [leaf for leaf in leaves if id(leaf) in idle and id(leaf) not in told]
            if not wanted:
                continue
            told |= {id(leaf) for leaf in wanted}
            yield event, cut, wanted, idle[id(wanted[0])]


def _elsewhere(flow: Flow, event: events.Backward, cut: Cut) -> list[Leaf]:
    """What the loss trains in place of what the optimizers hold: parameters that none of them has.

    Nothing, if a gradient reaches something that an optimizer holds, if it is not known what one holds, or if the
    parameters stand behind the cut (`critic(generator(x).detach())`) and not beside it (a target): then the cut is to
    blame, and not the optimizer.
    """
    meeting = [node for node in event.nodes if cut in node.cuts]
    if not meeting or not all(any(source.leaf is None for source in node.inputs) for node in meeting):
        return []
    if not all_known(flow) or any(one.optimizer.cells.get("escaped") for one in flow.of(events.OptimizerMade)):
        return []
    taken = held(flow)
    reached = [leaf for backward in flow.of(events.Backward) for leaf in backward.reached]
    if any(leaf in taken for leaf in reached) or any(not one.exact for one in flow.of(events.OptimizerMade)):
        return []
    return [
        leaf
        for leaf in event.reached
        if leaf.kind in ("weights", "parameter")
        and leaf.cells.get("requires_grad") is True
        and not any(leaf.cells.get(why) for why in ("escaped", "kept-by-hand", "grad-read"))
    ]


def _wrong_module(
    flow: Flow, event: events.Backward, cut: Cut, leaves: list[Leaf], made: Place, other: list[Leaf]
) -> Finding:
    """The optimizer was given one module, and the loss trains another one."""
    optimizer = next(one for one in flow.of(events.OptimizerMade) if one.place == made)
    mode = cut.mode
    place = mode.place if mode is not None and mode.place is not None else cut.place
    note = mode_note(mode) if mode is not None else cut_note(cut)
    return Finding(
        "", "", RULE.severity, optimizer.argument_place or made,
        say("the optimizer holds {names}, which no backward reaches; the loss reaches {other}, which no optimizer holds",
            names=flow.names(leaves), other=flow.names(other)),
        (Step(event.value_place, say("this loss reaches what no optimizer holds")), Step(place, note)),
        data=(("blame", "optimizer"),),
    )  # fmt: skip


def _finding(flow: Flow, event: events.Backward, cut: Cut, leaves: list[Leaf], made: Place) -> Finding:
    mode = cut.mode
    place = mode.place if mode is not None and mode.place is not None else cut.place
    names = flow.names(leaves)
    note = mode_note(mode) if mode is not None else cut_note(cut)
    return Finding(
        "", "", RULE.severity, place,
        say("{note}; the optimizer holds what comes before ({names}), and no backward reaches it",
            note=note, names=names),
        (
            *((Step(cut.place, say("here the line is lost")),) if place != cut.place else ()),
            Step(event.value_place, say("the only way back from this loss leads through the cut")),
            Step(made, say("this optimizer holds the parameters")),
        ),
    )  # fmt: skip


# Sampling, comparing and choosing give indices and masks by nature: another cut before the same parameters is likelier
# to be the one that was not meant.
_BY_NATURE = (".sample()", "used as an index", "argmax", "multinomial", "==", "!=", "<", "<=", ">", ">=")


def _blame(found: tuple[Cut, list[Leaf]]) -> tuple[bool, int]:
    """The order in which cuts are blamed: what is no choice by nature first, then what stands next to the loss."""
    cut, _ = found
    return cut.how in _BY_NATURE, -cut.place.start


def _known(event: events.Backward) -> bool:
    from ...facts import Tensor

    return isinstance(event.value, Tensor) and not event.opaque


def _idle(flow: Flow, reached: set[int]) -> dict[int, Place]:
    """The leaves that an optimizer which steps was given, that should train and that nothing reaches."""
    stepping = {id(event.optimizer) for event in flow.of(events.Step)}
    found: dict[int, Place] = {}
    for event in flow.of(events.OptimizerMade):
        if id(event.optimizer) not in stepping or event.optimizer.cells.get("escaped"):
            continue
        for leaf in event.leaves:
            cells = leaf.cells
            if id(leaf) in reached or cells.get("requires_grad") is not True or cells.get("escaped"):
                continue
            if not cells.get("kept-by-hand"):
                found[id(leaf)] = event.place
    return found


def _lost(event: events.Backward, reached: set[int]) -> Iterable[tuple[Cut, list[Leaf]]]:
    """The cuts before a loss, and the leaves behind each that are reached in no other way."""
    cuts = list(event.cuts)
    for node in event.zero:
        if node.place is not None:
            cuts.append(Cut(node.op, "zero", node.place, node.inputs, stack=node.stack))
    seen: set[int] = set()
    while cuts:
        cut = cuts.pop()
        if id(cut) in seen:
            continue
        seen.add(id(cut))
        leaves: list[Leaf] = []
        for source in cut.sources:
            found = walk(source)
            leaves += [leaf for leaf in (*found.sure, *found.maybe) if id(leaf) not in reached]
            cuts.extend(found.cuts)
        if leaves and cut.kind != "checkpoint":  # reentrant-checkpoint says that
            yield cut, leaves


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back. Never safe: only the author knows whether these parameters are meant to train.

    Needs: the place is the cut (`h.detach()`, `torch.no_grad()`). Where the optimizer got the wrong module there is none.
    """
    if finding.get("blame") == "optimizer":
        return None
    mended = mend(context, finding.trail[-2].place, [finding.place])
    return None if mended is None else Fix(mended.message, Applicability.UNSAFE, mended.edits)


RULE = Rule(code="GL104", severity=Severity.WARNING, check=check)
