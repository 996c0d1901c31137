"""Losses that were made leaves of their own: what hides the error of a lost graph, and the backwards that stop there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...facts import SCALAR, Tensor
from ...flow import events

if TYPE_CHECKING:
    from ...flow import Flow


def hidden(flow: Flow) -> Iterator[tuple[events.GradFlag, list[events.Backward]]]:
    """The flags that make a new leaf of a value that has lost its graph, with the backwards of which it is the loss."""
    for event in flow.of(events.GradFlag):
        value = event.before
        if event.value is not True or value is None or value.opaque or not value.certain or value.leaf is not None:
            continue
        if value.node is not None and not event.how.startswith("Variable"):
            continue
        if not value.cuts and value.node is None:
            continue  # plain data may be made a leaf
        if backwards := [backward for backward in flow.of(events.Backward) if _stops_at(backward, event)]:
            yield event, backwards


def _stops_at(backward: events.Backward, event: events.GradFlag) -> bool:
    """Whether what the flag made is back-propagated as the loss, and not as an input: images and latents are leaves
    rightly."""
    value = backward.value
    if backward.grad or not isinstance(value, Tensor) or not any(leaf.place == event.place for leaf in backward.reached):
        return False
    if any(leaf.kind != "tensor" for leaf in backward.reached):
        return False
    made = event.before
    return (value.leaf is not None and value.leaf.place == event.place) or (made is not None and made.rank == SCALAR)
