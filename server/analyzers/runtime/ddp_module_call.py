"""The model inside `DistributedDataParallel` is called directly: gradients are not averaged over the processes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import External, Leaf, Object, Value
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...flow.operations import flatten
from ...messages import say
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
            if not _past(flow.events[:index], event, wrapper):
                continue
            place = event.value_place
            for earlier in flow.events[:index]:
                if (isinstance(earlier, events.Unwrapped) and earlier.wrapper is wrapper) or (
                    isinstance(earlier, events.Forward) and earlier.module is inner and place == event.value_place
                ):
                    place = earlier.place
            yield Finding(
                "", "", RULE.severity, place,
                say("{code} goes past DistributedDataParallel: the gradients are not averaged, and each process "
                    "trains alone", code=flow.code(place)),
                tuple(_trail(event, wrapper, place)),
                data=(("whole", leaves <= set(event.reached)),),
            )  # fmt: skip


def _past(before: list[events.Event], backward: events.Backward, wrapper: Object) -> bool:
    """Whether the loss surely does not come through the wrapper, although there was one."""
    graph = below(backward.value)
    if not any(isinstance(event, events.Made) and event.obj is wrapper for event in before):
        return False
    for event in before:
        if isinstance(event, events.Forward) and event.module is wrapper:
            nodes = _nodes(event.result)
            if backward.opaque or nodes is None or nodes & graph:
                return False
    return True


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


def _trail(backward: events.Backward, wrapper: Object, place: Place) -> Iterable[Step]:
    if place != backward.value_place:
        yield Step(backward.value_place, say("this loss does not come through the wrapper"))
    if wrapper.place is not None:
        yield Step(wrapper.place, say("the model is wrapped here"))


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call the wrapper.

    Needs: the place is what is called (`model.module`). It is safe if the backward reaches every parameter (`whole`): the
    wrapper raises where some get no gradient; and if no caller can give something else that has a `module`.
    """
    tree = context.tree(finding.place)
    inner: Any = tree and tree.exactly(finding.place, tree.cst.Attribute)
    if tree is None or inner is None or inner.attr.value != "module":
        return None
    if not isinstance(tree.parent(inner), tree.cst.Call):
        return None  # another method of the model, which the wrapper has not
    scope = context.scope_tree(finding.place)
    same: Any = scope and scope.exactly(finding.place, scope.cst.Attribute)
    sure = finding.get("whole") and scope is not None and same is not None and not scope.varies(same)
    safety = Applicability.SAFE if sure else Applicability.UNSAFE
    return Fix(say("Call the wrapper"), safety, tree.unwrap(inner, inner.value))


RULE = Rule(code="GL603", severity=Severity.WARNING, check=check)
