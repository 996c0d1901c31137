"""A tensor that backward needs was changed in place after it was saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
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
        if not _goes_on(tree, node, node.target.value):
            return None
        return Fix(say("Make a new tensor"), _safety(tree, node, node.target.value), (tree.replace(node, text),))
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
            if not _goes_on(tree, node, node.args[0].value.value):
                return None
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
    if alone and not _goes_on(tree, node, node.func.value.value):
        return None
    head = (Edit(tree.path, start, start, f"{node.func.value.value} = "),) if alone else ()
    return Fix(say("Make a new tensor"), _safety(tree, node, node.func.value.value), (*head, name))


def _goes_on(tree: Tree, node: Any, name: str) -> bool:
    """Whether the name is read after what changes it. Else it is changed for somebody else who holds the tensor: the
    caller, or the list that a loop goes through; and a new one would reach nobody."""
    cst = tree.cst
    own = tree.span(node)
    first, last = own[1], len(tree.unit.text) + tree.unit.start
    for loop in (one for one in tree.ancestors(node) if isinstance(one, (cst.For, cst.While))):
        start, stop = tree.span(loop)
        if isinstance(loop, cst.For) and name in {one.value for one in tree.names(loop.target)}:
            last = stop  # it is another one in the next pass
            break
        first = start
    for read in tree.nodes(cst.Name):
        start = tree.span(read)[0]
        outer = tree.parent(read)
        if read.value != name or not first <= start < last or own[0] <= start < own[1]:
            continue
        if isinstance(outer, cst.AssignTarget) or (isinstance(outer, cst.Attribute) and outer.attr is read):
            continue
        if isinstance(outer, cst.Arg) and outer.keyword is read:
            continue
        if not any(_rebinds(tree, around, name) for around in tree.ancestors(read)):
            return True
    return False


def _rebinds(tree: Tree, around: Any, name: str) -> bool:
    """Whether a comprehension has a variable of this name of its own."""
    cst = tree.cst
    part = getattr(around, "for_in", None)
    while isinstance(part, cst.CompFor):
        if name in {one.value for one in tree.names(part.target)}:
            return True
        part = part.inner_for_in
    return False


def _safety(tree: Tree, node: Any, name: str) -> Applicability:
    """Not safe where the name is another one for what somebody else holds, too: `h = self.h`."""
    cst = tree.cst
    for assign in tree.nodes(cst.Assign):
        held = isinstance(assign.value, (cst.Name, cst.Attribute, cst.Subscript))
        here = tree.enclosing(assign, cst.FunctionDef) is tree.enclosing(node, cst.FunctionDef)
        if held and here and any(tree.code(target.target) == name for target in assign.targets):
            return Applicability.UNSAFE
    return Applicability.SAFE


RULE = Rule(code="GL305", severity=Severity.ERROR, check=check)
