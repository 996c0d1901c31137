"""A membership test decides on `requires_grad` the wrong way round: what is listed as frozen is what trains."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import ir
from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

FROZEN = re.compile(r"(?<!un)(?<!un_)(?<!not_)(freeze|frozen|freezed|fixed)", re.IGNORECASE)
TRAINED = re.compile(
    r"(?<!un)(?<!non)(?<!non_)(?<!not_)(?<!no_)(trainable|unfreeze|unfrozen|finetune|fine_tune)", re.IGNORECASE
)


def check(flow: Flow) -> Iterable[Finding]:
    ways: dict[int, dict[bool, bool]] = {}
    for event in flow.of(events.GradFlag):
        found = _listed(event.source)
        if found is None and isinstance(event.condition, tuple) and event.value is not None:
            test, outcome = event.condition
            found = _listed(test)
            both = ways.setdefault(id(test), {})
            both[outcome] = event.value
            if found is None or both.get(True) is not (not both.get(False)) or len(both) < 2:
                continue  # one way alone may unfreeze later what was frozen before
            found = found[0], found[1] == both[True]
        if found is None:
            continue
        name, trains = found
        frozen, trained = FROZEN.search(name) is not None, TRAINED.search(name) is not None
        if (frozen and not trained and trains) or (trained and not frozen and not trains):
            yield Finding(
                "", "", RULE.severity, event.place,
                say("what is in `{name}` gets `requires_grad={trains}`, and all else the opposite: the test is the "
                    "wrong way round", name=name, trains=trains),
            )  # fmt: skip


def _listed(source: object, trains: bool = True) -> tuple[str, bool] | None:
    """The list whose members get `requires_grad` True (or False), if the expression is a test of membership."""
    if isinstance(source, ir.Unary) and source.op == "not":
        return _listed(source.value, not trains)
    if isinstance(source, ir.Compare) and source.ops in (("in",), ("not in",)):
        name = _name(source.rights[0])
        return (name, trains == (source.ops == ("in",))) if name else None
    if (
        isinstance(source, ir.Call)
        and isinstance(source.func, ir.Name)
        and source.func.id == "any"
        and len(source.args) == 1
    ):
        inner = source.args[0]
        if isinstance(inner, ir.Comp) and len(inner.generators) == 1:
            name = _name(inner.generators[0].iter)
            return (name, trains) if name else None
    return None


def _name(e: ir.Expr) -> str:
    return e.id if isinstance(e, ir.Name) else e.name if isinstance(e, ir.Attr) else ""


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Turn the test round.

    Needs: the place is the attribute that is assigned.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    target: Any = tree.exactly(finding.place, cst.Attribute)
    assign: Any = tree.parent(tree.parent(target)) if target is not None else None
    if not isinstance(assign, cst.Assign):
        return None
    value = assign.value
    if isinstance(value, cst.Comparison) and len(value.comparisons) == 1:
        operator = value.comparisons[0].operator
        other = "not in" if isinstance(operator, cst.In) else "in"
        code = f"{tree.code(value.left)} {other} {tree.code(value.comparisons[0].comparator)}"
    elif isinstance(value, cst.UnaryOperation):
        code = tree.code(value.expression)
    else:
        code = f"not {tree.code(value)}"
    return Fix(say("Turn the test round"), Applicability.UNSAFE, (tree.replace(value, code),))


RULE = Rule(code="GL512", severity=Severity.WARNING, check=check)
