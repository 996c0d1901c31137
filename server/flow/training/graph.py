"""The graph that a backward walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...facts import WALK_LIMIT, Cut, Leaf, Node, Tensor
from ..operations import graph_of

if TYPE_CHECKING:
    pass


@dataclass
class Walk:
    """What a backward from some node meets."""

    sure: list[Leaf]
    maybe: list[Leaf]
    nodes: list[Node]  # surely met, in order from the loss
    cuts: list[Cut]
    opaque: bool
    zero: list[Node]
    errors: list[Node]


def walk(start: Node | None, limit: int = WALK_LIMIT) -> Walk:
    """The graph below a node. Behind a `phi` nothing is sure; behind a `zero` node gradients are exactly zero."""
    found = Walk([], [], [], [], False, [], [])
    if start is None:
        return found
    seen: dict[int, bool] = {}
    todo: list[tuple[Node, bool]] = [(start, True)]
    while todo:
        node, sure = todo.pop()
        before = seen.get(id(node))
        if before is True or before is sure:
            continue
        if len(seen) > limit:
            found.opaque = True
            break
        seen[id(node)] = sure
        found.opaque = found.opaque or node.opaque
        if node.leaf is not None:
            (found.sure if sure else found.maybe).append(node.leaf)
            continue
        if before is None:
            found.cuts.extend(node.cuts)
        if node.zero:
            found.zero.append(node)
            continue
        if sure:
            found.nodes.append(node)
            if node.error:
                found.errors.append(node)
        inner = sure and not node.phi
        todo.extend((n, inner) for n in node.inputs)
    found.maybe = [leaf for leaf in found.maybe if leaf not in found.sure]
    return found


def sure_graph(tensor: Tensor) -> bool:
    """Whether it is known which leaves the tensor reaches."""
    node, sure = graph_of(tensor)
    return sure and not tensor.opaque and not (node is not None and walk(node).opaque)


# The parts of the interpreter know each other: these come when this one is complete.
