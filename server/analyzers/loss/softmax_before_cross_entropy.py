"""Probabilities go into a cross-entropy that applies `log_softmax` itself: they are squashed twice."""

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

FUNCTIONS = frozenset({"torch.nn.functional.cross_entropy"})
CLASSES = frozenset({"torch.nn.CrossEntropyLoss"})
SQUASHED = frozenset({"softmax", "Softmax", "Softmax2d"})


def check(flow: Flow) -> Iterable[Finding]:
    for use in uses(flow, FUNCTIONS, CLASSES):
        origin = made_by(flow, use.input, SQUASHED)
        if origin is not None:
            yield Finding(
                "", "", RULE.severity, use.place,
                say("{call} gets probabilities and applies a softmax of its own to them: it wants the scores",
                    call=flow.code(use.place)),
                (Step(origin, say("the softmax before the loss")),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the softmax away.

    Needs: the trail ends at the call of the softmax, or at the layer of a `Sequential`.
    """
    return taken_away(finding, context, say("Give the loss the scores"))


RULE = Rule(code="GL801", severity=Severity.WARNING, check=check)
