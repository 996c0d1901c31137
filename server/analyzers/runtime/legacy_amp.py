"""`torch.cuda.amp` is the old place of `autocast` and `GradScaler`; it is deprecated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

OLD = {
    f"torch.{device}.amp.{name}": (device, name) for device in ("cuda", "cpu") for name in ("autocast", "GradScaler")
}


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.called(*OLD):
        device, name = OLD[event.name]
        yield Finding(
            "", "", RULE.severity, event.place,
            say("`{old}` is deprecated: write `{new}`",
                old=event.name, new=f"torch.amp.{name}({device!r}, ...)"), tags=("deprecated",),
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call it by its new name, with the device.

    Needs: the place is the call, and the function is written as `torch.cuda.amp.name` or `torch.cpu.amp.name`.
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    if call is None or tree.code(call.func) not in OLD:
        return None
    device, name = OLD[tree.code(call.func)]
    positional = [arg for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in call.args) or (positional and name == "autocast"):
        return None  # `autocast` has its arguments in another order now
    inner = tree.span(call.func)[1]
    start = tree.text(inner, finding.place.end).index("(") + inner + 1
    rest = ", " if call.args else ""
    return Fix(
        say("Use torch.amp.{name}", name=name), Applicability.SAFE,
        (tree.replace(call.func, f"torch.amp.{name}"), Edit(tree.path, start, start, f'"{device}"{rest}')),
    )  # fmt: skip


RULE = Rule(code="GL604", severity=Severity.INFO, check=check)
