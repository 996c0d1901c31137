"""A tensor that backward needs was changed in place after it was saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._carried import let_go

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        if not event.changed:
            continue
        own = any(one.place == event.changed[0][1] and one.leaf is not None for one in flow.of(events.InPlace))
        node, place = event.changed[0]
        trail = [Step(event.value_place, say("this backward needs the value as it was, and raises"))]
        if node.place is not None:
            trail.append(Step(node.place, say("{op} has saved it for backward here", op=f"`{node.op}`")))
        yield Finding(
            "", "", RULE.severity, place,
            say("{code} changes a tensor in place that the backward of {loss} needs as it was, and which then "
                "raises", code=flow.code(place), loss=flow.code(event.value_place)), tuple(trail), data=(("parameter", own),),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make a new tensor instead.

    Needs: the place is what changes it: the statement (`out += x`), the call (`h.mul_(2)`, `optimizer.step()`), or the
    call that makes the layer (`nn.ReLU(inplace=True)`); the trail begins with the receiver of the backward. There is none
    for a parameter that is written: a new tensor would be no parameter.
    """
    if finding.get("parameter"):
        return None
    place = finding.place
    tree = context.scope_tree(place)
    if tree is None:
        return None
    cst = tree.cst
    node: Any = tree.exactly(place, cst.AugAssign, cst.Call)
    if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
        value: Any = node.value
        code, operator = tree.code(value), tree.code(node.operator).strip().removesuffix("=")
        if isinstance(value, (cst.BinaryOperation, cst.IfExp, cst.Comparison)) and not value.lpar:
            code = f"({code})"
        text = f"{node.target.value} = {node.target.value} {operator} {code}"
        return Fix(say("Make a new tensor"), Applicability.SAFE, (tree.replace(node, text),))
    if not isinstance(node, cst.Call):
        return None
    if isinstance(node.func, cst.Attribute) and node.func.attr.value == "step":
        loss = tree.exactly(finding.trail[0].place, cst.BaseExpression)
        return None if loss is None else let_go(tree, context, loss, finding)
    flags = [arg for arg in node.args if arg.keyword is not None and arg.keyword.value == "inplace"]
    if not flags and node.args and node.args[-1].keyword is None and tree.code(node.args[-1].value) == "True":
        flags = node.args[-1:]
    if flags and tree.code(flags[0].value) == "True":
        edits = (tree.replace(flags[0].value, "False"),)
        if isinstance(tree.parent(node), cst.Expr):  # `F.relu(x, inplace=True)` for its effect on x
            if not isinstance(node.args[0].value, cst.Name):
                return None
            start = tree.span(node)[0]
            edits = (Edit(tree.path, start, start, f"{node.args[0].value.value} = "), *edits)
        return Fix(say("Do not work in place"), Applicability.SAFE, edits)
    if not isinstance(node.func, cst.Attribute) or not isinstance(node.func.value, cst.Name):
        return None
    method = node.func.attr
    if not method.value.endswith("_"):
        return None
    name = Edit(tree.path, tree.span(method)[1] - 1, tree.span(method)[1], "")
    start = tree.span(node)[0]
    alone = isinstance(tree.parent(node), cst.Expr)
    head = (Edit(tree.path, start, start, f"{node.func.value.value} = "),) if alone else ()
    return Fix(say("Make a new tensor"), Applicability.SAFE, (*head, name))


RULE = Rule(code="GL305", severity=Severity.ERROR, check=check)
