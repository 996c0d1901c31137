"""An optimizer holds parameters that no backward can reach, because the line is cut on the way to the loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
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
    # One place cuts many lines: those of the layers of a list, or of all that is computed under one `no_grad`.
    found: dict[Place, tuple[events.Backward, Cut, list[Leaf], Place]] = {}
    for event, cut, leaves, made in untrained(flow):
        other = _elsewhere(flow, event, cut)
        if other:
            yield _wrong_module(flow, event, cut, leaves, made, other)
        else:
            found.setdefault(_place(cut), (event, cut, [], made))[2].extend(leaves)
    order = {
        id(leaf): i for i, leaf in enumerate(leaf for made in flow.of(events.OptimizerMade) for leaf in made.leaves)
    }
    for event, cut, leaves, made in found.values():
        yield _finding(flow, event, cut, sorted(leaves, key=lambda leaf: order.get(id(leaf), len(order))), made)


def _place(cut: Cut) -> Place:
    """What is to blame for a cut: it itself, or what holds gradients off."""
    mode = cut.mode
    return mode.place if mode is not None and mode.place is not None else cut.place


def untrained(flow: Flow, every: bool = False) -> Iterator[tuple[events.Backward, Cut, list[Leaf], Place]]:
    """The backwards whose line is cut, the cut to blame, the leaves behind it that nothing else reaches, and where the
    optimizer that holds them was made. `every`: the cuts before losses that are not meant to train them, too."""
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
    # Nothing at all is reached, or a leaf that hides this: other rules say it.
    cut_off = [
        (event, sorted(_lost(event, reached), key=_blame))
        for event in backwards
        if event.reached and id(event) not in explained
    ]
    trains = {} if every else _trains(flow, idle, cut_off)
    for event, lost in cut_off:
        told: set[int] = set()
        for cut, leaves in lost:
            wanted = [leaf for leaf in leaves if id(leaf) in idle and id(leaf) not in told]
            wanted = [leaf for leaf in wanted if event.place in trains.get(id(leaf), (event.place,))]
            if not wanted:
                continue
            told |= {id(leaf) for leaf in wanted}
            yield event, cut, wanted, idle[id(wanted[0])]


def _trains(
    flow: Flow, idle: dict[int, Place], cut_off: list[tuple[events.Backward, list[tuple[Cut, list[Leaf]]]]]
) -> dict[int, set[Place]]:
    """By leaf, where the backwards are that are meant to train it, of those that are cut off from it.

    An optimizer steps for the losses that went backward just before. Where that leaves several, one without `no_grad` and
    `detach` on its way is meant: targets and batches of fakes are cut off so for losses that are to train something else.
    """
    stepped: dict[Place, set[Place]] = {}  # where an optimizer was made -> the backwards that it has stepped for
    made = {id(event.optimizer): event.place for event in flow.of(events.OptimizerMade)}
    pending: set[Place] = set()
    steps = False
    for event in flow.among(events.Backward, events.Step):
        if isinstance(event, events.Backward) and not event.grad:
            pending = {event.place} if steps else pending | {event.place}
            steps = False
        elif isinstance(event, events.Step) and id(event.optimizer) in made:
            steps = True
            stepped.setdefault(made[id(event.optimizer)], set()).update(pending)
    ways: dict[int, dict[Place, bool]] = {}  # leaf -> backward -> whether it is cut off on purpose
    for event, lost in cut_off:
        for cut, leaves in lost:
            for leaf in leaves:
                if id(leaf) in idle:
                    way = ways.setdefault(id(leaf), {})
                    deliberate = cut.mode is not None or cut.kind in ("detach", "data")
                    way[event.place] = way.get(event.place, False) or deliberate
    found: dict[int, set[Place]] = {}
    for leaf, way in ways.items():
        near = {place: off for place, off in way.items() if place in stepped.get(idle[leaf], ())} or way
        found[leaf] = {place for place, off in near.items() if not off} or set(near)
    return found


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
    mode, place = cut.mode, _place(cut)
    note = mode_note(mode) if mode is not None else cut_note(cut)
    return Finding(
        "", "", RULE.severity, optimizer.argument_place or made,
        say("the optimizer holds {names}, which no backward reaches; the loss reaches {other}, which no optimizer holds",
            names=flow.names(leaves), other=flow.names(other)),
        (Step(event.value_place, say("this loss reaches what no optimizer holds")), Step(place, note)),
        data=(("blame", "optimizer"),),
    )  # fmt: skip


def _finding(flow: Flow, event: events.Backward, cut: Cut, leaves: list[Leaf], made: Place) -> Finding:
    mode, place = cut.mode, _place(cut)
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
        data=(("meant", _meant(event, cut)),),
    )  # fmt: skip


def _meant(event: events.Backward, cut: Cut) -> bool:
    """Whether the value was kept out of the graph on purpose, however the parameters behind it are to be trained: it is
    what another value is compared with (a target), or what a log-probability is multiplied with (an advantage)."""
    for node in event.nodes:
        if cut not in node.cuts or any(cut in source.cuts for source in node.inputs):
            continue  # it does not meet what has a graph here
        if node.op == "-" or node.op.rpartition(".")[2].lower().replace("_", "").endswith("loss"):
            return True
        if node.op in ("*", "/", "mul", "div") and any(
            any(word in below.op.lower() for word in _LOG_PROBABILITIES)
            for source in node.inputs
            for below in walk(source).nodes
        ):
            return True
    return False


# What gives the logarithm of a probability, or a loss that is one for each example.
_LOG_PROBABILITIES = ("log_prob", "log_softmax", "logsigmoid", "cross_entropy", "crossentropy", "nll")


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
            if not cells.get("kept-by-hand") and not cells.get("grad-changed"):
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
        sources, passed = list(cut.sources), set[int]()
        while sources:
            found = walk(sources.pop())
            leaves += [leaf for leaf in (*found.sure, *found.maybe) if id(leaf) not in reached]
            cuts.extend(found.cuts)
            # `x.round().long()`: what is rounded is behind the cut, too.
            sources += [source for node in found.zero if id(node) not in passed for source in node.inputs]
            passed |= {id(node) for node in found.zero}
        if leaves and cut.kind != "checkpoint":  # reentrant-checkpoint says that
            yield cut, leaves


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back. Never safe: only the author knows whether these parameters are meant to train.

    Needs: the place is the cut (`h.detach()`, `torch.no_grad()`). Where the optimizer got the wrong module there is none,
    and none where the cut is `meant`: without it another loss would be trained.
    """
    if finding.get("blame") == "optimizer" or finding.get("meant"):
        return None
    if (swapped := _swapped(finding, context)) is not None:
        return Fix(say("Swap the two: the gradient goes through what is added to"), Applicability.UNSAFE, swapped)
    mended = mend(context, finding.trail[-2].place, [finding.place])
    return None if mended is None else Fix(mended.message, Applicability.UNSAFE, mended.edits)


def _swapped(finding: Finding, context: FixContext) -> tuple[Edit, ...] | None:
    """`q + (z - q).detach()`, a straight-through estimator the wrong way round, becomes `z + (q - z).detach()`."""
    tree = context.scope_tree(finding.place)
    call: Any = tree and tree.exactly(finding.place, tree.cst.Call)
    if tree is None or call is None or not isinstance(call.func, tree.cst.Attribute):
        return None
    cst = tree.cst
    difference: Any = call.func.value
    total: Any = tree.parent(call)
    if call.func.attr.value != "detach" or not (
        isinstance(difference, cst.BinaryOperation)
        and isinstance(difference.operator, cst.Subtract)
        and isinstance(total, cst.BinaryOperation)
        and isinstance(total.operator, cst.Add)
    ):
        return None
    other = total.left if total.right is call else total.right
    value, kept = tree.code(difference.left), tree.code(difference.right)
    if tree.code(other) != kept:
        return None
    return tree.replace(other, value), tree.replace(difference.left, kept), tree.replace(difference.right, value)


RULE = Rule(code="GL104", severity=Severity.WARNING, check=check)
