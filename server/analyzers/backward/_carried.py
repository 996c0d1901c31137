"""State that a loop carries from one pass to the next, and the graph of the last pass with it."""

from __future__ import annotations

from typing import Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...facts import Sequence, Tensor, Union
from ...findings import Finding, Place
from ...messages import say

Form = tuple[str, ...]  # how tensors lie in one another's containers, the outermost first


def let_go(tree: Tree, context: FixContext, loss: Any, finding: Finding) -> Fix | None:
    """Detach, behind the backward of `loss` in a loop, what carries the graph into the next pass.

    A `retain_graph=True` that was to keep that graph goes with it, where nothing else needs it.
    """
    kept = _retained(tree, loss)
    for names in _states(tree, loss):
        forms = {name: _form_after(tree, context, loss, name) for name in names}
        lines = [f"{name} = {_detached(name, form)}" for name, form in forms.items() if form]
        if len(lines) < len(names):
            continue
        edits = (tree.insert_after(tree.statement(loss), *lines),)
        for tried in ((*kept, *edits), edits) if kept else (edits,):
            if context.cures(tried):
                return Fix(say("Let go of the graph of the last pass"), Applicability.SAFE, tried)
    return None


def _retained(tree: Tree, loss: Any) -> tuple[Edit, ...]:
    """The edit that takes `retain_graph=True` away, if that is all that the backward is told."""
    cst = tree.cst
    call: Any = tree.enclosing(loss, cst.Call)
    if (
        call is None
        or len(call.args) != 1
        or call.args[0].keyword is None
        or call.args[0].keyword.value != "retain_graph"
    ):
        return ()
    start, end = tree.span(call)
    return (Edit(tree.path, tree.span(call.func)[1], end, "()"),) if start <= tree.span(loss)[0] else ()


def _form_after(tree: Tree, context: FixContext, loss: Any, name: str) -> Form:
    """What a name is directly behind the backward, on every pass: asked of the program with the name as a statement."""
    asked = tree.insert_after(tree.statement(loss), name)
    start = asked.start + asked.content.index(name)
    forms = set(context.values((asked,), Place(tree.path, start, start + len(name)), form_of))
    return forms.pop() if len(forms) == 1 else ()  # type: ignore[return-value]


def form_of(value: object) -> Form:
    """What surely holds nothing but tensors: `("tensor",)`, `("tuple", "tensor")`, `("list", "tuple", "tensor")`; else nothing."""
    if isinstance(value, Tensor):
        return () if value.opaque else ("tensor",)
    if isinstance(value, Sequence) and value.kind in ("tuple", "list"):
        items = value.cells.get("items")
        inner = {form_of(item) for item in (items if isinstance(items, tuple) else (value.cells.get("each"),))}
        below = inner.pop() if len(inner) == 1 else ()
        return (value.kind, *below) if below else ()
    if isinstance(value, Union):
        forms = {form_of(option) for option in value.options}
        return forms.pop() if len(forms) == 1 else ()
    return ()


def _detached(name: str, form: Form, inside: str = "state") -> str:
    kind, *below = form
    if kind == "tensor":
        return f"{name}.detach()"
    each = f"{_detached(inside, tuple(below), 'part')} for {inside} in {name}"
    return f"tuple({each})" if kind == "tuple" else f"[{each}]"


def _states(tree: Tree, second: Any) -> list[list[str]]:
    """What may be let go of: in the loop around the backward, the names that a call both takes and makes anew."""
    cst = tree.cst
    loop: Any = tree.enclosing(second, cst.For, cst.While)
    if loop is None or tree.parent(tree.statement(second)) is not loop.body:
        return []
    start, end = tree.span(loop)
    found: list[list[str]] = []
    for assign in tree.nodes(cst.Assign):
        if not start <= tree.span(assign)[0] < end or not isinstance(assign.value, cst.Call):
            continue
        made = {name.value for target in assign.targets for name in tree.names(target.target)}
        made |= {tree.code(target.target) for target in assign.targets if isinstance(target.target, cst.Attribute)}
        taken = [tree.code(one) for arg in assign.value.args for one in _taken(tree, arg.value)]
        if names := [name for name in dict.fromkeys(taken) if name in made]:
            found.append(names)
    return found


def _taken(tree: Tree, value: Any) -> list[Any]:
    """The names and attributes that an argument hands over, in a tuple or a list too."""
    cst = tree.cst
    if isinstance(value, (cst.Tuple, cst.List)):
        return [one for element in value.elements for one in _taken(tree, element.value)]
    return [value] if isinstance(value, (cst.Name, cst.Attribute)) else []
