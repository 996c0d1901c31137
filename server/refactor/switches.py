"""A global switch of grad mode, made one with an end: a `with`, a decorator, or the mode saved and put back.

`torch.set_grad_enabled(False)` as a statement lasts until somebody switches again. The three ways out differ from it,
and from each other, in what runs afterwards; so none of them is called safe.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import ir
from ..edits import Applicability, Edit, Fix, Tree
from ..messages import say
from .here import Here, Offer, Statement, within

WITH, DECORATOR, RESTORE = "switch-with", "switch-decorator", "switch-restore"
SWITCH = "torch.set_grad_enabled"
SWITCHES = (SWITCH, "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
SAVED = ("grad_mode", "grad_mode_before", "was_grad_enabled")


def offers(here: Here) -> Iterator[Offer]:
    call = _switch(here, here.statement)
    if call is None or not (here.is_whole_line and here.is_readable):
        return
    manager = _manager(here, call)
    meant, _ = _meant(here)
    if meant and not any(_suspends(one) for one in meant):
        yield Offer(WITH, say("Put what follows under `with {manager}:`", manager=manager), False)
        if here.function is not None:
            yield Offer(RESTORE, say("Save the grad mode and put it back afterwards"), False)
    if _is_first(here) and (_is(call, False) or _is(call, True)):
        function = here.around[-1].node
        said = say("Decorate `{name}` with `@{manager}` instead", name=function.name, manager=manager)
        yield Offer(DECORATOR, said, False)


def make(here: Here, name: str) -> Fix | None:
    offer = next((offer for offer in offers(here) if offer.name == name), None)
    call = _switch(here, here.statement)
    if offer is None or call is None:
        return None
    tree = here.context().scope_tree(here.place(here.statement.node))
    node = tree.exactly(here.place(call), tree.cst.Call) if tree is not None else None
    if tree is None or node is None:
        return None
    manager = _manager(here, call)
    switch: Any = tree.statement(node)
    if name == DECORATOR:
        function = tree.enclosing(node, tree.cst.FunctionDef)
        if function is None:
            return None
        return _fix(offer, tree.insert_decorator(function, f"@{manager}"), tree.delete(switch.body[0]))
    meant, ended = _meant(here)
    last = _statement(tree, here, meant[-1])
    end = _statement(tree, here, ended) if ended is not None else None
    if last is None or (ended is not None and end is None):
        return None
    restore = (tree.delete(end.body[0]),) if end is not None else ()
    first = tree.line_end(tree.span(switch)[1])
    inner = tree.indented(first, tree.block_end(last))
    at = Edit(tree.path, *tree.span(switch), "")
    if name == WITH:
        return _fix(offer, at._replace(content=f"with {manager}:"), *inner, *restore)
    taken = {one.value for one in tree.names(tree.module)}
    saved = next((word for word in SAVED if word not in taken), None)
    module = tree.code(node.func).rpartition(".")[0]
    if saved is None or not module:
        return None
    indent, step, newline = tree.indent(switch), tree.indent_step, tree.newline
    head = f"{saved} = {here.torch() or module}.is_grad_enabled(){newline}{indent}"
    tail = f"{indent}finally:{newline}{indent}{step}{module}.set_grad_enabled({saved})"
    stop = tree.block_end(last)
    tail = f"{tail}{newline}" if tree.ends_line(stop) else f"{newline}{tail}"
    opened = Edit(tree.path, at.start, at.start, head)
    ahead = Edit(tree.path, first, first, f"{indent}try:{newline}")
    if inner and inner[0].start == first:  # one insertion at one place, not two
        ahead, inner = ahead._replace(content=ahead.content + inner[0].content), inner[1:]
    return _fix(offer, opened, ahead, *inner, Edit(tree.path, stop, stop, tail), *restore)


def _fix(offer: Offer, *edits: Edit) -> Fix:
    return Fix(offer.title, Applicability.SAFE if offer.safe else Applicability.UNSAFE, edits)


def _statement(tree: Tree, here: Here, statement: Statement) -> Any:
    """The statement of the tree that stands where one of the IR does."""
    cst = tree.cst
    wanted = (statement.start, statement.end)
    for node in tree.nodes(cst.SimpleStatementLine, cst.If, cst.For, cst.While, cst.With, cst.Try, cst.FunctionDef,
                           cst.ClassDef, cst.Match):  # fmt: skip
        start, end = tree.span(node)
        if (start == wanted[0] and end >= wanted[1]) or (start < wanted[0] <= end and tree.line_start(start) == start):
            return node
    return None


def _switch(here: Here, statement: Statement) -> ir.Call | None:
    """The call, if the statement is a switch by itself."""
    node = statement.node
    if type(node) is not ir.ExprStmt or type(node.value) is not ir.Call:
        return None
    call = node.value
    is_plain = len(call.args) + len(call.keywords) == 1 and not any(type(arg) is ir.Star for arg in call.args)
    return call if is_plain and here.dotted(call.func) in SWITCHES else None


def _is(call: ir.Call, value: bool) -> bool:
    return len(call.args) == 1 and type(call.args[0]) is ir.Const and call.args[0].value is value


def _manager(here: Here, call: ir.Call) -> str:
    """What stands behind `with`."""
    function = here.text[slice(*here.statement.span(call.func))]
    module = here.torch()
    if module is not None and _is(call, False):
        return f"{module}.no_grad()"
    if module is not None and _is(call, True):
        return f"{module}.enable_grad()"
    start, end = here.statement.span(call)
    return f"{function}{here.text[start + len(function) : end]}"


def _meant(here: Here) -> tuple[list[Statement], Statement | None]:
    """The statements of the block that run with the switch, and the one that switches again, if it is in the block.

    At module level the switch is meant for what stands below it up to the first function, class or main guard.
    """
    meant: list[Statement] = []
    for statement in here.following:
        if _switch(here, statement) is not None:
            return meant, statement
        meant.append(statement)
    if not here.around:
        for index, statement in enumerate(meant):
            if type(statement.node) in (ir.Def, ir.Class, ir.Import, ir.ImportFrom) or _is_main_guard(statement):
                return meant[:index], None
    return meant, None


def _is_main_guard(statement: Statement) -> bool:
    node = statement.node
    return type(node) is ir.If and any(type(one) is ir.Name and one.id == "__name__" for one in within(statement))


def _suspends(statement: Statement) -> bool:
    """Whether it hands control to others in the middle: a mode would go with it."""
    return any(type(node) in (ir.Yield, ir.YieldFrom, ir.Await) for node in within(statement))


def _is_first(here: Here) -> bool:
    """Whether it is the first thing that a plain function does, behind its docstring."""
    if not here.around or type(here.around[-1].node) is not ir.Def or here.around[-1].node.is_async:
        return False
    before = [one for one in here.block if one.start < here.statement.start]
    documented = [
        one for one in before
        if type(one.node) is ir.ExprStmt and type(one.node.value) is ir.Const and isinstance(one.node.value.value, str)
    ]  # fmt: skip
    _, ended = _meant(here)
    return len(before) == len(documented) <= 1 and ended is None and bool(here.following)
