"""Probabilities go into a loss that wants their logarithms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Tensor, Value
from ...findings import Finding, Place, Severity, Step
from ...messages import say
from ...rule import Rule
from ._inputs import made_by, uses

if TYPE_CHECKING:
    from ...flow import Flow

FUNCTIONS = frozenset({"torch.nn.functional.nll_loss", "torch.nn.functional.kl_div"})
CLASSES = frozenset({"torch.nn.NLLLoss", "torch.nn.KLDivLoss"})
SQUASHED = frozenset({"softmax", "Softmax", "Softmax2d"})


def check(flow: Flow) -> Iterable[Finding]:
    for use in uses(flow, FUNCTIONS, CLASSES):
        origin = made_by(flow, use.input, SQUASHED) or _without_graph(use.input)
        if origin is not None:
            yield Finding(
                "", "", RULE.severity, use.place,
                say("{call} gets probabilities and wants their logarithms: it takes each probability for the logarithm "
                    "of one", call=flow.code(use.place)),
                (Step(origin, say("the softmax before the loss")),),
                data=(("graph", not isinstance(use.input, Tensor) or use.input.live),),
            )  # fmt: skip


def _without_graph(value: Value) -> Place | None:
    """Where the softmax stands, if the value is the result of one that has no graph (a teacher's)."""
    if isinstance(value, Tensor) and value.dead and value.tag.rpartition(".")[2] in SQUASHED:
        return value.made
    return None


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Write `log_softmax` for `softmax`.

    Needs: the trail ends at the call of the softmax, or at the layer of a `Sequential`. None if what comes out of it has
    no graph: then the arguments may be swapped.
    """
    if not finding.get("graph"):
        return None
    origin = finding.trail[-1].place
    tree = context.scope_tree(origin)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(origin, cst.Call)
    name = call and (call.func.attr if isinstance(call.func, cst.Attribute) else call.func)
    if name is None or name.value not in ("softmax", "Softmax"):
        return None
    if not isinstance(call.func, cst.Attribute):
        return None  # the other name may not be imported
    edit = tree.replace(name, "log_softmax" if name.value == "softmax" else "LogSoftmax")
    returned = context.scope(origin) != context.scope(finding.place)
    return Fix(say("Take the logarithm"), Applicability.UNSAFE if returned else Applicability.SAFE, (edit,))


RULE = Rule(code="GL806", severity=Severity.WARNING, check=check)
