"""How a loss was put together: the sums and factors between it and the means that it consists of."""

from __future__ import annotations

from collections.abc import Iterator

from ...facts import Const, Node, Tensor, Value
from ...flow import events

GLUE = frozenset({"+", "-", "*", "/", "add", "sub", "mul", "div", "neg", "positive", "scale"})
LIMIT = 200  # nodes of the formula; losses have a dozen


def _formula(event: events.Backward) -> Iterator[Node]:
    """The nodes of the arithmetic at the loss's end, and below it the first that are something else."""
    value = event.value
    todo = [value.node] if isinstance(value, Tensor) and value.node is not None else []
    seen: set[int] = set()
    while todo and len(seen) < LIMIT:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node.op in GLUE or node.phi:
            todo.extend(node.inputs)


def divisors(event: events.Backward) -> list[Value]:
    """The numbers by which the loss, or a part of it, was multiplied or divided."""
    return [node.by for node in _formula(event) if node.by is not None]


def averages(event: events.Backward) -> bool:
    """Whether every part of the loss is surely a mean over its batch."""
    parts = [node for node in _formula(event) if node.op not in GLUE and not node.phi]
    return bool(parts) and all(node.average for node in parts)


def same_number(one: Value, other: Value) -> bool:
    """Whether two numbers may be the same as far as is known: equal constants, or both not known."""
    if isinstance(one, Const) and isinstance(other, Const):
        return one.value == other.value
    return not isinstance(one, Const) and not isinstance(other, Const)
