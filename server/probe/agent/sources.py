"""Reading the user's source, to say which line is meant: only after something was seen at run time."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator

from .places import Place, Places


@functools.lru_cache(maxsize=256)
def tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _targets(node: ast.AST) -> list[ast.expr]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        targets = [node.target]
    flat: list[ast.expr] = []
    while targets:
        target = targets.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            targets.extend(target.elts)
        else:
            flat.append(target)
    return flat


def attribute(cls: type, name: str, places: Places) -> Place | None:
    """The first line that assigns `self.<name>` in the class or its bases."""
    for base in cls.__mro__:
        try:
            file = inspect.getsourcefile(base)
        except TypeError:
            continue
        module = tree(file) if file and places.is_user(file) else None
        if file is None or module is None:
            continue
        for node in ast.walk(module):
            if not (isinstance(node, ast.ClassDef) and node.name == base.__name__):
                continue
            lines = [
                _line(inner)
                for inner in ast.walk(node)
                for target in _targets(inner)
                if isinstance(target, ast.Attribute)
                and target.attr == name
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            ]
            if lines:
                return Place(file, min(lines), f"{base.__name__}.__init__")
    return None


def _function(module: ast.Module, line: int) -> ast.AST:
    """The innermost function that holds the line, or the module."""
    best: ast.AST = module
    for node in ast.walk(module):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.lineno <= line <= (node.end_lineno or node.lineno)
            and node.lineno >= _line(best)
        ):
            best = node
    return best


def assigned(place: Place, name: str) -> Place | None:
    """The last line before `place`, in the same function, that binds the local `name`."""
    module = tree(place.file)
    if module is None:
        return None
    scope = _function(module, place.line)
    lines = [
        _line(node)
        for node in ast.walk(scope)
        if getattr(node, "lineno", place.line) < place.line
        for target in _targets(node)
        if isinstance(target, ast.Name) and target.id == name
    ]
    return Place(place.file, max(lines), place.function) if lines else None


def receiver(place: Place, attribute_name: str) -> str | None:
    """`x` of `x.<attribute_name>` on that line, when it is a plain name."""
    module = tree(place.file)
    for node in ast.walk(module) if module else ():
        if (
            isinstance(node, ast.Attribute)
            and node.attr == attribute_name
            and node.lineno <= place.line <= (node.end_lineno or node.lineno)
            and isinstance(node.value, ast.Name)
        ):
            return node.value.id
    return None


def statements(files: list[str]) -> Iterator[tuple[str, ast.stmt]]:
    for file in files:
        module = tree(file)
        for node in ast.walk(module) if module else ():
            if isinstance(node, ast.stmt):
                yield file, node


def uncalled(files: list[str], name: str) -> Place | None:
    """A statement that only looks up `.name` and does not call it."""
    for file, node in statements(files):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr == name:
            return Place(file, node.lineno, "")
    return None


def result_kept(files: list[str], name: str) -> Place | None:
    """An assignment of what `.name()` gives back."""
    for file, node in statements(files):
        if (
            isinstance(node, (ast.Assign, ast.AnnAssign))
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr == name
        ):
            return Place(file, node.lineno, "")
    return None


def attribute_set(files: list[str], name: str, owner: str = "") -> Place | None:
    """A line that assigns `<...>.owner.name`, or any `.name` where no owner is asked for."""
    for file, node in statements(files):
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and target.attr == name:
                held = target.value
                last = held.attr if isinstance(held, ast.Attribute) else held.id if isinstance(held, ast.Name) else ""
                if not owner or last == owner:
                    return Place(file, node.lineno, "")
    return None


def discards(place: Place, name: str) -> bool:
    """Whether that line is a statement that calls `.name()` and drops the result."""
    module = tree(place.file)
    for node in ast.walk(module) if module else ():
        if isinstance(node, ast.Expr) and node.lineno == place.line and isinstance(node.value, ast.Call):
            func = node.value.func
            return isinstance(func, ast.Attribute) and func.attr == name
    return False


def accumulates(place: Place) -> bool:
    """Whether that line adds to a name: `x += ...` or `x = x + ...`."""
    module = tree(place.file)
    for node in ast.walk(module) if module else ():
        if getattr(node, "lineno", 0) != place.line:
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            return True
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            sides = {ast.dump(node.value.left), ast.dump(node.value.right)}
            if any(ast.dump(target).replace("Store()", "Load()") in sides for target in node.targets):
                return True
    return False


def appended(place: Place) -> Place | None:
    """A statement `....append(x)` in the function of `place`, where `x` is what `.backward` is called on there."""
    name = receiver(place, "backward")
    module = tree(place.file)
    if name is None or module is None:
        return None
    for node in ast.walk(_function(module, place.line)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
            and node.value.func.attr in ("append", "appendleft")
            and [arg.id for arg in node.value.args if isinstance(arg, ast.Name)] == [name]
        ):
            return Place(place.file, node.lineno, place.function)
    return None


def duplicated(place: Place) -> Place | None:
    """A list or sum near `place`, in its function, that names one thing twice."""
    module = tree(place.file)
    if module is None:
        return None
    for node in ast.walk(_function(module, place.line)):
        if isinstance(node, (ast.List, ast.Tuple)):
            parts = [ast.dump(item) for item in node.elts]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [ast.dump(node.left), ast.dump(node.right)]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "chain":
            parts = [ast.dump(item) for item in node.args]
        else:
            continue
        if len(set(parts)) < len(parts) and any("Call(" in part for part in parts):
            return Place(place.file, node.lineno, place.function)
    return None


def method_return(cls: type, method: str) -> Place | None:
    """The last `return` of a method of the class."""
    function = inspect.unwrap(getattr(cls, method))
    code = getattr(function, "__code__", None)
    module = tree(code.co_filename) if code else None
    if code is None or module is None:
        return None
    scope = _function(module, code.co_firstlineno + 1)
    lines = [node.lineno for node in ast.walk(scope) if isinstance(node, ast.Return)]
    return Place(code.co_filename, max(lines, default=code.co_firstlineno), method)
