"""Giving a global switch of grad mode an end: a context manager around what it was meant for.

`torch.set_grad_enabled(False)` as a statement lasts until somebody switches back. What follows it in its block, up to
that moment or to the training, is what it was meant for, and goes under `with torch.no_grad():`. In a module that only
defines functions these are decorated; where the switch stands in an `if`, the mode is saved and put back in `finally`.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext, Tree
from ...findings import Place
from ...messages import say

if TYPE_CHECKING:
    import libcst as cst

TRAINING = {"backward", "manual_backward", "zero_grad", "train"}  # calls that say: from here on it trains
IDLE = {  # calls of torch that have no use for the mode
    "device", "manual_seed", "tensor", "zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange",
    "linspace", "eye", "set_num_threads", "set_default_dtype", "is_available", "compile", "load", "save",
}  # fmt: skip


SETUP = IDLE | {  # what else a function that only prepares a program may call
    "seed", "manual_seed_all", "eval", "train", "to", "cuda", "cpu", "requires_grad_", "parse_args", "add_argument",
    "set_float32_matmul_precision", "use_deterministic_algorithms", "set_device", "set_num_interop_threads", "empty_cache",
    "load_state_dict", "parameters", "modules", "info", "debug", "warning", "filterwarnings", "simplefilter", "get", "setdefault",
}  # fmt: skip


def end_switch(call: Place, victims: Sequence[Place], context: FixContext) -> Fix | None:
    """The fix for the switch at `call`; `victims` are the backward calls that it must not reach."""
    tree = context.scope_tree(call)
    if tree is None:
        return None
    cst = tree.cst
    node = tree.find(call, cst.Call)
    if node is None or tree.place(node) != call or not isinstance(tree.parent(node), cst.Expr):
        return None
    statement = tree.statement(node)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    function = tree.enclosing(statement, cst.FunctionDef)
    if function is not None and function.name.value == "__enter__":
        return None  # it was meant for the block of whoever enters: what is missing is the way out
    inside = [(place.start, place.end) for place in victims if place.path == tree.path]
    plans = [_with(tree, node, statement, inside), _finally(tree, statement, inside)]
    if tree.enclosing(statement, cst.FunctionDef, cst.ClassDef) is None:
        plans += [_without(tree, statement)]
    elif function is not None and (whole := context.file_tree(tree.path)) is not None:
        plans += [_callers(whole, call, function.name.value, inside)]
    return next((fix for fix in plans if fix is not None and context.cures(fix.edits)), None)


def _with(tree: Tree, node: Any, statement: cst.BaseStatement, victims: list[tuple[int, int]]) -> Fix | None:
    block = tree.block(statement)
    index = next((i for i, other in enumerate(block) if other is statement), len(block))
    meant: list[Any] = []
    restore: Any = None
    for following in block[index + 1 :]:
        if (restored := _restores(tree, following)) is not None:
            restore = restored
            break
        if _trains(tree, following, victims):
            break
        meant.append(following)
    header = f"with {_manager(tree, node)}:"
    edits: list[Edit] = []
    module = isinstance(tree.parent(statement), tree.cst.Module) and restore is None
    decorated = _decorated(tree, block, victims, header) if module else []
    runs = _runs(tree, meant, module)
    if not runs and not decorated:
        return None
    if any(_suspends(tree, one) for run in runs for one in run):
        return _on_function(tree, statement, header)
    comment = _comment(tree, statement)
    if runs and not module:
        start, end = tree.span(statement)
        edits += [Edit(tree.path, start, end, header), *tree.indented(tree.line_end(end), tree.block_end(runs[0][-1]))]
        edits += [edit for run in runs[1:] for edit in tree.wrap(run[0], run[-1], header)]
    else:
        edits.append(_deleted(tree, statement, runs))
        edits += [
            edit for n, run in enumerate(runs) for edit in tree.wrap(run[0], run[-1], header + comment * (n == 0))
        ]
    if restore is not None:
        edits.append(tree.delete(restore))
    edits += decorated
    said = say("Switch gradients off only for the functions")
    if runs:
        said = say("Switch gradients off only for what follows")
    return Fix(said, Applicability.SAFE, tuple(edits))


def _deleted(tree: Tree, statement: Any, runs: list[list[Any]]) -> Edit:
    """Takes the switch away; a comment above it then stands directly above what goes under the `with`."""
    edit = tree.delete(_only(statement))
    if not runs or not tree.text(tree.line_start(edit.start - 1), edit.start).lstrip().startswith("#"):
        return edit
    following = tree.line_start(tree.span(runs[0][0])[0])
    between = tree.text(edit.end, following)
    return edit._replace(end=following) if edit.end < following and not between.strip() else edit


def _on_function(tree: Tree, statement: cst.BaseStatement, header: str) -> Fix | None:
    """The decorator is the one way that a generator does not leak the mode to whoever iterates over it."""
    cst = tree.cst
    function = tree.enclosing(statement, cst.FunctionDef)
    if function is None or function.asynchronous is not None or tree.parent(statement) is not function.body:
        return None
    decorator = f"@{header.removeprefix('with ').removesuffix(':')}"
    edits = tree.insert_decorator(function, decorator), tree.delete(_only(statement))
    return Fix(say("Switch gradients off only for this generator"), Applicability.SAFE, edits)


def _finally(tree: Tree, statement: cst.BaseStatement, victims: list[tuple[int, int]]) -> Fix | None:
    """A switch alone in an `if`: save the mode before it, put it back when the rest of the block is over."""
    cst = tree.cst
    branch = tree.enclosing(statement, cst.If, cst.For, cst.While, cst.With, cst.Try, cst.FunctionDef)
    if not isinstance(branch, cst.If) or tree.enclosing(branch, cst.FunctionDef) is None:
        return None
    while isinstance(outer := tree.parent(branch), (cst.If, cst.Else)) and not isinstance(outer, cst.IndentedBlock):
        branch = outer if isinstance(outer, cst.If) else tree.parent(outer)
    block = tree.block(branch)
    index = next((i for i, other in enumerate(block) if other is branch), len(block))
    last = branch
    for following in block[index + 1 :]:
        if _trains(tree, following, victims) or _suspends(tree, following):
            return None
        last = following
    if last is branch:
        return None
    taken = {name.value for name in tree.names(tree.module)}
    name = next(word for word in ("grad_mode", "grad_mode_before", "was_grad_enabled") if word not in taken)
    node = statement.body[0].value  # type: ignore[attr-defined]
    module = _module(tree, node)
    if module is None:
        return None
    indent, step = tree.indent(branch), tree.indent_step
    (first, *others) = tree.wrap(branch, last, "try:")
    save = f"{indent}{name} = {module}.is_grad_enabled(){tree.newline}"
    end = tree.block_end(last)
    restore = f"{indent}finally:{tree.newline}{indent}{step}{module}.set_grad_enabled({name})"
    tail = f"{restore}{tree.newline}" if tree.ends_line(end) else f"{tree.newline}{restore}"
    edits = (first._replace(content=save + first.content), *others, Edit(tree.path, end, end, tail))
    return Fix(say("Put the grad mode back afterwards"), Applicability.SAFE, edits)


def _without(tree: Tree, statement: cst.BaseStatement) -> Fix:
    """Nothing shows what it was meant for: without it everything trains, and evaluation builds graphs."""
    return Fix(say("Take the switch away"), Applicability.UNSAFE, (tree.delete(_only(statement)),))


def _callers(tree: Tree, call: Place, name: str, victims: list[tuple[int, int]]) -> Fix | None:
    """The switch in a function that only prepares: decorators for the functions of this file that call it and compute.

    Unsafe: whoever calls it from elsewhere may have counted on the mode.
    """
    cst = tree.cst
    node = tree.find(call, cst.Call)
    if node is None or tree.place(node) != call:
        return None
    callers: list[Any] = []
    for use in tree.nodes(cst.Call):
        if _called(tree, use)[1] != name:
            continue
        caller = tree.enclosing(use, cst.FunctionDef)
        if caller is None or caller.asynchronous is not None or _trains(tree, caller.body, victims):
            return None
        callers += [caller] if caller not in callers and _computes(tree, caller.body) else []
    if not callers:
        return None
    decorator = f"@{_manager(tree, node).removesuffix(':')}"
    edits = [tree.insert_decorator(caller, decorator) for caller in callers]
    said = say("Switch gradients off only for the functions")
    return Fix(said, Applicability.UNSAFE, (*edits, tree.delete(_only(tree.statement(node)))))


def _only(statement: Any) -> Any:
    return statement.body[0]


def _comment(tree: Tree, statement: Any) -> str:
    comment = statement.trailing_whitespace.comment
    return f"  {tree.code(comment)}" if comment else ""


def _manager(tree: Tree, node: Any) -> str:
    """What stands behind `with`: `no_grad()` of the same module if the mode is plainly off, else the call itself."""
    cst = tree.cst
    function = node.func
    if isinstance(function, cst.Attribute) and function.attr.value == "__enter__":
        return tree.code(function.value)
    module = _module(tree, node)
    off = len(node.args) == 1 and isinstance(node.args[0].value, cst.Name) and node.args[0].value.value == "False"
    if off and module is not None and function.attr.value == "set_grad_enabled":
        return f"{module}.no_grad()"
    return tree.code(node)


def _module(tree: Tree, node: Any) -> str | None:
    """The name of torch in `torch.set_grad_enabled(...)`; None if the function was imported by itself."""
    function = node.func
    if isinstance(function, tree.cst.Attribute) and isinstance(function.value, tree.cst.Name):
        return function.value.value
    return None


def _calls(tree: Tree, node: cst.CSTNode) -> Iterator[Any]:
    start, end = tree.span(node)
    for call in tree.nodes(tree.cst.Call):
        first, last = tree.span(call)
        if start <= first and last <= end:
            yield call


def _called(tree: Tree, call: Any) -> tuple[str, str]:
    """The first and the last name of what is called: `self.net.fit(x)` gives self and fit; "" where there is none."""
    cst = tree.cst
    function = call.func
    last = function.attr.value if isinstance(function, cst.Attribute) else getattr(function, "value", "")
    root = function
    while isinstance(root, (cst.Attribute, cst.Call, cst.Subscript)):
        root = root.func if isinstance(root, cst.Call) else root.value
    return (root.value if isinstance(root, cst.Name) else "", last if isinstance(last, str) else "")


def _restores(tree: Tree, statement: Any) -> Any:
    """The statement `set_grad_enabled(...)` that takes the mode over, if this line is one."""
    cst = tree.cst
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return small if _called(tree, small.value)[1] in ("set_grad_enabled", "__exit__") else None
    return None


def _trains(tree: Tree, statement: Any, victims: list[tuple[int, int]]) -> bool:
    start, end = tree.span(statement)
    if any(start <= first and last <= end for first, last in victims):
        return True
    if isinstance(statement, (tree.cst.FunctionDef, tree.cst.ClassDef)):
        return False
    return any(_called(tree, call)[1] in TRAINING for call in _calls(tree, statement))


def _suspends(tree: Tree, statement: Any) -> bool:
    """Whether a `yield` or an `await` stands in it: a `with` around that gives the mode to others."""
    start, end = tree.span(statement)
    for node in tree.nodes(tree.cst.Yield, tree.cst.Await):
        first, last = tree.span(node)
        if start <= first and last <= end:
            return True
    return False


def _runs(tree: Tree, statements: Sequence[Any], module: bool) -> list[list[Any]]:
    """The statements in runs that stand side by side. At module level only what computes is taken."""
    cst = tree.cst
    if not module:
        return [list(statements)] if any(_has_use(tree, one) for one in statements) else []
    runs: list[list[Any]] = [[]]
    for statement in statements:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or _imports(tree, statement):
            runs.append([])
        elif _is_main_guard(tree, statement):
            break
        else:
            runs[-1].append(statement)
    trimmed = []
    for run in runs:
        computing = [i for i, statement in enumerate(run) if _computes(tree, statement)]
        trimmed += [run[computing[0] : computing[-1] + 1]] if computing else []
    return trimmed


def _imports(tree: Tree, statement: Any) -> bool:
    cst = tree.cst
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(
        statement.body[0], (cst.Import, cst.ImportFrom)
    )


def _is_main_guard(tree: Tree, statement: Any) -> bool:
    return isinstance(statement, tree.cst.If) and "__name__" in tree.code(statement.test)


def _standard(tree: Tree) -> set[str]:
    """The names that this file imports from the standard library."""
    cst = tree.cst
    names: set[str] = set()
    for node in tree.nodes(cst.Import, cst.ImportFrom):
        source = getattr(node, "module", None)
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            module = tree.code(source) if source is not None else tree.code(alias.name)
            if module.split(".")[0] in sys.stdlib_module_names and not getattr(node, "relative", ()):
                names.add(tree.code(alias.asname.name) if alias.asname else tree.code(alias.name).split(".")[0])
    return names


def _has_use(tree: Tree, statement: Any) -> bool:
    """Whether a statement of a function may have use for the mode: all but mere settings and plain values."""
    cst = tree.cst
    start, end = tree.span(statement)
    inside = (tree.span(one) for one in tree.nodes(cst.BinaryOperation, cst.Yield, cst.Await, cst.AugAssign))
    return _computes(tree, statement, SETUP) or any(start <= first and last <= end for first, last in inside)


def _computes(tree: Tree, node: cst.CSTNode, without: Collection[str] = IDLE) -> bool:
    """Whether tensors may be computed in it: a call of something that is no builtin, no class and no library's."""
    idle = _standard(tree) | set(dir(builtins))
    for call in _calls(tree, node):
        root, last = _called(tree, call)
        if root in idle or last in without or not last.strip("_") or last.lstrip("_")[:1].isupper():
            continue
        if last in ("__init__", "set_grad_enabled"):
            continue
        return True
    return False


def _decorated(tree: Tree, block: Sequence[Any], victims: list[tuple[int, int]], header: str) -> list[Edit]:
    """Decorators for the functions and methods of a module that compute and have no part in training."""
    cst = tree.cst
    functions: list[Any] = []
    for statement in block:
        if isinstance(statement, cst.FunctionDef):
            functions.append(statement)
        elif isinstance(statement, cst.ClassDef) and not _is_module_class(tree, statement):
            functions += [one for one in statement.body.body if isinstance(one, cst.FunctionDef)]
    live = [one for one in functions if _trains(tree, one, victims) or _trains(tree, one.body, victims)]
    for one in live:  # grows while it is walked: what a training function calls trains too
        called = {_called(tree, call)[1] for call in _calls(tree, one)}
        live += [other for other in functions if other.name.value in called and other not in live]
    decorator = f"@{header.removeprefix('with ').removesuffix(':')}"
    return [
        tree.insert_decorator(one, decorator)
        for one in functions
        if one not in live and one.asynchronous is None and _computes(tree, one.body)
    ]


def _is_module_class(tree: Tree, node: Any) -> bool:
    return any(tree.code(base.value).rpartition(".")[2].endswith("Module") for base in node.bases)
