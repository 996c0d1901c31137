"""A tensor that requires grad is given to NumPy, which raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Cut, Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...flow.trails import call_steps
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole and not any(_surely(event) for event in flow.of(events.Backward)):
        return  # a caller that is not known may have turned gradients off, and then it is right
    for event in flow.of(events.Raised):
        if event.rule != "numpy-of-grad":
            continue
        code, trail = flow.code(event.place), call_steps(event.stack)
        if _in_loss(flow, event.data.get("cut")):
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} gives NumPy a tensor that requires grad, which raises; the result goes into the loss: with "
                    "`.detach()` it would have no gradient, with functions of torch it has one", code=code),
                trail, data=(("goes", "loss"),),
            )  # fmt: skip
        else:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} gives NumPy a tensor that requires grad, which raises: `.detach()` it before", code=code), trail,
                data=(("goes", "list"),) if event.data.get("several") else (),
            )  # fmt: skip


def _surely(backward: events.Backward) -> bool:
    """Whether a backward reaches parameters on every way through the code: then gradients are on."""
    return bool(backward.reached) and backward.always and not backward.branches


def _in_loss(flow: Flow, cut: object) -> bool:
    """Whether what NumPy makes of the tensor is part of what is back-propagated."""
    if not isinstance(cut, Cut):
        return False
    for event in flow.of(events.Backward):
        if cut in event.cuts or (isinstance(event.value, Tensor) and cut in event.value.cuts):
            return True
    return any(cut in event.cuts for event in flow.of(events.DeadTerm))


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Detach it before. What raised had no effect, so this takes nothing away; where the result goes into the loss, it is
    no remedy. Tensors of a list are best detached where they are put into it.

    Needs: the place is the call: of the method (`x.numpy()`, `x.cpu().numpy()`), or of NumPy's function (`np.array(x)`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None or finding.get("goes"):
        return None
    cst = tree.cst
    call = tree.exactly(finding.place, cst.Call)
    if call is None:
        return None
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("numpy", "__array__"):
        given: Any = call.func.value
        while _only_moves(tree, given):
            given = given.func.value
        safety = Applicability.SAFE
    elif len(call.args) >= 1 and call.args[0].keyword is None and not call.args[0].star:
        given = call.args[0].value
        # NumPy takes lists and arrays, too, and these have nothing to detach.
        safety = Applicability.UNSAFE if tree.varies(given) else Applicability.SAFE
    else:
        return None
    if isinstance(given, (cst.List, cst.Tuple, cst.ListComp, cst.GeneratorExp)):
        return None
    start, end = tree.outer_span(given)
    loose = (cst.BinaryOperation, cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.IfExp, cst.Lambda)
    edits = [Edit(tree.path, end, end, ".detach()")]
    if isinstance(given, loose) and not given.lpar:
        edits = [Edit(tree.path, start, start, "("), Edit(tree.path, end, end, ").detach()")]
    return Fix(say("Detach it first"), safety, tuple(edits))


def _only_moves(tree: Tree, node: Any) -> bool:
    cst = tree.cst
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == "cpu"
        and not node.args
    )


RULE = Rule(code="GL111", severity=Severity.ERROR, check=check)
