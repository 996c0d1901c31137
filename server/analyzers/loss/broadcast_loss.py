"""A column of predictions is compared with a row of targets: they broadcast, and each meets every other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Tensor, Value
from ...findings import Finding, Severity, Step
from ...messages import say
from ...rule import Rule
from ._inputs import uses

if TYPE_CHECKING:
    from ...flow import Flow

FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"))
CLASSES = frozenset(f"torch.nn.{name}" for name in ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"))


def check(flow: Flow) -> Iterable[Finding]:
    for use in uses(flow, FUNCTIONS, CLASSES):
        for index, (column, row) in enumerate(((use.input, use.target), (use.target, use.input))):
            if not _spreads(column, row):
                continue
            said = [say("the prediction"), say("the target")]
            if len(use.arg_places) > 1:
                said = [flow.code(place) for place in use.arg_places[:2]]
            place = use.arg_places[index] if index < len(use.arg_places) else None
            yield Finding(
                "", "", RULE.severity, use.place,
                say("{what} has the shape (N, 1) and {other} (N,): they broadcast to (N, N), and each is compared "
                    "with every other", what=said[index], other=said[1 - index]),
                (Step(place, say("this has a last dimension of size 1 that the other has not")),) if place is not None else (),
                data=(("deep", isinstance(column, Tensor) and len(column.shape or ()) > 2),),
            )  # fmt: skip


def _spreads(column: Value, row: Value) -> bool:
    """Whether one is (..., N, 1) and the other (..., N), with more than one in a row as far as is known."""
    if not isinstance(column, Tensor) or not isinstance(row, Tensor) or not column.shape or not row.shape:
        return False
    if len(column.shape) != len(row.shape) + 1 or column.shape[-1] != 1:
        return False
    if column.shape[-2] == 1 or row.shape[-1] == 1:
        return False
    return all(a is None or b is None or a == b for a, b in zip(column.shape[:-1], row.shape, strict=True))


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Take the last dimension away.

    Needs: the trail's place is the argument that has it.
    """
    if not finding.trail:
        return None
    place = finding.trail[-1].place
    tree = context.scope_tree(place)
    if tree is None:
        return None
    cst = tree.cst
    value: Any = tree.exactly(place, cst.BaseExpression)
    if value is None:
        return None
    method = "squeeze(-1)" if finding.get("deep") else "squeeze(1)"
    if isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        edits: tuple[Edit, ...] = (Edit(tree.path, place.end, place.end, f".{method}"),)
    else:
        edits = (tree.replace(value, f"({tree.code(value)}).{method}"),)
    return Fix(say("Take its last dimension away"), Applicability.SAFE, edits)


RULE = Rule(code="GL802", severity=Severity.WARNING, check=check)
