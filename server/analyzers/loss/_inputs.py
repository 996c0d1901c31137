"""What goes into a loss: the calls of a loss function or class, and what its input was made by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ...facts import Node, Tensor, Value
from ...findings import Place
from ...flow import events
from ...flow.modules import library_class

if TYPE_CHECKING:
    from ...flow import Flow

# These only change the shape, the device or the number of bits: what went in is what comes out.
PLAIN = frozenset(
    [
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "flatten",
        "permute",
        "transpose",
        "t",
        "contiguous",
        "to",
        "cuda",
        "cpu",
        "float",
        "double",
        "half",
        "bfloat16",
        "view_as",
        "reshape_as",
        "expand",
        "expand_as",
        "unflatten",
        "movedim",
        "swapaxes",
        "type",
        "type_as",
        "[...]",
        "clone",
        "Flatten",
        "Identity",
    ]
)
DEPTH = 8


class Use(NamedTuple):
    """One call of a loss."""

    place: Place
    input: Value
    target: Value
    result: Value
    arg_places: tuple[Place, ...] = ()


def uses(flow: Flow, functions: frozenset[str], classes: frozenset[str]) -> Iterator[Use]:
    """The calls of these loss functions, and of instances of these classes."""
    for called in flow.called(*functions):
        values = called.args
        first = values[0] if values else called.keywords.get("input")
        second = values[1] if len(values) > 1 else called.keywords.get("target")
        if first is not None and second is not None and called.result is not None:
            yield Use(called.place, first, second, called.result, called.arg_places)
    for event in flow.forwards(*classes):
        values = event.args
        if len(values) > 1 and event.result is not None:
            yield Use(event.place, values[0], values[1], event.result, event.arg_places)


def _layer(flow: Flow, node: Node) -> Place | None:
    """Where the layer was made, if it is one of a `Sequential`: in its call it can't be seen."""
    chains = {event.place for event in flow.of(events.Forward) if library_class(event.module) == "torch.nn.Sequential"}
    for event in flow.of(events.Forward):
        if isinstance(event.result, Tensor) and event.result.node is node and event.place in chains:
            return event.module.place
    return None


def made_by(flow: Flow, value: Value, ops: frozenset[str]) -> Place | None:
    """Where the operation stands, one of `ops`, whose result the value is (but for its shape); None if it is another."""
    if not isinstance(value, Tensor) or not value.live:
        return None
    node: Node | None = value.node
    for _ in range(DEPTH):
        if node is None or node.phi:
            return None
        if node.op in ops:
            return _layer(flow, node) or node.place
        if node.op not in PLAIN or len(node.inputs) != 1:
            return None
        node = node.inputs[0]
    return None
