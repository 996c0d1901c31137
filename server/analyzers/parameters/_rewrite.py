"""Rewriting what a module is given: shared by the fixes of this family."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...edits import Edit, Tree

if TYPE_CHECKING:
    import libcst


def package(tree: Tree) -> str | None:
    """How the class of a tree writes `torch.nn` (`nn`, `torch.nn`), from the base class that it names; else None."""
    cst = tree.cst
    for node in tree.nodes(cst.ClassDef):
        for base in node.bases:
            code = tree.code(base.value)
            if code.endswith(".Module"):
                return code.removesuffix(".Module")
    return None


def method(tree: Tree, name: str) -> Any:
    """The method of this name of the outermost class in the tree."""
    cst = tree.cst
    cls = next(iter(tree.nodes(cst.ClassDef)), None)
    if cls is None or not isinstance(cls.body, cst.IndentedBlock):
        return None
    return next((s for s in cls.body.body if isinstance(s, cst.FunctionDef) and s.name.value == name), None)


def within(tree: Tree, node: libcst.CSTNode, *types: Any) -> Iterator[Any]:
    """The nodes of these types inside of a node, itself included."""
    start, end = tree.span(node)
    for inner in tree.nodes(*types):
        first, last = tree.span(inner)
        if start <= first and last <= end:
            yield inner


def without_keyword(tree: Tree, call: Any, name: str) -> Edit | None:
    """The edit that takes a keyword argument out of a call."""
    for index, arg in enumerate(call.args):
        if arg.keyword is None or arg.keyword.value != name:
            continue
        start, end = tree.span(arg.keyword)[0], tree.span(arg.value)[1]
        if index:
            return Edit(tree.path, tree.span(call.args[index - 1].value)[1], end, "")
        if len(call.args) > 1:
            following = call.args[1]
            return Edit(tree.path, start, tree.span(following.keyword or following.value)[0], "")
        return Edit(tree.path, start, end, "")
    return None


def rewrite(tree: Tree, node: libcst.CSTNode, edits: list[Edit]) -> str:
    """The code of a node after edits inside of it."""
    start, _ = tree.span(node)
    code = tree.code(node)
    for edit in sorted(edits, reverse=True):
        code = code[: edit.start - start] + edit.content + code[edit.end - start :]
    return code


def around(tree: Tree, value: Any) -> str | None:
    """`nn.Parameter(x) * 2` as `nn.Parameter(x * 2)`; None if there is not exactly one plain Parameter in it."""
    cst = tree.cst
    made = [c for c in within(tree, value, cst.Call) if tree.code(c.func).rpartition(".")[2] == "Parameter"]
    if len(made) != 1 or made[0] is value:
        return None
    call = made[0]
    if not call.args or call.args[0].keyword is not None or call.args[0].star:
        return None
    data = call.args[0].value
    rest = "".join(f", {tree.code(arg)}" for arg in call.args[1:])
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber)
    inner = tree.code(data) if isinstance(data, atoms) else f"({tree.code(data)})"
    return f"{tree.code(call.func)}({rewrite(tree, value, [tree.replace(call, inner)])}{rest.rstrip(', ')})"


def late_flag(tree: Tree, value: Any) -> str | None:
    """`2 * torch.randn(3, requires_grad=True)` as `(2 * torch.randn(3)).requires_grad_()`; None if it is no such thing."""
    cst = tree.cst
    asked = [
        call
        for call in within(tree, value, cst.Call)
        if any(a.keyword is not None and a.keyword.value == "requires_grad" and tree.code(a.value) == "True" for a in call.args)
    ]
    if len(asked) != 1 or asked[0] is value:
        return None
    edit = without_keyword(tree, asked[0], "requires_grad")
    if edit is None:
        return None
    code = rewrite(tree, value, [edit])
    atoms = (cst.Name, cst.Attribute, cst.Call, cst.Subscript)
    return f"{code}.requires_grad_()" if isinstance(value, atoms) else f"({code}).requires_grad_()"
