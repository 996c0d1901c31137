"""A module's `__init__` assigns layers or parameters before `super().__init__()` has run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ... import ir
from ...edits import Applicability, Fix, FixContext
from ...facts import Class, External, Function, Object
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

# However it is written: `super().__init__()`, `super(Net, self).__init__()`, `nn.Module.__init__(self)`.
INITIALIZES = re.compile(r"(?:super\([^()]*\)|[A-Za-z_][\w.]*)\.__init__\(")


def check(flow: Flow) -> Iterable[Finding]:
    told: set[int] = set()
    for event in flow.of(events.Raised):
        owner = event.data.get("owner")
        if event.rule != "missing-super-init" or not isinstance(owner, Object) or id(owner) in told:
            continue
        if not isinstance(owner.cls, Class) or owner.cls.open:
            continue
        maker = next((base for base in owner.cls.mro if isinstance(base, Class) and "__init__" in base.names), None)
        if not flow.whole and maker is not None and not any(isinstance(base, External) for base in maker.bases):
            continue  # nothing here makes one, and the base is another class of the project: it may be a pattern to copy
        told.add(id(owner))
        init = maker.names["__init__"] if maker is not None else None
        trail = ()
        if isinstance(init, Function) and isinstance(init.code, ir.Def):
            start, end = ir.unpack(init.code.name_at)
            place = Place(init.module.path, init.base + start, init.base + end)
            trail = (Step(place, say("no call of `super().__init__()` comes before")),)
        yield Finding(
            "", "", RULE.severity, event.place,
            say("`{message}` is assigned before `Module.__init__()` was called: this raises AttributeError; call "
                "`super().__init__()` first", message=event.message), trail,
        )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Call it first.

    Needs: the place lies in the `__init__` (the target of the first assignment that fails).
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    init: Any = next((one for one in tree.nodes(cst.FunctionDef) if one.name.value == "__init__"), None)
    if init is None or not isinstance(init.body, cst.IndentedBlock):
        return None
    first, *others = init.body.body
    late = next((s for s in others if INITIALIZES.match(tree.code(s))), None)
    if (
        others
        and isinstance(first, cst.SimpleStatementLine)
        and isinstance(first.body[0], cst.Expr)
        and isinstance(first.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    ):
        first = others[0]  # below the docstring
    if isinstance(late, cst.SimpleStatementLine):  # called again it would forget what is registered by then
        if not set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", _arguments(tree.code(late)))) <= _given(init):
            return None  # what it is given may be computed above it
        return Fix(say("Call super().__init__() first"), Applicability.SAFE, tree.move_before(late.body[0], first))
    edit = tree.insert_before(first, "super().__init__()")
    return Fix(say("Call super().__init__() first"), Applicability.SAFE, (edit,))


def _arguments(call: str) -> str:
    return call[call.index(".__init__(") + len(".__init__(") :]


def _given(init: Any) -> set[str]:
    """The names of a function's parameters."""
    every = (*init.params.posonly_params, *init.params.params, *init.params.kwonly_params)
    return {one.name.value for one in every} | {"True", "False", "None"}


RULE = Rule(code="GL504", severity=Severity.ERROR, check=check)
