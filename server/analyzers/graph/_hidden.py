"""Losses that were made leaves of their own: what hides the error of a lost graph, and the backwards that stop there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...facts import SCALAR, Leaf, Node, Tensor
from ...flow import events
from ...flow.training import walk

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
        unused = flow.whole and flow.complete and _unused(flow, event, value)
        if backwards := [one for one in flow.of(events.Backward) if _stops_at(one, event, unused)]:
            yield event, backwards


def _unused(flow: Flow, event: events.GradFlag, value: Tensor) -> bool:
    """Whether nobody wants the gradient of the leaf that the flag made, and an optimizer holds what is behind its cuts
    and nothing else reaches: images are leaves rightly, whose gradient is read, and latents, which are optimized."""
    leaves = {id(leaf): leaf for made in flow.of(events.OptimizerMade) for leaf in made.leaves}
    optimized = leaves.keys()
    held = optimized - {id(leaf) for backward in flow.of(events.Backward) for leaf in backward.reached}
    held = {one for one in held if not leaves[one].cells.get("grad-changed")}  # a gradient is put there by hand
    lost = any(id(leaf) in held for cut in value.cuts for node in cut.sources for leaf in leaves_below(node))
    for backward in flow.of(events.Backward):
        for leaf in backward.reached:
            wanted = backward.grad or leaf.cells.get("grad-read") or leaf.cells.get("escaped") or id(leaf) in optimized
            if leaf.place == event.place and wanted:
                return False
    return lost


def leaves_below(node: Node) -> list[Leaf]:
    found = walk(node)
    return [*found.sure, *found.maybe]


def _stops_at(backward: events.Backward, event: events.GradFlag, unused: bool) -> bool:
    """Whether what the flag made is all that this backward reaches, and is its loss, or what nobody wants a gradient of."""
    value = backward.value
    if (
        backward.grad
        or not isinstance(value, Tensor)
        or not any(leaf.place == event.place for leaf in backward.reached)
    ):
        return False
    if any(leaf.kind != "tensor" for leaf in backward.reached):
        return False
    if unused:
        return True
    made = event.before
    return (value.leaf is not None and value.leaf.place == event.place) or (made is not None and made.rank == SCALAR)
