"""The line of one value: where it is made and used, through what its gradient would go, and where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from .. import ir
from ..facts import Cut, Node, Number, Tensor, Union, Value
from ..findings import Place
from ..flow import events
from ..messages import tell
from .marks import nodes_of

if TYPE_CHECKING:
    from . import Insight

MADE, USED, CUT = "made", "used", "cut"  # kinds of uses
NODES_LIMIT = 2_000  # operations behind a value that are walked
STEPS_LIMIT = 100  # ... and that are listed


class Use(NamedTuple):
    """A place in the text that is about the value: where it gets its name, where that is read, where it is cut."""

    start: int
    end: int
    kind: str


class LineStep(NamedTuple):
    """A place on the line and what happens there."""

    place: Place
    note: str


class Line(NamedTuple):
    """`start` and `end` are those of the expression; `uses` are in its file, `steps` run from origins to ends."""

    start: int
    end: int
    uses: tuple[Use, ...]
    steps: tuple[LineStep, ...]


def line(insight: Insight, offset: int) -> Line | None:
    """The line of the value of the innermost expression at an offset; None if that is no tensor with a line."""
    word = next((found for found in insight.words() if found.word.start <= offset <= found.word.end), None)
    if word is not None and word.owner is not None:
        offset = word.owner[1]  # of `loss.item` the line of `loss`
    around = [span for span, _ in insight.spans() if span[0] <= offset <= span[1]]
    for start, end in sorted(around, key=lambda span: (span[1] - span[0], -span[0])):
        values = [value for seen in insight.looks(start, end) for one in seen.values for value in _line_values(one)]
        if values:
            return _line(insight, start, end, values)
        if offset < end:
            return None
    return None


def _line_values(value: Value) -> Iterator[Tensor | Number]:
    """The value, as far as it has, or had, a graph."""
    if isinstance(value, Union):
        for option in value.options:
            yield from _line_values(option)
    elif (isinstance(value, Tensor) and (value.node is not None or value.leaf is not None or value.cuts)) or (
        isinstance(value, Number) and value.cut is not None
    ):
        yield value


def _line(insight: Insight, start: int, end: int, values: list[Tensor | Number]) -> Line:
    own = {id(value) for value in values}
    nodes = {id(value.node): value.node for value in values if isinstance(value, Tensor) and value.node is not None}
    lost = dict.fromkeys(cut for value in values for cut in _cuts_of(value))
    behind = _behind([*nodes.values(), *(node for cut in lost for node in cut.sources)])

    def is_it(value: Value) -> bool:
        return id(value) in own or (isinstance(value, Tensor) and id(value.node) in nodes)

    uses: dict[tuple[int, int], str] = {(start, end): USED}
    made = set(insight.targets())
    for base, node in nodes_of(insight.units()):
        if type(node) is not ir.Name:
            continue
        first, last = ir.unpack(node.at)  # type: ignore[attr-defined]
        span = base + first, base + last
        looks = insight.looks(*span)
        if any(is_it(option) for seen in looks for value in seen.values for option in _line_values(value)):
            uses[span] = MADE if span in made else USED
    cuts = dict.fromkeys([*lost, *_cuts_after(insight, nodes)])
    for cut in cuts:
        if cut.place.path == insight.path:
            uses[_word_in(insight, cut.place)] = CUT
    walked = _backwards(insight, nodes)
    for event in walked:
        if event.place.path == insight.path:
            uses.setdefault(_word_in(insight, event.place), USED)
    steps: dict[Place, str] = {}
    names = insight.names()
    for node in sorted(behind, key=lambda node: node.leaf is None)[:STEPS_LIMIT]:
        if node.place is not None and node.leaf is not None:
            steps.setdefault(node.place, tell("{name} asks for a gradient", name=f"`{names.leaf(node.leaf)}`"))
        elif node.place is not None:
            steps.setdefault(node.place, tell("made by {op}", op=f"`{node.op}`"))
    for cut in cuts:
        steps[cut.place] = tell("cut by {how}", how=f"`{cut.how}`")
    for event in walked:
        steps[event.place] = tell("back-propagated")
    found = tuple(Use(first, last, kind) for (first, last), kind in sorted(uses.items()))
    return Line(start, end, found, tuple(LineStep(place, note) for place, note in steps.items()))


def _word_in(insight: Insight, place: Place) -> tuple[int, int]:
    """The word of a call that does it: `item` of `loss.item()`; the whole place where there is none."""
    inside = [f.word for f in insight.words() if place.start <= f.word.start and f.word.end <= place.end]
    return (inside[-1].start, inside[-1].end) if inside else (place.start, place.end)


def _cuts_of(value: Tensor | Number) -> tuple[Cut, ...]:
    if isinstance(value, Tensor):
        return value.cuts
    return (value.cut,) if value.cut is not None else ()


def _behind(nodes: list[Node]) -> list[Node]:
    """The operations that the nodes came from, the first ones first."""
    found: dict[int, Node] = {}
    todo = list(nodes)
    while todo and len(found) < NODES_LIMIT:
        node = todo.pop()
        if id(node) not in found:
            found[id(node)] = node
            todo += node.inputs
    return list(reversed(found.values()))


def _cuts_after(insight: Insight, nodes: dict[int, Node]) -> Iterator[Cut]:
    """Where what was made of the value has lost its graph."""
    for observed in insight.observed:
        for flow in observed.flows:
            for event in flow.of(events.Lost):
                if any(id(source) in nodes for source in event.cut.sources):
                    yield event.cut


def _backwards(insight: Insight, nodes: dict[int, Node]) -> list[events.Backward]:
    """The backward calls that go through the value."""
    return [
        event
        for observed in insight.observed
        for flow in observed.flows
        for event in flow.of(events.Backward)
        if any(id(node) in nodes for node in event.nodes)
    ]


__all__ = ["Line", "LineStep", "Use", "line"]
