"""Probabilities go into a loss that applies a sigmoid itself: they are squashed twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Fix, FixContext
from ...findings import Finding, Severity, Step
from ...messages import say
from ...rule import Rule
from ._inputs import made_by, uses
from ._squashed import taken_away

if TYPE_CHECKING:
    from ...flow import Flow

FUNCTIONS = frozenset({
    "torch.nn.functional.binary_cross_entropy_with_logits", "torch.nn.functional.multilabel_soft_margin_loss",
    "torch.binary_cross_entropy_with_logits",
})  # fmt: skip
CLASSES = frozenset({"torch.nn.BCEWithLogitsLoss", "torch.nn.MultiLabelSoftMarginLoss"})
SQUASHED = frozenset({"sigmoid", "Sigmoid", "expit", "sigmoid_"})


def check(flow: Flow) -> Iterable[Finding]:
    for use in uses(flow, FUNCTIONS, CLASSES):
        origin = made_by(flow, use.input, SQUASHED)
        if origin is not None:
            yield Finding(
                "", "", RULE.severity, use.place,
                say("{call} gets probabilities and applies a sigmoid of its own to them: it wants the logits",
                    call=flow.code(use.place)),
                (Step(origin, say("the sigmoid before the loss")),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the sigmoid away.

    Needs: the trail ends at the call of the sigmoid, or at the layer of a `Sequential`.
    """
    return taken_away(finding, context, say("Give the loss the logits"))


RULE = Rule(code="GL805", severity=Severity.WARNING, check=check)
