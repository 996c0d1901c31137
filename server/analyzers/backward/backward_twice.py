"""A part of a graph is walked backward a second time, after the first backward has freed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import call_steps
from ...messages import say
from ...rule import Rule
from ..parameters.non_leaf_in_optimizer import non_leaves
from ._carried import let_go

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.among(events.NoneUsed, events.OptimizerMade, events.Backward):
        if isinstance(event, events.NoneUsed) and event.why in ("non-leaf", "no-grad") and not event.branches:
            return  # the program ends there
        if isinstance(event, events.OptimizerMade) and any(not moved for _, moved in non_leaves(event)):
            return  # and here: what would be walked twice is the graph of what should be a leaf
        if not isinstance(event, events.Backward) or not event.freed:
            continue
        node, first = event.freed[-1]
        trail = []
        if first != event.place:
            trail.append(Step(first, say("this backward has freed the graph")))
        if node.place is not None:
            trail.append(Step(node.place, say("{op} was recorded here and belongs to both graphs", op=f"`{node.op}`")))
            trail.extend(call_steps(node.stack, event.stack))
        carried = first == event.place
        loss = flow.code(event.value_place)
        message = (
            say(
                "{loss} walks the graph of an earlier pass again, which is freed: detach what is carried into the next "
                "pass",
                loss=loss,
            )
            if carried
            else say(
                "a part of the graph of {loss} was freed by an earlier backward: add the losses, or detach what is "
                "carried over",
                loss=loss,
            )
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
    return let_go(tree, context, second, finding)


def _from_the_sum(tree: Tree, first: Any, second: Any) -> Fix | None:
    """`a.backward()`, and directly below it `b.backward()`, become `(a + b).backward()`."""
    cst = tree.cst
    block = tree.block(tree.statement(second))
    here = next((i for i, one in enumerate(block) if one is tree.statement(second)), 0)
    if not here or block[here - 1] is not tree.statement(first) or not isinstance(tree.parent(first), cst.Expr):
        return _kept(tree, first, second)
    if any(arg.keyword is None or arg.keyword.value != "retain_graph" for arg in first.args):
        return None
    start, end = tree.outer_span(second)
    total = f"({tree.text(*tree.outer_span(first.func.value))} + {tree.text(start, end)})"
    edits = tree.delete(tree.parent(first)), Edit(tree.path, start, end, total)
    return Fix(say("Go backward once, from the sum"), Applicability.SAFE, edits)


def _kept(tree: Tree, first: Any, second: Any) -> Fix | None:
    """The first backward keeps the graph for the second one. Not safe where gradients are cleared or applied between:
    then each was meant to reach other parameters, and what the two have in common should be detached."""
    end = tree.span(first)[1]
    if first.args or not end <= tree.span(second)[0]:
        return None
    between = tree.text(end, tree.span(second)[0])
    safe = not any(word in between for word in ("zero_grad", ".step(", ".grad"))
    edit = Edit(tree.path, tree.span(first.func)[1], end, "(retain_graph=True)")
    return Fix(
        say("Keep the graph for the second backward"), Applicability.SAFE if safe else Applicability.UNSAFE, (edit,)
    )


RULE = Rule(code="GL302", severity=Severity.ERROR, check=check)
