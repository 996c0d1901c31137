"""Taking a squashing function off the scores: shared by the fixes of softmax and sigmoid before a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Finding, Place
from .._names import read_elsewhere
from ._inputs import PLAIN


def taken_away(finding: Finding, context: FixContext, message: str) -> Fix | None:
    """The fix that takes away what squashes the loss's input, at the end of the trail.

    Safe where that loss is all that gets it. Where its name is a probability to others, too, the loss is given what was
    squashed, if that has a name; else somebody has to look.
    """
    origin = finding.trail[-1].place
    edits = without(context, origin)
    if edits is None:
        return None
    safe = False
    tree = context.scope_tree(origin)
    loss: Any = tree and tree.exactly(finding.place, tree.cst.Call)
    call: Any = tree and tree.exactly(origin, tree.cst.Call)
    if (
        tree is not None
        and loss is not None
        and call is not None
        and context.scope(origin) == context.scope(finding.place)
    ):
        uses = _Uses(tree, loss, context)
        safe = not _does_more(tree, call) and uses.only_the_loss(_layered(tree, call) or call)
        instead = None if safe else uses.scores_instead(call)
        if instead is not None:
            return Fix(message, Applicability.SAFE, instead)
    return Fix(message, Applicability.SAFE if safe else Applicability.UNSAFE, edits)


# What may be done to a module and asks nothing of what it gives: `model.train()`, `model.parameters()`.
KEPT = frozenset(
    ["train", "eval", "to", "cuda", "cpu", "float", "double", "half", "bfloat16", "requires_grad_", "parameters",
     "named_parameters", "zero_grad", "training"]
)  # fmt: skip
SHAPE = frozenset(["shape", "size", "ndim", "dim", "device", "dtype", "numel"])


def _does_more(tree: Tree, call: Any) -> bool:
    """Whether it writes what it makes into a tensor that others may read, or into one of another dtype."""
    named = [arg.keyword.value for arg in call.args if arg.keyword is not None]
    return tree.code(call.func).endswith("_") or not {"out", "inplace", "dtype"}.isdisjoint(named)


def _layered(tree: Tree, call: Any) -> Any:
    """The `Sequential` that this call makes a layer of."""
    cst = tree.cst
    holder = tree.parent(tree.parent(call)) if isinstance(tree.parent(call), cst.Arg) else None
    inside = isinstance(holder, cst.Call) and tree.code(holder.func).rpartition(".")[2] == "Sequential"
    return holder if inside else None


class _Uses:
    """Where what an expression gives goes, in the function (or the file) of a loss."""

    def __init__(self, tree: Tree, loss: Any, context: FixContext) -> None:
        self._tree, self._loss, self._context = tree, loss, context
        self._scope = tree.enclosing(loss, tree.cst.FunctionDef, tree.cst.ClassDef)

    def only_the_loss(self, node: Any) -> bool:
        """Whether nothing but the loss gets this value, or what this `Sequential` makes of what it is called with."""
        layers = _name_of(self._tree, node) == "Sequential"
        top = self._passed_on(node, KEPT - {"training"} if layers else PLAIN)
        if not layers and self._is_input(top):
            return True
        return self._alone(top, self._module_use if layers else self._value_use)

    def scores_instead(self, call: Any) -> tuple[Edit, ...] | None:
        """The edit that gives the loss `scores` of `p = softmax(scores)`, if they stand in one block, and nothing speaks
        of `scores` in between."""
        tree, cst = self._tree, self._tree.cst
        scores: Any = _squashed(tree, call)
        made = tree.parent(call)
        given: Any = self._loss.args[0].value if self._loss.args and self._loss.args[0].keyword is None else None
        if not (isinstance(scores, cst.Name) and isinstance(made, cst.Assign) and len(made.targets) == 1):
            return None
        target = made.targets[0].target
        if not isinstance(given, cst.Name) or not isinstance(target, cst.Name) or given.value != target.value:
            return None
        if scores.value == target.value or _does_more(tree, call):
            return None
        first, last = tree.statement(made), tree.statement(self._loss)
        block = list(tree.block(first))
        if tree.parent(made) is not first or last not in block or block.index(last) <= block.index(first):
            return None
        if not isinstance(last, cst.SimpleStatementLine) or tree.enclosing(self._loss, cst.Lambda, cst.BaseComp):
            return None
        start, end = tree.span(made)[1], tree.span(self._loss)[0]
        between = [name for name in tree.names(tree.module) if start <= tree.span(name)[0] < end]
        if any(name.value == scores.value for name in between):
            return None
        if any(name.value == target.value and not self._is_loaded(name) for name in between):
            return None
        return (tree.replace(given, scores.value),)

    def _alone(self, node: Any, use: Callable[[Any], bool]) -> bool:
        """Whether a name is given to this value, and every use of that name is one of these."""
        tree, cst = self._tree, self._tree.cst
        made = tree.parent(node)
        if not isinstance(made, cst.Assign) or made.value is not node or len(made.targets) != 1:
            return False
        target = made.targets[0].target
        if not isinstance(target, cst.Name) or isinstance(self._scope, cst.ClassDef):
            return False
        if tree.enclosing(made, cst.FunctionDef, cst.ClassDef) is not self._scope:
            return False
        if self._scope is None and read_elsewhere(self._context, tree.path, target.value):
            return False
        names = [name for name in tree.names(tree.module) if name.value == target.value]
        if sum(map(self._is_bound, names)) == 1:
            return all(name is target or use(name) for name in names)
        return all(name is target or self._is_before(name, made, target.value) or use(name) for name in names)

    def _is_before(self, name: Any, made: Any, text: str) -> bool:
        """Whether a name is bound or read before this assignment binds it, and so stands for something else."""
        tree, cst = self._tree, self._tree.cst
        if tree.enclosing(name, cst.FunctionDef, cst.ClassDef, cst.Lambda) is not self._scope:
            return False
        if self._is_bound(name):
            return True
        start, end = tree.span(name)[0], tree.span(made)[1]
        if start > end:
            return False
        loop = tree.enclosing(made, cst.For, cst.While)
        if loop is None:
            return True
        if isinstance(loop, cst.For) and any(one.value == text for one in tree.names(loop.target)):
            return tree.span(loop.body)[0] <= start
        lines: Any = tree.block(tree.statement(made))
        for line in lines:  # in a loop it is something else only if it is bound anew there
            if not isinstance(line, cst.SimpleStatementLine):
                continue
            for one in line.body:
                if not isinstance(one, cst.Assign) or one is made:
                    continue
                fresh = any(tree.code(t.target) == text for t in one.targets)
                if fresh and all(n.value != text for n in tree.names(one.value)):
                    return tree.span(one)[0] < start
        return False

    def _value_use(self, name: Any) -> bool:
        above = self._tree.parent(name)
        if isinstance(above, self._tree.cst.Attribute) and above.attr.value in SHAPE:
            return True
        return self._is_loaded(name) and self._is_input(self._passed_on(name, PLAIN))

    def _module_use(self, name: Any) -> bool:
        cst = self._tree.cst
        above = self._tree.parent(name)
        if isinstance(above, cst.Attribute) and above.value is name:
            after = self._tree.parent(above)
            if above.attr.value not in KEPT:
                return False
            if above.attr.value in ("parameters", "named_parameters", "training"):
                return True
            into = self._tree.parent(after) if isinstance(after, cst.Call) else None
            return isinstance(into, cst.Expr) or (
                isinstance(into, cst.Assign) and [self._tree.code(one.target) for one in into.targets] == [name.value]
            )
        return isinstance(above, cst.Call) and above.func is name and self.only_the_loss(above)

    def _is_bound(self, name: Any) -> bool:
        cst = self._tree.cst
        above = self._tree.parent(name)
        while isinstance(above, (cst.Element, cst.Tuple, cst.List, cst.StarredElement)):
            name, above = above, self._tree.parent(above)
        if isinstance(above, (cst.For, cst.CompFor)):
            return above.target is name
        return isinstance(above, cst.AssignTarget) or (isinstance(above, cst.Param) and above.name is name)

    def _is_loaded(self, name: Any) -> bool:
        cst = self._tree.cst
        return isinstance(
            self._tree.parent(name), (cst.Arg, cst.Attribute, cst.Subscript, cst.BinaryOperation, cst.Comparison)
        )

    def _passed_on(self, node: Any, methods: frozenset[str]) -> Any:
        """The expression around this one that is the same but for its shape: `p.squeeze(1)` of `p`."""
        tree, cst = self._tree, self._tree.cst
        while True:
            above = tree.parent(node)
            call = tree.parent(above)
            if not isinstance(above, cst.Attribute) or above.value is not node or above.attr.value not in methods:
                return node
            if not isinstance(call, cst.Call) or call.func is not above:
                return node
            node = call

    def _is_input(self, node: Any) -> bool:
        """Whether this is the input of the loss, or of another call of it."""
        tree, cst = self._tree, self._tree.cst
        arg = tree.parent(node)
        call = tree.parent(arg)
        if not isinstance(arg, cst.Arg) or arg.star or not isinstance(call, cst.Call):
            return False
        if arg.keyword.value != "input" if arg.keyword is not None else call.args[0] is not arg:
            return False
        if call is self._loss:
            return True
        root = tree.code(self._loss.func).partition(".")[0]
        bound = sum(name.value == root and self._is_bound(name) for name in tree.names(tree.module))
        return tree.code(call.func) == tree.code(self._loss.func) and bound <= 1


def _name_of(tree: Tree, node: Any) -> str:
    return tree.code(node.func).rpartition(".")[2] if isinstance(node, tree.cst.Call) else ""


def without(context: FixContext, place: Place) -> tuple[Edit, ...] | None:
    """The edits that leave the argument where `F.softmax(x, dim=1)`, `x.sigmoid()` or `nn.Softmax(1)(x)` stands, or
    take the layer out of a `Sequential`. A statement that is left as `x = x` goes. None: the place is no such thing."""
    tree = context.scope_tree(place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(place, cst.Call)
    if call is None:
        return None
    outer: Any = tree.parent(call)
    holder: Any = tree.parent(outer) if isinstance(outer, cst.Arg) else None
    if isinstance(holder, cst.Call) and tree.code(holder.func).rpartition(".")[2] == "Sequential":
        index = next(i for i, arg in enumerate(holder.args) if arg is outer)
        if index == 0:
            return None
        return (Edit(tree.path, tree.span(holder.args[index - 1].value)[1], tree.span(outer.value)[1], ""),)
    inner = _squashed(tree, call)
    if inner is None:
        return None
    if isinstance(outer, cst.Assign) and len(outer.targets) == 1:
        target = outer.targets[0].target
        if tree.code(target) == tree.code(inner):
            return (tree.delete(outer),)
    return tree.unwrap(call, inner)


def _squashed(tree: Tree, call: Any) -> Any:
    """What `F.softmax(x, dim=1)`, `x.sigmoid()` or `nn.Softmax(1)(x)` squashes."""
    cst = tree.cst
    positional = [arg.value for arg in call.args if arg.keyword is None]
    plain = (cst.Integer, cst.UnaryOperation)
    method = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("softmax", "sigmoid") and (
        not positional or isinstance(positional[0], plain)
    )  # fmt: skip
    module = tree.code(call.func.value) if method else ""
    imported = {"F", "torch", "nn.functional", "functional", "torch.nn.functional", "torch.special"}
    return call.func.value if method and module not in imported else next(iter(positional), None)
