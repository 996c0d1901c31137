"""A functional dropout does not know the module's mode: without `training=` it goes on in evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Const, Union
from ...findings import Finding, Severity
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

# Position of `training`; by default it is True in these alone (alpha_dropout and rrelu have False).
DROPOUTS = {f"torch.nn.functional.{name}": 2 for name in ("dropout", "dropout1d", "dropout2d", "dropout3d")}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.called(*DROPOUTS):
        if event.in_forward is None or event.training is not (False if flow.whole else None) or not event.certain:
            continue
        if "training" in event.keywords or len(event.args) > DROPOUTS[event.name] or event.spread:
            continue
        p = event.args[1] if len(event.args) > 1 else event.keywords.get("p")
        if any(isinstance(one, Const) and one.value == 0 for one in (p.options if isinstance(p, Union) else (p,))):
            continue
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{call} does not look at the module's mode: without `training=self.training` it goes on in "
                "evaluation", call=flow.code(event.place)),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Ask the module.

    Needs: the place is the call; it stands in a method whose first parameter is the module.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call = tree.exactly(finding.place, cst.Call)
    method = tree.enclosing(call, cst.FunctionDef) if call is not None else None
    if call is None or method is None or not call.args or not method.params.params:
        return None
    me = method.params.params[0].name.value
    if me != "self":
        return None
    end = tree.span(call.args[-1].value)[1]
    return Fix(say("Ask the module"), Applicability.SAFE, (Edit(tree.path, end, end, f", training={me}.training"),))


RULE = Rule(code="GL804", severity=Severity.WARNING, check=check)
