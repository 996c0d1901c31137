"""`backward()` is called on a Python number: the loss was turned into one on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Const, Number
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._mending import mend

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        value = event.value
        if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
            value = Number()
        if not isinstance(value, Number) or event.guess:
            continue
        trail = ()
        if value.source is not None and value.source != event.value_place:
            trail = (Step(value.source, say("{how} makes a Python number of the tensor", how=f"`{value.how}`")),)
            bound = event.bound
            if bound is not None and not (
                bound.path == value.source.path and bound.start <= value.source.start < bound.end
            ):
                trail = (Step(bound, say("the name is given the number here")), *trail)
        loss = flow.code(event.value_place)
        message = say("{loss} is a Python number, and has no `backward()`: call it on the tensor", loss=loss)
        if value.how:
            message = say(
                "{loss} is a Python number that {how} made, and has no `backward()`: call it on the tensor",
                loss=loss,
                how=f"`{value.how}`",
            )
        yield Finding("", "", RULE.severity, event.value_place, message, trail)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Go backward from the tensor that the number was made of, or keep it a tensor.

    Needs: the place is the receiver of `backward`; the trail ends at the call that makes the number (`loss.item()`,
    `float(loss)`), and is empty if that is the receiver itself.
    """
    origin = finding.trail[-1].place if finding.trail else finding.place
    if (other := _tensor_at_hand(finding.place, origin, context)) is not None:
        name, edit = other
        return Fix(say("Go backward from {name}, which is still a tensor", name=name), Applicability.SAFE, (edit,))
    mended = mend(context, finding.place, [*(step.place for step in finding.trail[:-1]), origin])
    if mended is None:
        return None
    return Fix(mended.message, Applicability.SAFE if mended.safe else Applicability.UNSAFE, mended.edits)


def _tensor_at_hand(receiver: Place, origin: Place, context: FixContext) -> tuple[str, Edit] | None:
    """`value = loss.item()`, `value` wanted as a number elsewhere too, and `loss` still what it was: use `loss`."""
    if receiver.path != origin.path or context.scope(receiver) != context.scope(origin):
        return None
    tree = context.scope_tree(receiver)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.find(origin, cst.Call)
    used: Any = tree.find(receiver, cst.Name)
    if call is None or used is None or tree.place(used) != receiver or tree.place(call) != origin:
        return None
    made = call.func.value if isinstance(call.func, cst.Attribute) and not call.args else None
    assign = tree.parent(call)
    if not isinstance(made, cst.Name) or not isinstance(assign, cst.Assign) or made.value == used.value:
        return None
    others = [name for name in tree.names(tree.module) if name.value == used.value]
    if len(others) <= 2 or _bound_between(tree, made.value, origin.end, receiver.start):
        return None
    return made.value, tree.replace(used, made.value)


def _bound_between(tree: Tree, name: str, start: int, end: int) -> bool:
    """Whether the name may be given another value, or be gone, between two places of one unit."""
    cst = tree.cst
    stores = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.AsName, cst.NamedExpr, cst.Del)
    for store in tree.nodes(*stores):
        target = getattr(store, "target", None) or getattr(store, "name", store)
        first, _ = tree.span(target)
        if start <= first < end and any(found.value == name for found in tree.names(target)):
            return True
    return False


RULE = Rule(code="GL101", severity=Severity.ERROR, check=check)
