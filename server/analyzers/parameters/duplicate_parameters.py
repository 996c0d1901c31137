"""An optimizer gets the same parameters twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._held import exact_groups, group_place, held

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    optimized = None
    for event in flow.of(events.OptimizerMade):
        if not event.arguments:
            continue
        groups = exact_groups(event.arguments[0])
        seen: dict[object, int] = {}
        for number, group in enumerate(groups):
            for leaf in group:
                if leaf not in seen:
                    seen[leaf] = number
                    continue
                where = event.argument_place or event.place
                made = getattr(event.arguments[0], "place", None)
                trail = (Step(made, say("the parameters are put together here")),) if made not in (None, where) else ()
                name = flow.names([leaf])
                if seen[leaf] != number:
                    again = group_place(event.arguments[0], number)
                    if again not in (None, where):
                        trail = (Step(again, say("this group has it again")), *trail)
                    yield Finding(
                        "", "", Severity.ERROR, where,
                        say("{name} is in two parameter groups: the optimizer raises \"some parameters appear in "
                            "more than one parameter group\"", name=name), trail,
                    )  # fmt: skip
                else:
                    optimized = held(flow) if optimized is None else optimized
                    yield Finding(
                        "", "", Severity.WARNING, where,
                        say("{name} is in the optimizer's parameters twice: torch warns of it, and each step moves "
                            "it two times", name=name),
                        trail,
                    )  # fmt: skip
                break
            else:
                continue
            break


RULE = Rule(code="GL514", severity=Severity.WARNING, check=check)
