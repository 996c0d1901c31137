"""A layer, a parameter or a dropout is made in `forward`: it is new at every call, and nobody trains or switches it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...facts import Class, External, Leaf, Object, Tensor
from ...findings import Finding, Place, Severity
from ...flow import events
from ...flow.modules import leaves_of, library_class
from ...flow.objects import is_module
from ...flow.operations import flatten
from ...flow.training import walk
from ...messages import say
from ...rule import Rule
from ._held import held, registrations

if TYPE_CHECKING:
    from ...flow import Flow

DROPOUTS = frozenset(
    f"torch.nn.{name}"
    for name in ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU"]
)


def check(flow: Flow) -> Iterable[Finding]:
    yield from _layers(flow)
    yield from _parameters(flow)


def _layers(flow: Flow) -> Iterable[Finding]:
    made = [
        e for e in flow.of(events.Made) if e.in_forward is not None and e.in_forward is not e.obj and is_module(e.obj)
    ]
    if not made:
        return
    modules, _ = registrations(flow)
    optimized = held(flow)
    assert flow.run is not None
    calls: dict[tuple[Place, int], int] = {}
    for event in made:
        key = event.place, id(event.in_forward)
        calls[key] = calls.get(key, 0) + 1
    inside = {id(m) for e in made for m in _below(e.obj)}
    for event in made:
        obj = event.obj
        if id(obj) in inside or obj.cells.get("escaped") or not event.certain:
            continue
        leaves = event.leaves
        kept = id(obj) in modules
        if kept and calls[event.place, id(event.in_forward)] < 2:
            continue  # made once and kept: a lazy layer
        if not kept and not set(leaves).isdisjoint(leaves_of(flow.run, event.in_forward)[0]):  # type: ignore[arg-type]
            continue  # a container of layers that the module has: only the container is new
        if any(leaf in optimized or leaf.cells.get("requires_grad") is not True for leaf in leaves):
            continue
        if leaves:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} is made in `forward`: it is new and untrained at every call, and no optimizer holds it",
                    code=flow.code(event.place)),
            )  # fmt: skip
        elif library_class(obj) in DROPOUTS and isinstance(obj.cls, External) and event.training is not True:
            yield Finding(
                "", "", RULE.severity, event.place,
                say("{code} is made in `forward`, always in training mode: `eval()` does not reach it",
                    code=flow.code(event.place)),
            )  # fmt: skip


def _below(obj: Object) -> list[Object]:
    """The modules that a module holds: they are told of with it."""
    found = [v for v in obj.attrs.values() if isinstance(v, Object)] if isinstance(obj.cls, Class) else []
    items = obj.cells.get("items")
    return found + [v for v in items if isinstance(v, Object)] if isinstance(items, tuple) else found


def _parameters(flow: Flow) -> Iterable[Finding]:
    made = [e for e in flow.called("parameter-in-forward") if e.certain and isinstance(e.result, Tensor)]
    if not made:
        return
    _, parameters = registrations(flow)
    optimized = held(flow)
    used = _used(flow)
    frozen = {
        event.target.leaf for event in flow.of(events.GradFlag) if isinstance(event.target, Tensor) and not event.value
    }
    calls: dict[tuple[Place, int], int] = {}
    for event in made:
        key = event.place, id(event.in_forward)
        calls[key] = calls.get(key, 0) + 1
    for event in made:
        assert isinstance(event.result, Tensor)
        leaf = event.result.leaf
        if not isinstance(leaf, Leaf) or leaf in optimized or leaf.cells.get("requires_grad") is not True:
            continue
        if leaf in frozen:
            continue
        if leaf.cells.get("escaped") or (leaf in parameters and calls[event.place, id(event.in_forward)] < 2):
            continue
        if flow.whole and leaf not in used:
            continue  # a state that `forward` keeps by hand, and that no gradient is asked of
        yield Finding(
            "", "", RULE.severity, event.place,
            say("{code} is made in `forward`: it is new at every call, and no optimizer holds it",
                code=flow.code(event.place)),
        )  # fmt: skip


def _used(flow: Flow) -> set[Leaf]:
    """The leaves of which a gradient is asked, or may be: by a backward, or by whoever gets what a module computes."""
    used = {leaf for event in flow.of(events.Backward) for leaf in event.reached}
    for event in flow.of(events.Forward):
        for value in flatten(event.result):
            if isinstance(value, Tensor) and event.inside is None:
                found = walk(value.node)
                used |= {*found.sure, *found.maybe}
    return used


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Build it once, at the end of `__init__`.

    Needs: the place is the call that makes it (`nn.Linear(self.width, 4)`, `nn.Parameter(...)`).
    """
    tree = context.class_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    made: Any = tree.exactly(finding.place, cst.Call)
    owner: Any = made and tree.enclosing(made, cst.ClassDef)
    if made is None or owner is None:
        return None
    init: Any = next(
        (m for m in owner.body.body if isinstance(m, cst.FunctionDef) and m.name.value == "__init__"), None
    )
    if init is None or not isinstance(init.body, cst.IndentedBlock):
        return None
    local = {name.value for arg in made.args for name in tree.names(arg)}
    targets = [target for target in tree.nodes(cst.AssignTarget) if _inside(tree, target, init)]
    assigned = {tree.code(node) for target in targets for node in _own(tree, target)}
    wanted = {tree.code(node) for arg in made.args for node in _own(tree, arg)}
    forward: Any = tree.enclosing(made, cst.FunctionDef)
    bound = {name.value for name in _bound(tree, forward)} - {"self"}
    if local & bound or not wanted <= assigned:
        return None
    statement: Any = tree.parent(made)
    target = tree.code(statement.targets[0].target) if isinstance(statement, cst.Assign) else ""
    last = init.body.body[-1]
    if target.startswith("self."):
        edits = tree.delete(statement), tree.insert_after(last, tree.code(statement))
    else:
        kind = tree.code(made.func).rpartition(".")[2]
        stem = "".join(
            f"_{c.lower()}" if c.isupper() and n and not kind[n - 1].isupper() else c.lower()
            for n, c in enumerate(kind)
        )
        name = next(name for name in (f"self.{stem}", f"self.{stem}_layer", f"self.own_{stem}") if name not in assigned)
        edits = tree.replace(made, name), tree.insert_after(last, f"{name} = {tree.code(made)}")
    return Fix(say("Build it once, in __init__"), Applicability.SAFE, edits)


def _inside(tree: Tree, node: Any, outer: Any) -> bool:
    return tree.span(outer)[0] <= tree.span(node)[0] < tree.span(outer)[1]


def _own(tree: Tree, node: Any) -> list[Any]:
    """The attributes of self that are read in a node."""
    found = tree.nodes(tree.cst.Attribute)
    return [one for one in found if _inside(tree, one, node) and tree.code(one.value) == "self"]


def _bound(tree: Tree, function: Any) -> list[Any]:
    """The parameters and local names of a function."""
    cst = tree.cst
    params = [one.name for one in tree.nodes(cst.Param) if _inside(tree, one, function)]
    targets = [one for one in tree.nodes(cst.AssignTarget, cst.For, cst.NamedExpr) if _inside(tree, one, function)]
    return params + [name for one in targets for name in tree.names(one.target)]


RULE = Rule(code="GL503", severity=Severity.WARNING, check=check)
