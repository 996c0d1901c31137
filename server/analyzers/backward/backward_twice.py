"""A part of a graph is walked backward a second time, after the first backward has freed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import call_steps
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Backward):
        if not event.freed:
            continue
        node, first = event.freed[-1]
        trail = []
        if first != event.place:
            trail.append(Step(first, "this backward has freed the graph"))
        if node.place is not None:
            trail.append(Step(node.place, f"{node.op} was recorded here and belongs to both graphs"))
            trail.extend(call_steps(node.stack, event.stack))
        carried = first == event.place
        message = (
            "the graph of an earlier pass is walked again: something computed there is still part of this loss"
            if carried
            else "a part of this loss's graph was freed by an earlier backward: add the losses, or detach what is carried over"
        )
        yield Finding("", "", RULE.severity, event.value_place, message, tuple(trail))


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Go backward once, from the sum; or let go of the state that carries the old graph into the next pass.

    Needs: the place is the receiver of the second `backward`; the first step of the trail is the whole call of the
    first one, if that is another.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    second: Any = tree.exactly(finding.place, cst.BaseExpression)
    if second is None:
        return None
    first: Any = tree.exactly(finding.trail[0].place if finding.trail else None, cst.Call)
    if first is not None and isinstance(first.func, cst.Attribute) and first.func.attr.value == "backward":
        return _from_the_sum(tree, first, second)
    lstm = any("LSTM" in step.note for step in finding.trail)
    for names in _states(tree, second):
        lines = (f"{name} = {_detached(name, lstm)}" for name in names)
        edits = (tree.insert_after(tree.statement(second), *lines),)
        if context.cures(edits):
            return Fix("Let go of the graph of the last pass", Applicability.SAFE, edits)
    return None


def _detached(name: str, pair: bool) -> str:
    return f"tuple(state.detach() for state in {name})" if pair else f"{name}.detach()"


def _from_the_sum(tree: Tree, first: Any, second: Any) -> Fix | None:
    """`a.backward()`, and directly below it `b.backward()`, become `(a + b).backward()`."""
    cst = tree.cst
    block = tree.block(tree.statement(second))
    here = next((i for i, one in enumerate(block) if one is tree.statement(second)), 0)
    if not here or block[here - 1] is not tree.statement(first) or not isinstance(tree.parent(first), cst.Expr):
        return None
    if any(arg.keyword is None or arg.keyword.value != "retain_graph" for arg in first.args):
        return None
    start, end = tree.outer_span(second)
    total = f"({tree.text(*tree.outer_span(first.func.value))} + {tree.text(start, end)})"
    edits = tree.delete(tree.parent(first)), Edit(tree.path, start, end, total)
    return Fix("Go backward once, from the sum", Applicability.SAFE, edits)


def _states(tree: Tree, second: Any) -> list[list[str]]:
    """What may be let go of: in the loop around the backward, the names that a call both takes and makes anew."""
    cst = tree.cst
    loop: Any = tree.enclosing(second, cst.For, cst.While)
    if loop is None or tree.parent(tree.statement(second)) is not loop.body:
        return []
    start, end = tree.span(loop)
    found: list[list[str]] = []
    for assign in tree.nodes(cst.Assign):
        if not start <= tree.span(assign)[0] < end or not isinstance(assign.value, cst.Call):
            continue
        made = {name.value for target in assign.targets for name in tree.names(target.target)}
        made |= {tree.code(target.target) for target in assign.targets if isinstance(target.target, cst.Attribute)}
        taken = [tree.code(one) for arg in assign.value.args for one in _taken(tree, arg.value)]
        if names := [name for name in dict.fromkeys(taken) if name in made]:
            found.append(names)
    return found


def _taken(tree: Tree, value: Any) -> list[Any]:
    """The names and attributes that an argument hands over, in a tuple or a list too."""
    cst = tree.cst
    if isinstance(value, (cst.Tuple, cst.List)):
        return [one for element in value.elements for one in _taken(tree, element.value)]
    return [value] if isinstance(value, (cst.Name, cst.Attribute)) else []


RULE = Rule(code="GL302", severity=Severity.ERROR, check=check)
