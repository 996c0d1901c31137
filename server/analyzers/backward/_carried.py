"""State that a loop carries from one pass to the next, and the graph of the last pass with it."""

from __future__ import annotations

from typing import Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding
from ...messages import say


def let_go(tree: Tree, context: FixContext, loss: Any, finding: Finding) -> Fix | None:
    """Detach, behind the backward of `loss` in a loop, what carries the graph into the next pass.

    A `retain_graph=True` that was to keep that graph goes with it, where nothing else needs it.
    """
    pair = any("LSTM" in step.note for step in finding.trail)
    kept = _retained(tree, loss)
    for names in _states(tree, loss):
        lines = (f"{name} = {_detached(name, pair and len(names) == 1)}" for name in names)
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


def _detached(name: str, pair: bool) -> str:
    return f"tuple(state.detach() for state in {name})" if pair else f"{name}.detach()"


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
