"""What a program does with a list or dict of a module that torch's own containers can do as well, and what not.

Tried on torch: `ModuleList` and `ParameterList` are iterated over, indexed and sliced as a list is; but they are none, so
`torch.cat` refuses them, nothing is added to them with `+`, and they lack most of a list's methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...edits import Edit, FixContext, Tree

# The methods that torch's containers have, and that do there what they do in a list or dict.
_METHODS = {
    ("module", "list"): {"append", "extend", "insert"},
    ("parameter", "list"): {"append", "extend"},
    ("module", "dict"): {"items", "keys", "values", "update", "pop", "clear"},
    ("parameter", "dict"): {"items", "keys", "values", "update", "pop", "clear", "get", "setdefault", "popitem"},
}
# Calls that only iterate over what they are given, or count it.
_ITERATE = frozenset(
    ["all", "any", "bool", "dict", "enumerate", "filter", "id", "iter", "len", "list", "map", "max", "min", "reversed", "set",
     "sorted", "sum", "tuple", "zip", "chain", "product", "reduce", "deepcopy", "clip_grad_norm_", "clip_grad_value_",
     "parameters_to_vector", "ModuleList", "ParameterList", "ModuleDict", "ParameterDict"]
)  # fmt: skip
# Functions of torch that take a list or a tuple, and nothing that is like one.
_SEQUENCES = frozenset(
    ["cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack", "multi_dot",
     "chain_matmul", "pad_sequence", "cartesian_prod", "sample"]
)  # fmt: skip
# A key that is the name of an attribute of torch's container is refused.
_TAKEN = frozenset(
    ["T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "clear", "compile",
     "copy", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "fromkeys", "get",
     "get_buffer", "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "items", "keys", "load_state_dict",
     "modules", "mtia", "named_buffers", "named_children", "named_modules", "named_parameters", "parameters", "pop",
     "popitem", "requires_grad_", "set_extra_state", "set_submodule", "setdefault", "share_memory", "state_dict", "to",
     "to_empty", "train", "training", "type", "update", "values", "xpu", "zero_grad"]
)  # fmt: skip

RIGHT, UNSURE, WRONG = "right", "unsure", "wrong"


def key_fits(key: str) -> bool:
    """Whether a ModuleDict or ParameterDict takes this key."""
    return bool(key) and "." not in key and key not in _TAKEN and not key.startswith(("_", "register_"))


def uses(context: FixContext, home: Tree, owner: Any, name: str, holds: str, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """Whether the uses of `self.name` of the class `owner` go on as they are, and the edits that some of them need.

    `home` is the tree of the file of the class. What another class calls `self.name` is its own, unless it is made of
    this one. Wrong: one of them fails with torch's container; unsure: one of them gives it away.
    """
    verdict, edits = RIGHT, []
    for tree, node in _reads(context, home, owner, name):
        found, edit = _use(tree, node, holds, kind)
        if found == WRONG:
            return WRONG, ()
        verdict = found if found == UNSURE else verdict
        edits += edit
    return verdict, tuple(edits)


def _reads(context: FixContext, home: Tree, owner: Any, name: str) -> Iterator[tuple[Tree, Any]]:
    """Where `.name` stands that may be the attribute of an instance of the class, in all files that are known."""
    for path in (home.path, *(path for path in context.mentioning(f".{name}") if path != home.path)):
        tree = home if path == home.path else context.file_tree(path)
        if tree is None:
            continue
        cst = tree.cst
        for node in tree.nodes(cst.Attribute):
            if node.attr.value != name:
                continue
            if isinstance(node.value, cst.Name) and node.value.value == "self":
                around = [one for one in tree.ancestors(node) if isinstance(one, cst.ClassDef)]
                if owner not in around and not any(_is_made_of(tree, one, owner.name.value) for one in around):
                    continue
            yield tree, node


def _is_made_of(tree: Tree, cls: Any, name: str) -> bool:
    return any(tree.code(base.value).rpartition(".")[2] == name for base in cls.bases)


def _use(tree: Tree, node: Any, holds: str, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """What one use is worth; `node` is the container, or a slice of it."""
    cst = tree.cst
    outer: Any = tree.parent(node)
    if isinstance(outer, cst.Attribute):
        call = tree.parent(outer)
        if outer.value is not node or not isinstance(call, cst.Call) or call.func is not outer:
            return WRONG, ()
        method = outer.attr.value
        fits = method in _METHODS[holds, kind] or (method == "pop" and holds == "module" and bool(call.args))
        return (RIGHT if fits else WRONG), ()
    if isinstance(outer, cst.Subscript):
        if isinstance(tree.parent(outer), cst.Del):
            return (RIGHT if (holds, kind) != ("parameter", "list") else WRONG), ()
        if any(isinstance(element.slice, cst.Slice) for element in outer.slice):
            return (WRONG, ()) if isinstance(tree.parent(outer), cst.AssignTarget) else _use(tree, outer, holds, kind)
        return RIGHT, ()
    if isinstance(outer, (cst.AssignTarget, cst.AnnAssign)) and outer.target is node:
        return RIGHT, ()  # the assignment itself; others are seen by whoever asks
    if isinstance(outer, cst.AugAssign) and outer.target is node:
        return (RIGHT if kind == "list" and isinstance(outer.operator, cst.AddAssign) else WRONG), ()
    if isinstance(outer, (cst.For, cst.CompFor)) and outer.iter is node:
        return RIGHT, ()
    if isinstance(outer, (cst.StarredElement, cst.StarredDictElement)):
        return RIGHT, ()
    if isinstance(outer, (cst.If, cst.While, cst.IfExp)) and outer.test is node:
        return RIGHT, ()
    if isinstance(outer, cst.UnaryOperation) and isinstance(outer.operator, cst.Not):
        return RIGHT, ()
    if isinstance(outer, cst.ComparisonTarget):
        return (RIGHT if isinstance(outer.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)) else WRONG), ()
    if isinstance(outer, cst.Comparison):
        same = all(isinstance(target.operator, (cst.Is, cst.IsNot)) for target in outer.comparisons)
        return (RIGHT if same else WRONG), ()
    if isinstance(outer, cst.BinaryOperation):
        return _as_list(tree, node, kind)
    if isinstance(outer, cst.Arg):
        return _given(tree, node, outer, kind)
    return UNSURE, ()


def _given(tree: Tree, node: Any, arg: Any, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """A use as an argument of a call."""
    cst = tree.cst
    call: Any = tree.parent(arg)
    if arg.star:
        return RIGHT, ()
    if not isinstance(call, cst.Call):
        return UNSURE, ()
    whole = tree.code(call.func)
    function = whole.rpartition(".")[2]
    if function == "isinstance":
        return WRONG, ()
    if function in _SEQUENCES:
        return _as_list(tree, node, kind)
    if function in _ITERATE or "optim." in whole:
        return RIGHT, ()
    return UNSURE, ()


def _as_list(tree: Tree, node: Any, kind: str) -> tuple[str, tuple[Edit, ...]]:
    """A list must stand here: one is made of what the container holds."""
    if kind == "dict":
        return WRONG, ()
    return RIGHT, (tree.replace(node, f"list({tree.code(node)})"),)
