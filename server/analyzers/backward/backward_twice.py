"""A part of a graph is walked backward a second time, after the first backward has freed it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Node, Tensor
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.trails import call_steps
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ..parameters.non_leaf_in_optimizer import non_leaves
from ._carried import form_of, let_go

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
        trail: list[Step] = []
        written = _written(event, node) if first == event.place and event.loops else None
        anew = _anew(event)
        if written is not None and written.place is not None:
            trail.append(Step(written.place, say("this writes it, with its graph, into what the next pass reads")))
        if first != event.place:
            trail.append(Step(first, say("this backward has freed the graph")))
        if node.place is not None:
            trail.append(Step(node.place, say("{op} was recorded here and belongs to both graphs", op=f"`{node.op}`")))
            trail.extend(call_steps(node.stack, event.stack))
        before, between = _since(flow, event, node, first)
        apart = _apart(event, before, between, node)
        if apart:
            message = say(
                "{loss} goes through the graph of {shared} again, which the backward of {other} has freed; the step "
                "between does not train what is behind it: compute {other} from {shared} detached",
                loss=flow.code(event.value_place), other=flow.code(before.value_place), shared=_made(flow, event, node),
            )  # fmt: skip
        else:
            message = _message(flow, event, before, between, node, first, written)
        data = (("written", written is not None), ("anew", anew), ("apart", apart))
        yield Finding("", "", RULE.severity, event.value_place, message, tuple(trail), data=data)


def _since(flow: Flow, event: events.Backward, node: Node, freed: Place) -> tuple[events.Backward, list[events.Event]]:
    """The backward that has freed a node, and what happened after it."""
    at = flow.events.index(event)
    since = next((i for i in range(at - 1, -1, -1) if _walked(flow.events[i], node, freed)), at)
    first = flow.events[since]
    return (first if isinstance(first, events.Backward) else event), flow.events[since + 1 : at]


def _apart(event: events.Backward, first: events.Backward, between: list[events.Event], node: Node) -> str:
    """Whether the first backward had no business in what both share, as that of a discriminator's loss in the
    generator: the step between holds nothing of it. "cleared" if the gradients that it left there are cleared, too."""
    if first is event or first.stack is not event.stack or first.loops != event.loops or first.grad or event.grad:
        return ""
    found = walk(node)
    below = {*found.sure, *found.maybe}
    stepped = {leaf for one in between if isinstance(one, events.Step) for leaf in one.leaves}
    if not below or not stepped & set(first.reached) or stepped & below or _site(node, event) is None:
        return ""
    cleared = {leaf for one in between if isinstance(one, events.Zero) for leaf in one.leaves}
    return "cleared" if below <= cleared else "left"


def _message(
    flow: Flow,
    event: events.Backward,
    first: events.Backward,
    between: list[events.Event],
    node: Node,
    freed: Place,
    written: Node | None,
) -> str:
    """What is wrong, and what to do about it, which depends on how the two backwards stand to one another."""
    loss = flow.code(event.value_place)
    moved = any(isinstance(one, (events.Step, events.Zero)) for one in between)
    if first is not event:
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
                if moved and _anew(event):
                    return say(
                        "{loss} walks a graph that was made before the loop, and that the first pass has freed; the loop "
                        "makes one of the same parameters anew: compute {shared} under `torch.no_grad()`, or detach "
                        "what it gives", loss=loss, shared=_made(flow, event, node),
                    )  # fmt: skip
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
        elif (
            here
            and event.loops == first.loops
            and not moved
            and not event.grad
            and not any(one.place == event.place for one in between)
        ):
            other = flow.code(first.value_place)
            return say(
                "{loss} shares a part of its graph with {other}, whose backward has freed it: go backward once, from "
                "their sum, {total}; `retain_graph=True` is for losses that must go backward apart",
                loss=loss, other=other, total=f"`({other.strip('`')} + {loss.strip('`')}).backward()`",
            )  # fmt: skip
    if written is not None and written.place is not None:
        return say(
            "{loss} walks the graph of an earlier pass again, which is freed: detach what is written into {target}, "
            "which carries it into the next pass", loss=loss, target=flow.code(written.place),
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


def _anew(event: events.Backward) -> bool:
    """Whether what the loop computes anew reaches all parameters that the freed graph before it does: that one was to
    be compared with, as the probabilities of the old policy are."""
    if not event.loops or not _before_the_loop(event):
        return False
    old, new = {id(node) for node, _ in event.freed}, set()
    before: set[int] = set()
    for node in event.nodes:
        leaves = {id(source.leaf) for source in node.inputs if source.leaf is not None}
        if id(node) in old:
            before |= leaves
        elif (site := _site(node, event)) is not None and site.start >= event.loops[-1].place.start:  # type: ignore[union-attr]
            new |= leaves
    return bool(before) and before <= new


def _written(event: events.Backward, node: Node) -> Node | None:
    """The write into a part of a tensor that has carried a freed node over: it stands behind the backward, on the way
    from the loss to the node."""
    above: dict[int, Node] = {}
    todo = [event.value.node] if isinstance(event.value, Tensor) and event.value.node is not None else []
    seen = {id(one) for one in todo}
    while todo and id(node) not in seen:
        one = todo.pop(0)
        for source in one.inputs:
            if id(source) not in seen:
                seen.add(id(source))
                above[id(source)] = one
                todo.append(source)
    current = above.get(id(node))
    while current is not None:
        site = _site(current, event) if current.op == "[...] =" else None
        if site is not None and site.path == event.place.path and site.start >= event.place.end:
            return current
        current = above.get(id(current))
    return None


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
    first one, if that is another. Where `written` is set, the first step is the target of the write that carries the
    graph; where `anew` is, the last step is what was computed before the loop; where `apart` is, the call that gave
    what both losses share.
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
        if finding.get("apart"):
            return _detached(tree, context, first, finding)
        return _from_the_sum(tree, first, second)
    if finding.get("written"):
        return _without_graph(context, finding.trail[0].place)
    return let_go(tree, context, second, finding) or (_old(context, finding) if finding.get("anew") else None)


def _without_graph(context: FixContext, target: Place) -> Fix | None:
    """`self.bank[index] = z` becomes `self.bank[index] = z.detach()`."""
    tree = context.scope_tree(target)
    written = tree and tree.exactly(target, tree.cst.Subscript)
    if tree is None or written is None or not isinstance(tree.parent(written), tree.cst.AssignTarget):
        return None
    value: Any = tree.parent(tree.parent(written)).value
    if set(context.values((), tree.place(value), form_of)) != {("tensor",)}:
        return None
    start, end = tree.outer_span(value)
    simple = isinstance(value, (tree.cst.Name, tree.cst.Attribute, tree.cst.Call, tree.cst.Subscript)) or value.lpar
    code = tree.text(start, end) if simple else f"({tree.text(start, end)})"
    edit = Edit(tree.path, start, end, f"{code}.detach()")
    return Fix(say("Write it without its graph"), Applicability.SAFE, (edit,))


def _old(context: FixContext, finding: Finding) -> Fix | None:
    """What was computed before the loop, to be compared with, is computed under `no_grad`. Not safe: what else is made
    of it is without a graph then, too."""
    made = finding.trail[-1].place
    tree = context.scope_tree(made)
    call = tree and tree.exactly(made, tree.cst.Call)
    if tree is None or call is None or not tree.block(tree.statement(call)):
        return None
    statement = tree.statement(call)
    if not isinstance(statement, tree.cst.SimpleStatementLine) or "import torch\n" not in context.file(made.path).text:
        return None
    edits = tree.wrap(statement, statement, "with torch.no_grad():")
    return Fix(say("Compute it under no_grad"), Applicability.UNSAFE, edits)


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


def _detached(tree: Tree, context: FixContext, first: Any, finding: Finding) -> Fix | None:
    """`critic(fake)` of the first loss becomes `critic(fake.detach())`. Safe if the gradients that its backward left
    behind what is detached were cleared in any case."""
    cst = tree.cst
    made = tree.exactly(finding.trail[-1].place, cst.Call)
    kept = made and tree.parent(made)
    if not isinstance(kept, cst.Assign) or len(kept.targets) != 1 or not isinstance(kept.targets[0].target, cst.Name):
        return None
    name = kept.targets[0].target.value
    home = tree.statement(first)
    if isinstance(first.func.value, cst.Name):
        giving = [
            assign
            for assign in tree.nodes(cst.Assign)
            if tree.span(assign)[1] <= tree.span(first)[0]
            and any(tree.code(target.target) == first.func.value.value for target in assign.targets)
        ]
        home = tree.statement(giving[-1]) if giving else home
    uses = [
        one for one in tree.names(home) if one.value == name and isinstance(tree.parent(one), (cst.Arg, cst.Element))
    ]
    edits = tuple(tree.replace(one, f"{name}.detach()") for one in uses)
    asked = (tree.place(uses[0]), form_of) if uses else None
    if asked is None or set(context.values((), *asked)) != {("tensor",)} or not context.cures(edits):
        return None
    safe = finding.get("apart") == "cleared"
    return Fix(
        say("Detach {name} for the loss that does not train it", name=f"`{name}`"),
        Applicability.SAFE if safe else Applicability.UNSAFE,
        edits,
    )


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
