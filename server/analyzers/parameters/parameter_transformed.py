"""What a module gets is computed from a fresh `nn.Parameter` and is none itself: it is not registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Object, Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...flow.objects import is_module
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ._held import held, registrations
from ._leaf import parameter_last

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    found = [
        event
        for event in flow.of(events.Attribute)
        if isinstance(event.owner, Object) and isinstance(event.value, Tensor) and event.value.leaf is None
        and event.value.node is not None and event.in_forward is None and event.value_place is not None
        and is_module(event.owner)
    ]  # fmt: skip
    if not found:
        return
    _, parameters = registrations(flow)
    optimized = held(flow)
    for event in found:
        assert isinstance(event.value, Tensor) and event.value_place is not None
        graph = walk(event.value.node)
        leaves = [*graph.sure, *graph.maybe]
        if not leaves or graph.opaque or not (event.value.certain or event.value.tag == "parameter-moved"):
            continue
        if any(leaf.kind != "parameter" or leaf in parameters or leaf in optimized for leaf in leaves):
            continue
        if any(leaf.cells.get("escaped") for leaf in leaves):
            continue
        if event.value.tag == "parameter-moved":
            message = say(
                "`{name}` is computed from a Parameter and is one only where nothing had to change: otherwise it is not "
                "registered, and no optimizer trains it",
                name=event.name,
            )
        else:
            message = say(
                "`{name}` is computed from a Parameter and is a plain tensor: it is not registered, and no optimizer "
                "trains it",
                name=event.name,
            )
        yield Finding("", "", RULE.severity, event.value_place, message)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Compute first, make the Parameter of the result.

    Needs: the place is the whole expression (`nn.Parameter(torch.randn(4)) * 0.01`, `nn.Parameter(x).to(device)`).
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    whole: Any = tree.exactly(finding.place, tree.cst.BaseExpression)
    edit = parameter_last(tree, whole) if whole is not None else None
    return None if edit is None else Fix(say("Make the Parameter of the result"), Applicability.SAFE, (edit,))


RULE = Rule(code="GL502", severity=Severity.WARNING, check=check)
