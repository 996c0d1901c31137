"""What several rules on the training step ask of a flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...facts import Leaf, Node, Object, Writes
from ...findings import Place
from ...flow import events
from ...flow.training import optimizer_leaves, walk

if TYPE_CHECKING:
    from ...flow import Flow


def hidden(flow: Flow) -> frozenset[Leaf]:
    """Leaves that code which is not followed may have given a gradient: it got a tensor that reaches them."""
    known = flow.__dict__.get("_hidden")
    if known is None:
        found: set[Leaf] = set()
        for node in flow.handed:
            if isinstance(node, Node):
                below = walk(node)
                found.update(below.sure, below.maybe)
        known = flow.__dict__["_hidden"] = frozenset(found)
    return known


def followed(flow: Flow, leaves: Iterable[Leaf]) -> bool:
    """Whether everything that happens to these leaves is known."""
    out = hidden(flow)
    return not any(leaf.cells.get("escaped") or leaf in out for leaf in leaves)


def known(flow: Flow, optimizer: Object) -> bool:
    """Whether everything that happens to this optimizer and its leaves is known."""
    return not optimizer.cells.get("escaped") and followed(flow, optimizer_leaves(optimizer))


def written(leaf: Leaf) -> bool:
    """Whether the program changes the leaf's values by hand."""
    writes = leaf.storage.cells.get("writes")
    return isinstance(writes, Writes) and bool(writes.places or not writes.exact)


def not_called(flow: Flow, owner: Object, name: str) -> bool:
    """Whether the program names `owner.name` somewhere without calling it: then that is the mistake."""
    return any(event.owner is owner and event.name == name for event in flow.of(events.NotCalled))


def backward_of(flow: Flow, place: Place) -> events.Backward | None:
    """The backward call at a place."""
    return next((event for event in flow.of(events.Backward) if event.place == place), None)
