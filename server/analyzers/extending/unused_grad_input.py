"""`autograd.grad` is asked for the gradient of a parameter that its output was not computed from: it raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Const, Leaf, ParameterOf, Parameters, Sequence, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.training import parts_of
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not any(flow.called("torch.autograd.grad")):
        return
    walked: events.Backward | None = None
    for event in flow.among(events.Backward, events.Called):
        if isinstance(event, events.Backward) and event.grad:
            walked = event
            continue
        if not isinstance(event, events.Called) or event.name != "torch.autograd.grad":
            continue
        if walked is None or walked.place != event.place or walked.opaque or not walked.reached:
            continue
        if (
            event.spread
            or len(event.args) > 5
            or not _off(event, "allow_unused")
            or not _off(event, "materialize_grads")
        ):
            continue
        inputs = event.args[1] if len(event.args) > 1 else event.keywords.get("inputs")
        unused = [
            leaf for leaf in _leaves(inputs) if leaf not in walked.reached and leaf.cells.get("requires_grad") is True
        ]
        if unused:
            names = flow.names(unused)
            made = next((leaf.place for leaf in unused if leaf.place is not None), None)
            yield Finding(
                "", "", RULE.severity, event.place,
                say("the output was not computed from {names}: without `allow_unused=True` this raises \"The "
                    "differentiated Tensor at index ... appears to not have been used in the graph\"", names=names),
                (Step(made, say("this is among the inputs, and has no part in the output")),) if made is not None else (),
            )  # fmt: skip


def _off(event: events.Called, name: str) -> bool:
    flag = event.keywords.get(name)
    return flag is None or (isinstance(flag, Const) and not flag.value)


def _leaves(value: object, depth: int = 3) -> list[Leaf]:
    """The leaves that are surely among the inputs."""
    if isinstance(value, Parameters):
        return list(value.leaves)
    if isinstance(value, ParameterOf):
        return list(value.leaves) if value.all_of else []
    if isinstance(value, Tensor):
        return [value.leaf] if value.leaf is not None else []
    if isinstance(value, Sequence) and depth:
        return [leaf for part in parts_of(value) for leaf in _leaves(part, depth - 1)]
    return []


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Allow it; whoever uses the gradients has to expect None then.

    Needs: the place is the call of `autograd.grad`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if (
        call is None
        or not call.args
        or any(a.keyword is not None and a.keyword.value == "allow_unused" for a in call.args)
    ):
        return None
    end = tree.span(call.args[-1].value)[1]
    return Fix(
        say("Give None for what is not used"), Applicability.UNSAFE, (Edit(tree.path, end, end, ", allow_unused=True"),)
    )


RULE = Rule(code="GL704", severity=Severity.ERROR, check=check)
