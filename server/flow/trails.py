"""Trails: from the place of a finding back to its origin, as steps that a reader can follow."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts import Cut, Frames, Mode
from ..findings import Place, Step

# A trail longer than this tells nobody anything; the origin is always kept.
TRAIL_LIMIT = 8

_NOTES = {
    "detach": "{how} detaches the value from its graph here",
    "data": "{how} gives the values without their graph",
    "number": "{how} makes a Python number, which knows no graph",
    "numpy": "{how} leaves torch for NumPy, which keeps no graph",
    "rewrap": "{how} copies the values into a new tensor, without their graph",
    "leaf": "{how} makes a new leaf and leaves the graph behind",
    "op": "{how} has no gradient: the graph ends here",
    "zero": "the gradient of {how} is zero everywhere",
    "grad": "{how} without `create_graph=True` gives constants",
    "checkpoint": "a reentrant checkpoint needs a direct tensor argument that requires grad",
}


def cut_note(cut: Cut) -> str:
    how = cut.how if cut.how.endswith(")") or cut.how.startswith((".", "used")) else f"`{cut.how}`"
    return _NOTES[cut.kind].format(how=how)


def mode_note(mode: Mode) -> str:
    if mode.persistent:
        return f"{mode.how} turns gradients off until somebody turns them on again"
    if mode.kind == "inference":
        return f"{mode.how} holds gradients off for what is computed under it, in inference mode"
    return f"{mode.how} holds gradients off for what is computed under it"


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
            steps.append(Step(stack.place, f"{stack.label.removeprefix('import ')} is imported here"))
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
            steps.append(Step(stack.place, f"{stack.label} is called here"))
        stack = stack.up
    return tuple(reversed(steps))[-TRAIL_LIMIT:]
