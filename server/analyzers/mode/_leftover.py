"""A persistent switch of grad mode that a later backward meets: the fact that two rules tell from its two ends."""

from __future__ import annotations

from ...facts import Mode, Tensor
from ...flow import events


def left_off(event: events.Backward) -> tuple[Mode, bool] | None:
    """The switch that was in force when the loss was computed, and whether it surely was.

    Not surely: it is thrown on some way to the loss (a branch, an exception that is handled), and the backward itself
    is under no condition that could go along with it.
    """
    value = event.value
    if not isinstance(value, Tensor) or value.opaque:
        return None
    for cut in value.cuts:
        mode = cut.mode
        if mode is None or not mode.persistent or mode.place is None:
            continue
        if value.dead:
            return mode, True
        if not value.certain and event.always and cut.place == value.made:
            return mode, False
    return None
