"""`copy.deepcopy` of a tensor that has a graph, or of something that holds one, which raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...edits import Applicability, Edit, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.trails import call_steps
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not flow.whole and not any(e.reached and e.always and not e.branches for e in flow.of(events.Backward)):
        return  # a caller that is not known may have turned gradients off
    refused = [event for event in flow.of(events.Raised) if event.rule == "deepcopy-of-graph"]
    for event in refused:
        if event.branches and not _always(flow, event, refused):
            continue
        made = tuple(Step(place, say("it is computed here")) for place, _ in event.trail)
        trail = (*made, *call_steps(event.stack))
        if event.message:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} meets a tensor with a graph ({path}) and raises: torch makes deep copies of "
                    "leaves only", code=flow.code(event.place), path=f"`{event.message}`"),
                trail, data=(("inside", "yes"),),
            )  # fmt: skip
        else:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} copies a tensor with a graph, which raises: `.detach().clone()` copies its values",
                    code=flow.code(event.place)), trail,
            )  # fmt: skip


def _always(flow: Flow, event: events.Raised, refused: list[events.Raised]) -> bool:
    """Whether it raises whenever it is reached: what a condition has chosen may be another iteration than this."""
    calls = [call for call in flow.called("copy.deepcopy") if call.place == event.place]
    return len(calls) == len([other for other in refused if other.place == event.place])


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Copy the values. What raised had no effect, so this takes nothing away.

    Needs: the place is the call (`copy.deepcopy(x)`).
    """
    tree = context.scope_tree(finding.place)
    if tree is None or finding.get("inside"):
        return None
    cst = tree.cst
    call = tree.exactly(finding.place, cst.Call)
    if call is None or len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
        return None
    given = call.args[0].value
    if not isinstance(given, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
        return None
    start, end = tree.span(call)
    edit = Edit(tree.path, start, end, f"{tree.code(given)}.detach().clone()")
    safety = Applicability.UNSAFE if tree.varies(given) else Applicability.SAFE  # anything can be copied deeply
    return Fix(say("Copy the values: `.detach().clone()`"), safety, (edit,))


RULE = Rule(code="GL112", severity=Severity.ERROR, check=check)
