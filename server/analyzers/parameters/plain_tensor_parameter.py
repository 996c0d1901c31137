"""A tensor with `requires_grad=True` is assigned in a module: it is no Parameter, and nobody trains it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...facts import Leaf, Object, Tensor, Union
from ...findings import Finding, Severity
from ...flow import events
from ...flow.modules import CONTAINERS, library_class, registered
from ...flow.objects import is_module
from ...messages import say
from ...rule import Rule
from ._held import DEPTH, all_known, held, leaves_in

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    found: dict[Leaf, events.Attribute] = {}
    for event in flow.of(events.Attribute):
        owner, value = event.owner, event.value
        if not isinstance(owner, Object) or not isinstance(value, Tensor) or not is_module(owner):
            continue
        leaf = value.leaf
        if leaf is not None and leaf.kind == "tensor" and event.own and event.in_forward is None:
            found.setdefault(leaf, event)
    if not found or not all_known(flow):
        return
    optimized = held(flow)
    reached = {leaf for event in flow.of(events.Backward) if not event.grad for leaf in event.reached}
    for leaf, event in found.items():
        owner = event.owner
        assert isinstance(owner, Object)
        if leaf in optimized or leaf not in reached or leaf.cells.get("requires_grad") is not True:
            continue
        if leaf.cells.get("escaped") or owner.cells.get("escaped") or event.value_place is None:
            continue
        if not any(other in optimized for other in _beside(flow, owner)):
            continue  # nobody trains this module at all
        yield Finding(
            "", "", RULE.severity, event.value_place,
            say("`{name}` requires grad but is no `nn.Parameter`: the module does not register it, and no optimizer "
                "holds it", name=event.name),
        )  # fmt: skip


def _beside(flow: Flow, owner: Object) -> list[Leaf]:
    """The parameters of the module, and of the modules that hold it, be it in a list of theirs."""
    leaves = leaves_in(flow, owner)
    for obj in flow.objects:
        if obj is not owner and is_module(obj) and any(owner is held for held in _holds(flow, obj)):
            leaves += leaves_in(flow, obj)
    return leaves


def _holds(flow: Flow, obj: Object, depth: int = DEPTH) -> Iterator[Object]:
    """The modules that one has, in containers of torch, too."""
    assert flow.run is not None
    for child in registered(flow.run, obj):
        for option in child.options if isinstance(child, Union) else (child,):
            if isinstance(option, Object):
                yield option
                if depth and library_class(option) in CONTAINERS:
                    yield from _holds(flow, option, depth - 1)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Make it a Parameter.

    Needs: the place is the call that makes the tensor (`torch.ones(4, requires_grad=True)`).
    """
    tree = context.class_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    made: Any = tree.exactly(finding.place, cst.Call)
    owner: Any = made and tree.enclosing(made, cst.ClassDef)
    bases = [tree.code(base.value) for base in owner.bases] if owner is not None else []
    module = next((base.removesuffix("Module") for base in bases if base.endswith(".Module")), None)
    if module is None:
        return None
    if isinstance(made.func, cst.Attribute) and made.func.attr.value == "requires_grad_" and not made.args:
        text = tree.code(made.func.value)
    else:
        kept = [arg for arg in made.args if arg.keyword is None or arg.keyword.value != "requires_grad"]
        text = f"{tree.code(made.func)}({', '.join(_code(tree, arg) for arg in kept)})"
    return Fix(say("Make it a Parameter"), Applicability.SAFE, (tree.replace(made, f"{module}Parameter({text})"),))


def _code(tree: Tree, arg: Any) -> str:
    value = f"{arg.star}{tree.code(arg.value)}"
    return f"{arg.keyword.value}={value}" if arg.keyword else value


RULE = Rule(code="GL509", severity=Severity.WARNING, check=check)
