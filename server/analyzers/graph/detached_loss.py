"""`backward()` starts from a tensor that has lost its graph: no parameter can get a gradient from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import UNKNOWN, Mapping, Sequence, Tensor, Value
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.trails import call_steps, cut_steps
from ...flow.training import parts_of
from ...messages import say
from ...rule import Rule
from ._mending import by_hand, mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if not isinstance(value, Tensor) or not value.dead or value.opaque:
            continue
        if not value.cuts:
            reason = _nothing_to_train(flow, event)
            if reason is not None:
                yield Finding(
                    "", "", RULE.severity, event.value_place,
                    say("nothing that {loss} is computed from requires grad: {call} raises",
                        loss=flow.code(event.value_place), call=event.how), reason,
                )  # fmt: skip
            continue
        if any(cut.mode is not None and cut.mode.persistent for cut in value.cuts):
            continue  # backward-under-grad-off says it
        trail: tuple[Step, ...] = cut_steps(value.cuts, event.value_place)
        mode = next((cut.mode for cut in value.cuts if cut.mode is not None), None)
        if mode is not None and mode.stack is not event.stack:
            # The mode was set by a caller: how it comes to hold here.
            trail = (*reversed(call_steps(event.stack, mode.stack)), *trail)
        elif mode is None and len(value.cuts) == 1:
            # A function that was called on the way cuts the line.
            trail = (*call_steps(value.cuts[0].stack, event.stack), *trail)
        yield Finding(
            "", "", RULE.severity, event.value_place,
            say("{loss} has lost its graph: {call} raises, since nothing can be reached from it",
                loss=flow.code(event.value_place), call=event.how)
            if event.grad
            else say("{loss} has lost its graph: `backward()` raises, since no parameter can be reached from it",
                     loss=flow.code(event.value_place)), trail,
        )  # fmt: skip


def _nothing_to_train(flow: Flow, backward: events.Backward) -> tuple[Step, ...] | None:
    """Why no gradient is asked of anything that the loss is computed from; None if one is, or that is not known."""
    made = list(flow.of(events.OptimizerMade))
    if not flow.whole or not flow.complete or flow.tainted:
        return None
    leaves = [leaf for event in made for leaf in event.leaves]
    before = flow.events[: flow.events.index(backward)]
    # Then it is all the same what the optimizers hold, if anything: one that got nothing has raised.
    called = _only_frozen(flow, before) if leaves or not made else None
    if called is None and any(
        leaf.cells.get("requires_grad") is not False or leaf.cells.get("escaped") for leaf in leaves
    ):
        return None
    if called is None and not leaves:
        plain = next((t for event in made for value in event.arguments for t in _plain(value)), None)
        if plain is not None:
            return (Step(plain, say("the optimizer holds this, which does not require grad")),)
        return () if not made and backward.always and not backward.branches else None
    for event in reversed(before):
        frozen = isinstance(event, events.GradFlag) and event.value is False
        if frozen or (isinstance(event, events.Called) and event.name == "Module.requires_grad_"):
            off = Step(event.place, say("this turns the parameters' gradients off"))
            return (Step(called.place, say("a frozen model is called here")), off) if called is not None else (off,)
    return None


def _only_frozen(flow: Flow, before: list[events.Event]) -> events.Forward | None:
    """The last call of a frozen module, if none but such were called since the last backward, and with gradients on."""
    called: list[events.Forward] = []
    for event in reversed(before):
        if isinstance(event, events.Backward) and not event.grad:
            break
        if isinstance(event, events.Forward) and event.inside is None:
            called.append(event)
    dead = all(
        isinstance(event.result, Tensor) and event.result.dead and not event.result.cuts and not event.result.opaque
        and event.mode is not None and event.mode.records
        for event in called
    )  # fmt: skip
    if not called or not dead or flow.run is None:
        return None
    held = [leaves_of(flow.run, event.module) for event in called]
    if not all(exact for _, exact in held):
        return None  # other code may have put something into a module that trains
    frozen = (any(leaf.cells.get("requires_grad") is False for leaf in leaves) for leaves, _ in held)
    return next((event for event, one in zip(called, frozen, strict=True) if one), None)


def _plain(value: Value, depth: int = 3) -> Iterator[Place]:
    """Where the tensors in a value were made that surely require no grad."""
    if isinstance(value, Tensor):
        if value.dead and not value.opaque and value.leaf is None and value.made is not None:
            yield value.made
    elif isinstance(value, Mapping):
        yield from _plain(value.cells.get(("key", "params"), UNKNOWN), depth - 1)  # type: ignore[arg-type]
    elif isinstance(value, Sequence) and depth:
        for part in parts_of(value):
            yield from _plain(part, depth - 1)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the cut back.

    Needs: the place is the receiver of `backward`; each cut on the way is a step of the trail, and the origin is the
    last: the whole call (`pred.detach()`, `torch.tensor(losses)`), the attribute (`pred.data`), or the context manager
    (`torch.no_grad()` in the `with` or the decorator). The trail is empty if the receiver is the cut. Where the cut
    is that of an update by hand (`w = w - lr * w.grad`), the update stays in it and is made in place.
    """
    places = [step.place for step in finding.trail] or [finding.place]
    updates = by_hand(context, places[-1])
    if updates is not None:
        # Out of the graph is right for an update; what it must not do is to make another tensor.
        return Fix(say("Update it in place"), Applicability.SAFE, updates) if updates else None
    mended = mend(context, finding.place, places)
    if mended is None:
        return None
    return Fix(mended.message, Applicability.SAFE if mended.safe else Applicability.UNSAFE, mended.edits)


RULE = Rule(code="GL102", severity=Severity.ERROR, check=check)
