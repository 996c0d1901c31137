"""A generator of parameters is used a second time, when nothing is left in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...facts import Mapping, Parameters, Range, Sequence
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...flow.training import parts_of
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.OptimizerMade):
        if event.used_up is not None:
            where = event.argument_place or event.place
            code = flow.code(where)
            message = say(
                "nothing is left in {code}, a generator that was gone through before: the optimizer gets no "
                "parameters, and raises",
                code=code,
            )
            if event.leaves:
                message = say(
                    "nothing is left in {code}, a generator that was gone through before: the optimizer takes the "
                    "empty group without a word",
                    code=code,
                )
            yield _finding(Severity.ERROR, where, message, event.used_up, event.arguments)
    for raised in flow.of(events.Raised):
        if raised.rule == "exhausted-parameters":
            message = say(
                "nothing is left in {code}, a generator that was gone through before: nothing is clipped",
                code=flow.code(raised.place),
            )
            yield _finding(Severity.WARNING, raised.place, message, raised.trail[0][0], raised.data["parameters"])


def _finding(severity: Severity, place: Place, message: str, used: Place, arguments: object) -> Finding:
    trail = [Step(used, say("here it is used up"))]
    made = next((m for m in _made(arguments) if m is not None), None)
    if made is not None and made not in (used, place):
        trail.append(Step(made, say("this is a generator: it can be gone through once")))
    return Finding("", "", severity, place, message, tuple(step for step in trail if step.place != place))


def _made(value: object) -> Iterable[Place | None]:
    """Where the generators in a value that are used up were made."""
    if isinstance(value, tuple):
        for part in value:
            yield from _made(part)
    elif isinstance(value, Parameters) or (isinstance(value, Sequence) and value.kind == "generator"):
        if "used" in value.cells:
            yield value.place
    elif isinstance(value, (Sequence, Range)):
        yield from _made(parts_of(value))
    elif isinstance(value, Mapping):
        yield from _made(value.cells.get(("key", "params")))


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Keep them in a list.

    Needs: the last step of the trail is the expression that makes the generator (`model.parameters()`,
    `filter(..., model.parameters())`, a generator expression).
    """
    if not finding.trail:
        return None
    tree = context.tree(finding.trail[-1].place)
    made: Any = tree and tree.exactly(finding.trail[-1].place, tree.cst.Call, tree.cst.GeneratorExp)
    if tree is None or made is None:
        return None
    if _stepped(context, tree, made):
        return None
    code = tree.code(made)
    text = f"list{code}" if code.startswith("(") else f"list({code})"
    return Fix(say("Keep them in a list"), Applicability.SAFE, (tree.replace(made, text),))


def _stepped(context: FixContext, tree: Tree, made: Any) -> bool:
    """Whether the program takes items with `next(params)`, which a list does not give."""
    assign = tree.parent(made)
    targets = assign.targets if isinstance(assign, tree.cst.Assign) else ()
    names = {tree.code(target.target) for target in targets}
    scope = context.scope_tree(tree.place(made))
    return scope is not None and any(
        scope.code(call.func) == "next" and bool(call.args) and scope.code(call.args[0].value) in names
        for call in scope.nodes(scope.cst.Call)
    )


RULE = Rule(code="GL507", severity=Severity.ERROR, check=check)
