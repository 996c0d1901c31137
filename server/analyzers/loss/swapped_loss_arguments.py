"""The prediction stands where the loss wants the target, and the target where it wants the prediction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Leaf, Tensor, Value
from ...findings import Finding, Severity
from ...flow import events
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ._inputs import uses

if TYPE_CHECKING:
    from ...flow import Flow

NAMES = "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits"
FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in NAMES.split())
CLASSES = frozenset(f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"))


def check(flow: Flow) -> Iterable[Finding]:
    optimized = {leaf for event in flow.of(events.OptimizerMade) for leaf in event.leaves}
    for use in uses(flow, FUNCTIONS, CLASSES):
        if _is_data(use.input) and _is_prediction(use.target, optimized):
            yield Finding(
                "", "", RULE.severity, use.place,
                say("the arguments of {call} are swapped: what the model computes is taken for the target, and what "
                    "has no graph for the prediction", call=flow.code(use.place)),
            )  # fmt: skip


def _is_data(value: Value) -> bool:
    """A tensor that no parameter had a part in."""
    return isinstance(value, Tensor) and value.dead and not value.cuts


def _is_prediction(value: Value, optimized: set[Leaf]) -> bool:
    """What a module with trained parameters computes (learned targets are parameters themselves)."""
    if not isinstance(value, Tensor) or not value.live or value.leaf is not None:
        return False
    return any(leaf in optimized and leaf.kind == "weights" for leaf in walk(value.node).sure)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Swap them back.

    Needs: the place is the call of the loss, whose first two arguments are positional.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if call is None or len(call.args) < 2 or any(arg.keyword is not None or arg.star for arg in call.args[:2]):
        return None
    first, second = (arg.value for arg in call.args[:2])
    edits = (tree.replace(first, tree.code(second)), tree.replace(second, tree.code(first)))
    return Fix(say("Swap the arguments"), Applicability.SAFE, edits)


RULE = Rule(code="GL803", severity=Severity.WARNING, check=check)
