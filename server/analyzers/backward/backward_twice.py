"""A part of a graph is walked backward a second time, after the first backward has freed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Node
from ...findings import Finding, Place, Severity, Step
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
        yield Finding("", "", RULE.severity, event.value_place, _message(flow, event, node, first), tuple(trail))


def _message(flow: Flow, event: events.Backward, node: Node, freed: Place) -> str:
    """What is wrong, and what to do about it, which depends on how the two backwards stand to one another."""
    loss = flow.code(event.value_place)
    at = flow.events.index(event)
    since = next((i for i in range(at - 1, -1, -1) if _walked(flow.events[i], node, freed)), at)
    first, between = flow.events[since], flow.events[since + 1 : at]
    moved = any(isinstance(one, (events.Step, events.Zero)) for one in between)
    if isinstance(first, events.Backward) and first is not event:
        here = first.stack is event.stack
        if first.grad:
            return say(
                "a part of the graph of {loss} was freed by {first}: `retain_graph=True` there keeps it, or "
                "`create_graph=True`, if what it gives is part of the loss",
                loss=loss, first="`torch.autograd.grad`",
            )  # fmt: skip
        if first.nodes[:1] == event.nodes[:1]:
            if here and freed == event.place and event.loops:
                return say(
                    "{loss} goes backward in every pass of the loop, and its graph is freed in the first: compute it "
                    "inside the loop", loss=loss,
                )  # fmt: skip
            return say(
                "{loss} goes backward a second time, and the first has freed its graph: once is enough, unless the "
                "gradient is meant to count twice", loss=loss,
            )  # fmt: skip
        if here and freed == event.place and event.loops:
            if event.loops[:-1] == first.loops[:-1] and _before_the_loop(event):
                return (
                    say(
                        "{loss} walks a graph that was made before the loop, and that the first pass has freed: "
                        "compute {shared} inside the loop", loss=loss, shared=_made(flow, event, node),
                    )
                    if moved
                    else say(
                        "{loss} shares a part of its graph with the loss before, whose backward has freed it: go "
                        "backward once, from the sum of the losses, after the loop", loss=loss,
                    )
                )  # fmt: skip
        elif here and event.loops == first.loops and not moved and not any(one.place == event.place for one in between):
            other = flow.code(first.value_place)
            return say(
                "{loss} shares a part of its graph with {other}, whose backward has freed it: go backward once, from "
                "their sum, {total}; `retain_graph=True` is for losses that must go backward apart",
                loss=loss, other=other, total=f"`({other.strip('`')} + {loss.strip('`')}).backward()`",
            )  # fmt: skip
    if freed == event.place and event.loops:
        return say(
            "{loss} walks the graph of an earlier pass again, which is freed: detach what is carried into the next pass",
            loss=loss,
        )  # fmt: skip
    return say(
        "a part of the graph of {loss} was freed by an earlier backward: add the losses, or detach what is carried over",
        loss=loss,
    )  # fmt: skip


def _walked(event: events.Event, node: Node, place: Place) -> bool:
    return isinstance(event, events.Backward) and event.place == place and any(one is node for one in event.nodes)


def _before_the_loop(event: events.Backward) -> bool:
    """Whether everything that was freed was made before the innermost loop, in the function that goes backward."""
    loop = event.loops[-1].place
    sites = [_site(node, event) for node, _ in event.freed]
    return loop is not None and all(
        site is not None and site.path == loop.path and site.end <= loop.start for site in sites
    )


def _site(node: Node, event: events.Backward) -> Place | None:
    """Where the function that goes backward made the node, or called what made it; None: it did not."""
    place, stack = node.place, node.stack
    while stack is not event.stack:
        if stack is None:
            return None
        place, stack = stack.place, stack.up
    return place


def _made(flow: Flow, event: events.Backward, node: Node) -> str:
    site = _site(node, event)
    return flow.code(site) if site is not None else f"`{node.op}`"


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
    if tree.code(first.func.value) == tree.code(second):
        return None  # the same loss twice: which of the two is too many, or whether it counts twice, is not known
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
