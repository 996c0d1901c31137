"""Trails: from the place of a finding back to its origin, as steps that a reader can follow."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import Cut, Frames, Mode
from ..findings import Place, Step
from ..messages import Text, say
from .naming import shown_code

# A trail longer than this tells nobody anything; the origin is always kept.
TRAIL_LIMIT = 8


def cut_note(cut: Cut) -> Text:
    """What ends the line at a cut."""
    how = shown_code(cut.how)
    match cut.kind:
        case "detach":
            return say("{how} detaches the value from its graph here", how=how)
        case "data":
            return say("{how} gives the values without their graph", how=how)
        case "number":
            return say("{how} makes a Python number, which knows no graph", how=how)
        case "numpy":
            return say("{how} leaves torch for NumPy, which keeps no graph", how=how)
        case "rewrap":
            return say("{how} copies the values into a new tensor, without their graph", how=how)
        case "leaf":
            return say("{how} makes a new leaf and leaves the graph behind", how=how)
        case "zero":
            return say("the gradient of {how} is zero everywhere", how=how)
        case "grad":
            return say("{how} without `create_graph=True` gives constants", how=how)
        case "checkpoint":
            return say("a reentrant checkpoint needs a direct tensor argument that requires grad")
        case _ if cut.how == "used as an index":
            return say("an index has no gradient: the graph ends here")
        case _:
            return say("{how} has no gradient: the graph ends here", how=how)


def mode_note(mode: Mode) -> Text:
    """What a grad mode that is off does."""
    if mode.persistent:
        return say("{how} turns gradients off until somebody turns them on again", how=shown_code(mode.how))
    if mode.kind == "inference":
        return say(
            "{how} holds gradients off for what is computed under it, in inference mode", how=shown_code(mode.how)
        )
    return say("{how} holds gradients off for what is computed under it", how=shown_code(mode.how))


def cut_steps(cuts: Iterable[Cut], place: Place | None = None) -> tuple[Step, ...]:
    """One step for each place where the line ends; a step at `place` itself (the finding's) is left out."""
    steps: dict[Place, Step] = {}
    for cut in cuts:
        if cut.mode is not None and cut.mode.place is not None:
            step = Step(cut.mode.place, mode_note(cut.mode))
        elif cut.kind in ("mode", "inference"):
            continue
        else:
            step = Step(cut.place, cut_note(cut))
        steps.setdefault(step.place, step)
    if place is not None:
        steps.pop(place, None)
    return tuple(sorted(steps.values(), key=lambda s: s.place, reverse=True))[:TRAIL_LIMIT]


def import_steps(stack: Frames | None, base: Frames | None = None) -> tuple[Step, ...]:
    """The imports through which an origin was reached, outermost first."""
    steps: list[Step] = []
    while stack is not None and stack is not base:
        if stack.kind == "import":
            steps.append(Step(stack.place, say("{name} is imported here", name=stack.label.removeprefix("import "))))
        stack = stack.up
    return tuple(reversed(steps))


def call_steps(stack: Frames | None, base: Frames | None = None) -> tuple[Step, ...]:
    """The calls through which a place was reached, outermost first, beyond those shared with `base`."""
    shared = set()
    while base is not None:
        shared.add(id(base))
        base = base.up
    steps: list[Step] = []
    while stack is not None and id(stack) not in shared:
        if stack.kind == "call":
            steps.append(Step(stack.place, say("{name} is called here", name=stack.label)))
        stack = stack.up
    return tuple(reversed(steps))[-TRAIL_LIMIT:]
