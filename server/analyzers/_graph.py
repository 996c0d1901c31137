"""What rules of several families ask of the abstract autograd graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts import WALK_LIMIT, Node, Value
from ..flow import events

if TYPE_CHECKING:
    from ..flow import Flow


def below(value: Value | Node | None) -> set[int]:
    """The identities of every node that a backward from this value may meet, without the leaves."""
    node = value if isinstance(value, Node) else getattr(value, "node", None)
    seen: set[int] = set()
    todo = [node] if isinstance(node, Node) else []
    while todo and len(seen) < WALK_LIMIT:
        node = todo.pop()
        if node.leaf is None and id(node) not in seen:
            seen.add(id(node))
            todo.extend(node.inputs)
    return seen


def wanted(flow: Flow) -> set[int]:
    """The identities of every node that some backward may meet, or that code which is not followed has got."""
    known = flow.__dict__.get("_wanted")
    if known is None:
        known = set()
        for event in flow.of(events.Backward):
            known |= below(event.value)
        for node in flow.handed:
            known |= below(node) if isinstance(node, Node) else set()
        flow.__dict__["_wanted"] = known
    return known
