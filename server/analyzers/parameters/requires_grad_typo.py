"""An attribute that is a slip away from `requires_grad` is assigned: it is new, and nothing is frozen by it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Object, ParameterOf, Tensor
from ...findings import Finding, Severity
from ...flow import events
from ...flow.objects import is_module
from ...messages import say
from ...rule import Rule
from ...torchlib import NAMES

if TYPE_CHECKING:
    from ...flow import Flow

# What people write for `requires_grad`: an s too few or too many, another ending, another spelling.
SLIP = re.compile(r"re?qu?i?re?(s|d)?_?gr?ads?(ient|ients)?_?", re.IGNORECASE)

# `_requires_grad` is a private note of its own that some libraries leave on modules which they have frozen.
CLOSE = 0.9  # "requires_gard" is 0.92, "requires_graph" 0.89


def check(flow: Flow) -> Iterable[Finding]:
    for event in flow.of(events.Attribute):
        name = event.name
        if name in ("requires_grad", "_requires_grad") or not (SLIP.fullmatch(name) or _close(name)):
            continue
        owner = event.owner
        if not isinstance(owner, (Tensor, ParameterOf)) and not (
            isinstance(owner, Object) and is_module(owner) and not event.own
        ):
            continue
        meant = "requires_grad_(...)" if isinstance(owner, Object) else "requires_grad"
        yield Finding(
            "", "", RULE.severity, event.place,
            say("`{name}` is a new attribute that torch does not know: `{meant}` was meant, and nothing changes",
                name=name, meant=meant),
            data=(("module", isinstance(owner, Object)),),
        )  # fmt: skip


@functools.lru_cache(NAMES)
def _close(name: str) -> bool:
    """Whether two letters were swapped, or the like."""
    return SequenceMatcher(None, name, "requires_grad").ratio() > CLOSE


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Spell it right.

    Needs: the place is the attribute that is assigned (`param.require_grad`).
    """
    tree = context.tree(finding.place)
    target: Any = tree and tree.exactly(finding.place, tree.cst.Attribute)
    if tree is None or target is None:
        return None
    if "requires_grad_(" in finding.message:
        return None  # of a module: another rule's fix comes after the right spelling
    return Fix(say("Spell it requires_grad"), Applicability.SAFE, (tree.replace(target.attr, "requires_grad"),))


RULE = Rule(code="GL505", severity=Severity.WARNING, check=check)
