"""What a module gets is computed from a fresh `nn.Parameter` and is none itself: it is not registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...edits import Applicability, Fix, FixContext
from ...facts import Object, Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...flow.objects import is_module
from ...flow.training import walk
from ...rule import Rule
from ._held import held, registrations
from ._rewrite import around

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
            said = "is the Parameter only where nothing had to change, and a plain tensor otherwise"
        else:
            said = "is a plain tensor"
        yield Finding(
            "", "", RULE.severity, event.value_place,
            f"`{event.name}` is computed from a Parameter and {said}: it is not registered, and no optimizer trains it",
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Compute first, make the Parameter of the result.

    Needs: the place is the whole expression (`nn.Parameter(torch.randn(4)) * 0.01`, `nn.Parameter(x).to(device)`).
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    whole = tree.exactly(finding.place, cst.BaseExpression)
    if whole is None:
        return None
    found = [call for call in tree.nodes(cst.Call) if _is_parameter(tree, call) and _within(tree, call, whole)]
    if len(found) != 1 or len(found[0].args) != 1:
        return None
    (call,) = found
    start, end = tree.span(whole)
    first, last = tree.outer_span(call)
    inner: Any = call.args[0].value
    code = tree.code(inner)
    loose = (cst.BinaryOperation, cst.UnaryOperation, cst.IfExp, cst.Comparison)
    if isinstance(inner, loose) and not inner.lpar:
        code = f"({code})"
    text = f"{tree.code(call.func)}({tree.text(start, first)}{code}{tree.text(last, end)})"
    return Fix("Make the Parameter of the result", Applicability.SAFE, (tree.replace(whole, text),))


def _is_parameter(tree: Tree, call: Any) -> bool:
    return tree.code(call.func).rpartition(".")[2] == "Parameter"


def _within(tree: Tree, inner: Any, outer: Any) -> bool:
    first, last = tree.span(inner)
    start, end = tree.span(outer)
    return start <= first and last <= end and inner is not outer


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make the Parameter last.

    Needs: the place is the right side of the assignment, with one `nn.Parameter(...)` in it.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    value: Any = tree.exactly(finding.place, tree.cst.BaseExpression)
    code = around(tree, value) if value is not None else None
    return Fix("Make the Parameter last", Applicability.SAFE, (tree.replace(value, code),)) if code is not None else None


RULE = Rule(code="GL502", severity=Severity.WARNING, check=check)
