"""The model inside `DistributedDataParallel` is called directly: gradients are not averaged over the processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import External, Leaf, Object, Value
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.tensors import flatten
from ...rule import Rule
from .._graph import below

if TYPE_CHECKING:
    from ...flow import Flow

DDP = "torch.nn.parallel.DistributedDataParallel"


def check(flow: Flow) -> Iterable[Finding]:
    wrappers = [obj for obj in flow.objects if isinstance(obj.cls, External) and obj.cls.name == DDP]
    if flow.run is None or not wrappers:
        return
    wrapped: list[tuple[Object, Object, set[Leaf]]] = []
    for wrapper in wrappers:
        inner = wrapper.attrs.get("module")
        if isinstance(inner, Object) and not inner.cells.get("escaped"):
            wrapped.append((wrapper, inner, set(leaves_of(flow.run, inner)[0])))
    for index, event in enumerate(flow.events):
        if not isinstance(event, events.Backward) or event.grad:
            continue
        for wrapper, inner, leaves in wrapped:
            if not leaves & set(event.reached) or any(leaf.cells.get("grad-read") for leaf in leaves):
                continue  # the gradients are looked at: they may be averaged by hand
            found = _past(flow.events[:index], event, wrapper, inner)
            if found is not None:
                reads = [
                    e.place for e in flow.events[:index] if isinstance(e, events.Unwrapped) and e.wrapper is wrapper
                ]
                yield Finding(
                    "", "", RULE.severity, reads[-1] if reads else found,
                    "this goes past DistributedDataParallel: the gradients are not averaged, and each process trains alone",
                    tuple(_trail(event, wrapper)),
                )  # fmt: skip


def _past(before: list[events.Event], backward: events.Backward, wrapper: Object, inner: Object) -> Place | None:
    """Where the inner model was called for this loss, if the loss surely does not come through the wrapper."""
    graph = below(backward.value)
    place = None
    for event in before:
        if isinstance(event, events.Forward) and event.module is wrapper:
            nodes = _nodes(event.result)
            if nodes is None or nodes & graph:
                return None
        elif (
            isinstance(event, events.Forward)
            and event.module is inner
            and event.mode is not None
            and event.mode.records
        ):
            nodes = _nodes(event.result)
            if nodes is None or nodes & graph:
                place = event.place
        elif isinstance(event, events.Made) and event.obj is wrapper:
            place = None  # what came before the model was wrapped does not count
    return place


def _nodes(result: Value | None) -> set[int] | None:
    """The graph nodes in the result of a call; None if something in it is not known."""
    found: set[int] = set()
    for value in flatten(result):
        node = getattr(value, "node", None)
        if node is None and not getattr(value, "certain", False):
            return None
        if node is not None:
            found.add(id(node))
    return found


def _trail(backward: events.Backward, wrapper: Object) -> Iterable[Step]:
    yield Step(backward.value_place, "this loss does not come through the wrapper")
    if wrapper.place is not None:
        yield Step(wrapper.place, "the model is wrapped here")


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call the wrapper.

    Needs: the place is what is called (`model.module`).
    """
    tree = context.tree(finding.place)
    inner: Any = tree and tree.exactly(finding.place, tree.cst.Attribute)
    if tree is None or inner is None or inner.attr.value != "module":
        return None
    return Fix("Call the wrapper", Applicability.SAFE, tree.unwrap(inner, inner.value))


RULE = Rule(code="GL603", severity=Severity.WARNING, check=check)
