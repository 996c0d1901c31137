"""Taking a cut back: which text ends the line at a place, and what of it may stay.

`mend` is what the fixes of this family share. It knows a cut by its form alone (`x.item()`, `float(x)`,
`torch.tensor(x)`, `with torch.no_grad():`): that torch is meant was established by the rule's check.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ...edits import Edit, FixContext, Tree
from ...facts import Mapping, Number, Sequence, Tensor, Union, Value
from ...findings import Place
from ...messages import inner, joined, say

if TYPE_CHECKING:
    import libcst as cst

METHODS = {"item", "tolist", "detach", "numpy"}  # x.item() is worth x, but for the line
PASSED = {"cpu"}  # stands between two of them and means nothing without them
NUMBERS = {"float", "int"}
COPIES = {"tensor", "as_tensor", "from_numpy", "asarray", "array", "Tensor", "FloatTensor", "new_tensor", "Variable"}
REGIONS = {"no_grad", "inference_mode", "set_grad_enabled"}


class Mended(NamedTuple):
    """`safe` is whether only the line is touched; `said` what is done, as orders without a full stop.

    `anywhere` is whether that holds wherever the loss is; else only for a loss in the same function.
    """

    edits: tuple[Edit, ...]
    safe: bool
    said: tuple[str, ...]
    anywhere: bool = False

    @property
    def message(self) -> str:
        first, *others = dict.fromkeys(self.said)
        return joined([first, *map(inner, others)], "{first}, and {rest}")


def mend(context: FixContext, at: Place, places: Iterable[Place]) -> Mended | None:
    """Take back the cuts that stand at exactly these places, for the sake of what stands at `at`.

    A place that holds no cut (a step of a trail that only passes the value on) is passed over; the last place is the
    origin and must hold one. None: it does not, or the text cannot be read.
    """
    ordered = list(dict.fromkeys(places))
    home = context.scope(at)
    done: list[Place] = []
    parts: list[Mended] = []
    for place in sorted(ordered, key=lambda place: place.start - place.end):
        if place in done:
            continue
        part = _mend_one(context, place, at)
        if part is None:
            if place == ordered[-1]:
                return None
            continue
        mended, peeled = part
        done += peeled
        parts.append(mended._replace(safe=mended.safe and (mended.anywhere or context.scope(place) == home)))
    if not parts:
        return None
    return Mended(
        tuple(dict.fromkeys(edit for part in parts for edit in part.edits)),
        all(part.safe for part in parts),
        tuple(word for part in parts for word in part.said),
    )


def by_hand(context: FixContext, cut: Place) -> tuple[Edit, ...] | None:
    """What makes the updates by hand in place that stand under this cut: `w = w - lr * w.grad` becomes `w -= lr * w.grad`.

    None if there are none; nothing if one of them cannot be made in place. An update must not get into the graph:
    without the cut its result would be no leaf, and its `.grad` None from then on. A tensor that stays the same keeps
    its gradient, too, which the new one had not: what nothing else clears is cleared behind its update.
    """
    tree = context.scope_tree(cut)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.exactly(cut, cst.Call, cst.Attribute, cst.Name)
    if node is None:
        return None
    item = tree.parent(node)
    region: Any = tree.parent(item) if isinstance(item, cst.WithItem) else None
    start, end = tree.span(region if region is not None else tree.statement(node))
    found: list[Edit] = []
    updated: dict[Any, Any] = {}  # each tensor that is updated, and its last update
    for assign in tree.nodes(cst.Assign):
        first, last = tree.span(assign)
        reads = {
            tree.code(read.value) for read in _within(tree, assign.value, cst.Attribute) if read.attr.value == "grad"
        }
        targets = {tree.code(target.target) for target in assign.targets}
        if not (start <= first and last <= end) or not reads & targets:
            continue
        value: Any = assign.value
        sums = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, (cst.Add, cst.Subtract))
        if region is None or not sums or value.lpar or len(targets) != 1 or tree.code(value.left) not in targets:
            return ()
        sign = "+=" if isinstance(value.operator, cst.Add) else "-="
        right, right_end = tree.outer_span(value.right)
        found.append(Edit(tree.path, first, right, f"{tree.code(value.left)} {sign} "))
        if right_end < last:
            return ()
        updated[tree.code(value.left)] = assign
    if not found:
        return None
    clears = cleared(tree, updated)
    return () if clears is None else (*found, *clears)


def cleared(tree: Tree, updated: dict[str, Any]) -> tuple[Edit, ...] | None:
    """What clears the gradients that were applied by hand, behind the last update of each block, where the function does
    not do it itself; None if somebody reads them later."""
    cst = tree.cst
    clears = set(_clears(tree))
    if clears - updated.keys():  # `model.zero_grad()`, `for p in parameters: p.grad = None`
        return ()
    blocks: dict[Any, list[str]] = {}
    last: dict[Any, Any] = {}
    for name, update in updated.items():
        if name in clears:
            continue
        statement = tree.statement(update)
        end = tree.span(statement)[1]
        for read in tree.nodes(cst.Attribute):
            if tree.code(read) == f"{name}.grad" and tree.span(read)[0] >= end:
                return None
        block = tree.parent(statement)
        blocks.setdefault(block, []).append(f"{name}.grad.zero_()")
        last[block] = update
    edits: list[Edit] = []
    for block, lines in blocks.items():
        suite = tree.parent(last[block])
        if isinstance(suite, cst.SimpleStatementSuite):  # `with torch.no_grad(): w = ...`
            end = tree.span(suite.body[-1])[1]
            edits.append(Edit(tree.path, end, end, "".join(f"; {line}" for line in lines)))
        else:
            edits.append(tree.insert_after(tree.statement(last[block]), *lines))
    return tuple(edits)


def _clears(tree: Tree) -> Iterator[str]:
    """What the gradients are cleared of, or set otherwise, as it is written: `w` of `w.grad.zero_()` and `w.grad = None`."""
    cst = tree.cst
    for call in tree.nodes(cst.Call):
        if isinstance(call.func, cst.Attribute):
            name, owner = call.func.attr.value, call.func.value
            if name == "zero_grad":
                yield tree.code(owner)
            if name in ("zero_", "fill_") and isinstance(owner, cst.Attribute) and owner.attr.value == "grad":
                yield tree.code(owner.value)
    for node in tree.nodes(cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Del):
        for holder in node.targets if isinstance(node, cst.Assign) else (node,):
            if isinstance(target := holder.target, cst.Attribute) and target.attr.value == "grad":
                yield tree.code(target.value)


def _within(tree: Tree, node: Any, kind: Any) -> list[Any]:
    start, end = tree.span(node)
    return [one for one in tree.nodes(kind) if start <= tree.span(one)[0] and tree.span(one)[1] <= end]


def _mend_one(context: FixContext, place: Place, at: Place) -> tuple[Mended, list[Place]] | None:
    """What takes this one cut back, and the places of all cuts that are gone with it."""
    tree = context.scope_tree(place)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.exactly(place, cst.Call, cst.Attribute, cst.Name)
    if node is None:
        return None
    if (region := _region(tree, node, at)) is not None:
        return region, [place]
    if (added := _added(tree, node)) is not None:
        return added, [place]
    peeled = _peel(context, tree, _whole(tree, node))
    if peeled is None:
        return None
    mended, gone = peeled
    others = [found for other in _beside(tree, node) if (found := _peel(context, tree, other)) is not None]
    edits = (*mended.edits, *(edit for other, _ in others for edit in other.edits))
    return mended._replace(edits=edits), [*gone, place, *(place for _, more in others for place in more)]


def _added(tree: Tree, node: Any) -> Mended | None:
    """`np.sum([a, b])` becomes `sum([a, b])`, which adds tensors as tensors."""
    cst = tree.cst
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or len(node.args) != 1:
        return None
    if (
        node.func.attr.value != "sum"
        or not isinstance(node.func.value, cst.Name)
        or not _is_list(tree, node.args[0].value)
    ):
        return None
    return Mended((tree.replace(node.func, "sum"),), True, (say("Add the tensors, not their values"),))


def _whole(tree: Tree, node: Any) -> Any:
    """The outermost of the cuts that stand around one another: all of `torch.from_numpy(x.detach().cpu().numpy())`."""
    cst = tree.cst
    whole = node
    while True:
        outer: Any = tree.parent(node)
        if isinstance(outer, cst.Attribute) and outer.value is node:
            call = tree.parent(outer)
            if not isinstance(call, cst.Call) or call.func is not outer or call.args:
                return whole
            node, known = call, outer.attr.value in METHODS
            if not known and outer.attr.value not in PASSED:
                return whole
        elif isinstance(outer, cst.Arg) and isinstance(call := tree.parent(outer), cst.Call) and call.args[0] is outer:
            node, known = call, tree.code(call.func).rpartition(".")[2] in COPIES
            if not known:
                return whole
        else:
            return whole
        whole = node if known else whole


def _beside(tree: Tree, node: Any) -> list[Any]:
    """The other numbers of one calculation: in `a.item() + 2 * b.item()` one alone is of no use."""
    cst = tree.cst
    top: Any = node
    while isinstance(outer := tree.parent(top), (cst.BinaryOperation, cst.UnaryOperation)):
        top = outer
    if top is node:
        return []
    waiting, found = [top], []
    while waiting:
        one = waiting.pop()
        if isinstance(one, cst.BinaryOperation):
            waiting += [one.left, one.right]
        elif isinstance(one, cst.UnaryOperation):
            waiting.append(one.expression)
        elif one is not node and _is_number(tree, one):
            found.append(one)
    return found


def _is_number(tree: Tree, node: Any) -> bool:
    cst = tree.cst
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute):
        return node.func.attr.value == "item" and not node.args
    return isinstance(node.func, cst.Name) and node.func.value in NUMBERS and len(node.args) == 1


def _peel(context: FixContext, tree: Tree, node: Any) -> tuple[Mended, list[Place]] | None:
    cst: Any = tree.cst
    inner: Any = node
    said: list[str] = []
    gone: list[Place] = []
    after = ""
    while True:
        method = inner.func.attr.value if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) else ""
        name = inner.func.value if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Name) else method
        if method in METHODS and not inner.args:
            word, below = say("Drop .{method}()", method=method), inner.func.value
        elif method in PASSED and not inner.args and gone and _leads_to_cut(tree, inner.func.value):
            word, below = "", inner.func.value
        elif isinstance(inner, cst.Attribute) and inner.attr.value == "data":
            word, below = say("Drop .data"), inner.value
        elif name in NUMBERS and not method and len(inner.args) == 1:
            word, below = say("Drop {name}()", name=name), inner.args[0].value
        elif name in COPIES and inner.args and inner.args[0].keyword is None and not inner.args[0].star:
            below = inner.args[0].value
            if _is_list(tree, below):
                return _stack(context, tree, node, inner, said, gone) if not gone else None
            if any(context.values((), tree.place(below), _is_container)):
                return None
            word = say("Use the tensor itself, not a copy of its values")
            kept = _kept(tree, inner)
            if kept is None:
                return None
            if kept:
                after = f".to({', '.join(_arg(tree, arg) for arg in kept)})"
        else:
            break
        gone.append(tree.place(inner))
        said += [word] if word and not said else []
        inner = below
    if not gone:
        return None
    start, end = tree.outer_span(inner)
    first, last = tree.span(node)
    source = tree.text(start, end)
    if _needs_parentheses(tree, node, inner, bool(after)):
        source = f"({source})"
    if source.startswith("(") or after:
        edits = (Edit(tree.path, first, last, source + after),)
    else:
        edits = tree.keep(node, start, end)
    return Mended(edits, True, tuple(said)), gone


def _leads_to_cut(tree: Tree, node: cst.BaseExpression) -> bool:
    cst = tree.cst
    if isinstance(node, cst.Attribute):
        return node.attr.value == "data"
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in METHODS


def _arg(tree: Tree, arg: cst.Arg) -> str:
    value = tree.code(arg.value)
    return f"{arg.keyword.value}={value}" if arg.keyword else value


def _needs_parentheses(tree: Tree, node: cst.CSTNode, inner: Any, followed: bool) -> bool:
    cst = tree.cst
    loose = (cst.BinaryOperation, cst.Comparison, cst.BooleanOperation, cst.UnaryOperation, cst.IfExp, cst.Lambda)
    if not isinstance(inner, loose) or inner.lpar:
        return False
    alone = (cst.Arg, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr, cst.Element, cst.DictElement)
    return followed or not isinstance(tree.parent(node), alone)


def _is_list(tree: Tree, node: cst.BaseExpression) -> bool:
    """Whether a display or a comprehension stands here, or a name that was bound to one in this unit."""
    cst = tree.cst
    displays = (cst.List, cst.Tuple, cst.ListComp)
    if isinstance(node, displays):
        return True
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    wanted = tree.code(node)
    return any(
        isinstance(assign.value, displays) and any(tree.code(target.target) == wanted for target in assign.targets)
        for assign in tree.nodes(cst.Assign)
    )


def _kept(tree: Tree, call: Any) -> list[Any] | None:
    """What `.to(...)` takes over from a call that copies values; None if it would not know what to do with it."""
    others = [arg for arg in call.args[1:] if arg.keyword is None or arg.keyword.value not in _NOT_KEPT]
    fits = all(
        (arg.keyword is None or arg.keyword.value in ("dtype", "device")) and not _FOREIGN.match(tree.code(arg.value))
        for arg in others
    )
    return others if fits else None


_NOT_KEPT = {"requires_grad", "pin_memory", "copy", "volatile"}  # what only a new tensor can be told
_FOREIGN = re.compile(r"""(?:np|numpy|jnp)\.|float$|int$|bool$""")  # a dtype that is none of torch's


def _stackable(value: Value) -> bool:
    """A list of tensors and nothing else; also of numbers that were made of tensors, which will be tensors then."""
    if not isinstance(value, Sequence):
        return False
    items = value.cells.get("items")
    return all(_is_tensor(item) for item in (items if isinstance(items, tuple) else (value.cells.get("each"),)))


def _is_container(value: object) -> bool:
    if isinstance(value, Union):
        return any(_is_container(option) for option in value.options)
    return isinstance(value, (Sequence, Mapping))


def _is_tensor(value: object) -> bool:
    if isinstance(value, Union):
        return all(_is_tensor(option) for option in value.options)
    return (isinstance(value, Tensor) and not value.opaque) or (isinstance(value, Number) and value.cut is not None)


def _stack(
    context: FixContext, tree: Tree, node: Any, call: Any, said: list[str], gone: list[Place]
) -> tuple[Mended, list[Place]] | None:
    """`torch.tensor([a, b], dtype=d)` becomes `torch.stack([a, b]).to(dtype=d)`."""
    cst = tree.cst
    function = call.func
    module = tree.code(function.value) if isinstance(function, cst.Attribute) else ""
    if not module or function.attr.value == "new_tensor":
        return None
    others = _kept(tree, call)
    sure = context.values((), tree.place(call.args[0].value), _stackable)
    if others is None or not all(sure):
        return None
    edits = [Edit(tree.path, *tree.span(function), f"{module}.stack")]
    last = tree.span(call)[1]
    if len(call.args) > 1:
        tail = f").to({', '.join(_arg(tree, arg) for arg in others)})" if others else ")"
        edits.append(Edit(tree.path, tree.outer_span(call.args[0].value)[1], last, tail))
    said = [*said, say("Stack the tensors instead of copying their values")]
    return Mended(tuple(edits), bool(sure), tuple(said)), [*gone, tree.place(call)]


def _region(tree: Tree, node: Any, at: Place) -> Mended | None:
    """Take away the `with` or the decorator at this call, if it is one of grad mode."""
    cst = tree.cst
    function = node.func if isinstance(node, cst.Call) else node
    name = function.attr.value if isinstance(function, cst.Attribute) else getattr(function, "value", "")
    if name not in REGIONS:
        return None
    holder = tree.parent(node)
    if isinstance(holder, cst.Decorator):
        start, end = tree.line_start(tree.span(holder)[0]), tree.line_end(tree.span(holder)[1])
        return Mended((Edit(tree.path, start, end, ""),), True, (say("Take {name} off the function", name=name),))
    if not isinstance(holder, cst.WithItem):
        return None
    block: Any = tree.parent(holder)
    edits = tree.unwrap_with(block, holder)
    if (generator := _generator(tree, block)) is not None:
        decorator = tree.insert_decorator(generator, f"@{tree.code(node)}")
        said = (say("Decorate the generator, which gives the mode back at every yield"),)
        return Mended((decorator, *edits), True, said, anywhere=True)
    start, end = tree.span(block)
    around = at.path == tree.path and start <= at.start and at.end <= end
    safe = (around or _is_chain(tree, block)) and not _is_conditional(tree, node)
    return Mended(edits, safe, (say("Compute it outside of {name}", name=name),))


def _is_conditional(tree: Tree, node: Any) -> bool:
    """Whether the mode is computed, `set_grad_enabled(phase == "train")`: off at times is meant, and the condition is wrong."""
    cst = tree.cst
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return given is not None and not (isinstance(given, cst.Name) and given.value in ("True", "False"))


def _generator(tree: Tree, block: Any) -> Any:
    """The function that yields inside of this `with`; None if none does, or if it cannot be decorated (`async`)."""
    cst = tree.cst
    start, end = tree.span(block)
    function: Any = tree.enclosing(block, cst.FunctionDef)
    if function is None or function.asynchronous is not None:
        return None
    yields = (one for one in tree.nodes(cst.Yield) if start <= tree.span(one)[0] < end)
    return function if any(tree.enclosing(one, cst.FunctionDef, cst.Lambda) is function for one in yields) else None


def _is_chain(tree: Tree, block: Any) -> bool:
    """Whether each statement of the block only goes on with what the one before it made: nothing else was meant to be
    kept out of the graph."""
    cst = tree.cst
    made: str | None = None
    for line in block.body.body:
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
        if not isinstance(small, cst.Assign) or len(small.targets) != 1:
            return False
        if made is not None and made not in {name.value for name in tree.names(small.value)}:
            return False
        target = small.targets[0].target
        if not isinstance(target, cst.Name):
            return False
        made = target.value
    return True
