"""An optimizer gets a tensor that is the result of an operation: it can only move leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...edits import Applicability, Fix, FixContext
from ...facts import Mapping, Sequence, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.training import parts_of
from ...messages import say
from ...rule import Rule
from ._leaf import as_leaf, parameter_last

if TYPE_CHECKING:
    from ...flow import Flow

MOVED = ("leaf-moved", "parameter-moved")


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.OptimizerMade):
        for tensor, moved in non_leaves(event):
            where = event.argument_place or event.place
            made = tensor.node.place if tensor.node is not None else None
            trail = (
                (Step(made, say("{op} makes it, and it is no leaf", op=f"`{tensor.node.op.strip('.')}`")),)
                if tensor.node is not None and made is not None
                else ()
            )
            yield Finding(
                "", "", Severity.WARNING if moved else RULE.severity, where,
                say("the optimizer gets {code}, the result of an operation and no leaf unless there was nothing to change: "
                    "it raises \"can't optimize a non-leaf Tensor\"", code=flow.code(where))
                if moved
                else say("the optimizer gets {code}, the result of an operation and no leaf: it raises \"can't "
                         "optimize a non-leaf Tensor\"", code=flow.code(where)),
                tuple(step for step in trail if step.place != where),
            )  # fmt: skip


def non_leaves(event: events.OptimizerMade) -> Iterator[tuple[Tensor, bool]]:
    """What an optimizer was given that is no leaf; true: unless there was nothing to move."""
    for tensor in _tensors(event.arguments):
        moved = tensor.tag in MOVED
        if tensor.leaf is None and tensor.node is not None and (tensor.certain or moved) and not tensor.node.phi:
            yield tensor, moved


def _tensors(value: object, depth: int = 4) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _tensors(part, depth)
    elif isinstance(value, Sequence) and depth:
        if value.kind == "list" and value.cells.get("items") is None and not value.cells.get("parts"):
            return  # the join of many: which of them is a leaf is not known
        yield from _tensors(parts_of(value), depth - 1)
    elif isinstance(value, Mapping) and depth:
        yield from _tensors(value.cells.get(("key", "params")), depth - 1)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the tensor a leaf: first compute it, then ask for its gradient.

    Needs: the last step of the trail is the expression that makes it (`0.01 * torch.randn(4, requires_grad=True)`).
    """
    if not finding.trail:
        return None
    tree = context.scope_tree(finding.trail[-1].place)
    made = tree and tree.exactly(finding.trail[-1].place, tree.cst.BaseExpression)
    if tree is None or made is None:
        return None
    edits = as_leaf(tree, made)
    if edits is None and (edit := parameter_last(tree, made)) is not None:
        edits = (edit,)
    return None if edits is None else Fix(say("Make it a leaf"), Applicability.SAFE, edits)


RULE = Rule(code="GL510", severity=Severity.ERROR, check=check)
