"""The names of modules: bound when they are asked for, so that importing a large package costs next to nothing.

A module whose import may change grad mode is run from top to bottom, as Python does. Any other is only *opened*: a
name that is asked of it is found in the index of its units, and the units that bind it are run then. Functions and
classes are not even read before they are used.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from .. import ir, torchlib
from ..facts import UNKNOWN, Class, Const, External, Frames, Function, ModuleValue, Scope, Text, Value
from ..project import Module
from ..units import Unit
from .frames import Frame

if TYPE_CHECKING:
    from .interp import Interpreter

_ASSIGNED = re.compile(r"^[ \t]*([A-Za-z_]\w*(?:[ \t]*,[ \t]*[A-Za-z_]\w*)*)[ \t]*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]+(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)


class Lazy(Protocol):
    """What stands for a value that is not made yet."""

    previous: object

    def make(self, run: Interpreter) -> Value: ...


class LazyDef:
    """A `def` or `class` that was met but not read."""

    __slots__ = ("cls", "module", "previous", "scope", "unit")

    def __init__(self, unit: Unit, module: Module, scope: Scope, cls: Class | None, previous: object) -> None:
        self.unit, self.module, self.scope, self.cls = unit, module, scope, cls
        self.previous = previous

    def make(self, run: Interpreter) -> Value:
        run.made.add((self.module.path, self.unit.start))
        frame = Frame(self.scope, self.module, self.unit, self.unit.start, cls=self.cls)
        frames, run.frames = run.frames, [*run.frames, frame]
        mode, mark = run.state.mode, run.state.mark()
        try:
            for statement in self.unit.ir:
                if isinstance(statement, ir.Def):
                    return run.make_function(statement)
                if isinstance(statement, ir.Class):
                    return _objects.make_class(run, statement)
        finally:
            run.frames = frames
            run.state.mode = mode
            run.state.keep(mark)  # a definition is the same on every path
        return UNKNOWN


class LazyName:
    """A name that is bound by `from module import name`."""

    __slots__ = ("at", "importer", "module", "name", "previous")

    def __init__(self, module: Module, name: str, importer: Module, at: int) -> None:
        self.module, self.name, self.importer, self.at = module, name, importer, at
        self.previous: object = None

    def make(self, run: Interpreter) -> Value:
        value = attribute(run, self.module, self.name, self.at)
        reads = run.reasons.get((self.module.path, self.name), (self.module.path,))
        run.borrowed.setdefault(self.importer.path, set()).update(reads)
        return value


LAZY = frozenset({LazyDef, LazyName})


# ---------------------------------------------------------------- opening and running


def run_module(run: Interpreter, module: Module, main: bool = False) -> Scope:
    """Execute a module's top level (once), as an import does."""
    scope = open_module(run, module)
    if main:
        run.state.put(scope.names, "__name__", Const("__main__"))
    if module.path in run.running:
        return scope
    run.running.add(module.path)
    frame = Frame(scope, module, None, 0, mark=run.state.mark())
    frames, run.frames = run.frames, [*run.frames, frame]
    try:
        run.run_units(module.units)
    finally:
        run.frames = frames
    return scope


def run_unit(run: Interpreter, unit: Unit) -> bool:
    frame = run.frame
    saved = frame.unit, frame.base
    frame.unit, frame.base = unit, unit.start
    try:
        if unit.name and (unit.is_def or unit.kind == "class"):
            names = frame.scope.names
            lazy = LazyDef(unit, frame.module, frame.scope, frame.cls, names.get(unit.name))
            run.state.set(names, unit.name, run.defer(lazy))
            if unit.text.startswith("@") and frame.cls is None and _registers(run, frame.module, names, unit.text):
                run.force(names, unit.name)
            return False
        return run.run_body(unit.ir)
    finally:
        frame.unit, frame.base = saved


_DECORATOR = re.compile(r"@(\w+)")


def _registers(run: Interpreter, module: Module, names: dict[str, object], text: str) -> bool:
    """Whether a definition may enter itself into something: a function of the same file, which is run, decorates it."""
    match = _DECORATOR.match(text)
    by = names.get(match[1]) if match is not None else None
    own = (isinstance(by, LazyDef) and by.unit.is_def and by.module is module) or isinstance(by, Function)
    return own and module.path in run.running


def open_module(run: Interpreter, module: Module) -> Scope:
    """The scope of a module, whose names are found as they are asked for."""
    scope = run.scopes.get(module.path)
    if scope is None:
        scope = Scope({"__name__": Const(module.name), "__file__": Text()})
        run.scopes[module.path] = scope
        run.read.add(module.path)
    return scope


def import_module(run: Interpreter, module: Module, at: int) -> Value:
    """`import module`: run now only if that may change grad mode."""
    run.read.add(module.path)
    if module.path not in run.running and run.project.may_switch(module):
        stack = run.stack
        run.stack = Frames(run.place(at), f"import {module.name}", "import", stack)
        try:
            run_module(run, module)
        finally:
            run.stack = stack
    return ModuleValue(module)


def forget(run: Interpreter, path: str) -> bool:
    """Unlearn what one module defines, its text having changed; false if others have been made of it."""
    if any(path in reads for (other, _), reads in run.reasons.items() if other != path):
        return False
    run.scopes.pop(path, None)
    run.opened.pop(path, None)
    run.stars.pop(path, None)
    run.running.discard(path)
    run.borrowed.pop(path, None)
    run.unbound = {key for key in run.unbound if key[0] != path}
    for key in [key for key in run.reasons if key[0] == path]:
        del run.reasons[key]
    return True


# ---------------------------------------------------------------- asking for a name


def name_in(run: Interpreter, module: Module, name: str) -> Value | None:
    """The value of a module's own name; None if the module does not bind it.

    What was read to make it is remembered: whoever asks later has read that too.
    """
    key = (module.path, name)
    reads = run.reasons.get(key)
    if reads is None:
        outer, run.read = run.read, {module.path}
        try:
            value = _name_in(run, module, name)
        finally:
            if run.alone:  # what it names may have been made for another function before
                run.read |= run.borrowed.get(module.path, set())
            reads = run.reasons[key] = frozenset(run.read)
            outer |= reads
            run.read = outer
        run.counted.add(key)
        return value
    if key not in run.counted:
        run.counted.add(key)
        run.read |= reads
    return _name_in(run, module, name)


def _name_in(run: Interpreter, module: Module, name: str) -> Value | None:
    scope = open_module(run, module)
    value = run.force(scope.names, name)
    if value is not None or module.path in run.running:
        return value if value is not None else _starred(run, module, name)
    done = run.opened.setdefault(module.path, set())
    for index in bindings(module).get(name, ()):
        if index not in done:
            done.add(index)
            _run_apart(run, module, scope, module.units[index])
    value = run.force(scope.names, name)
    return value if value is not None else _starred(run, module, name)


def _run_apart(run: Interpreter, module: Module, scope: Scope, unit: Unit) -> None:
    """Run one unit of a module whose import has no effect on what is being interpreted."""
    state = run.state
    mode, stack, mark = state.mode, run.stack, state.mark()
    frames, run.frames = run.frames, [*run.frames[:1], Frame(scope, module, None, 0, mark=mark)]
    try:
        run_unit(run, unit)
    finally:
        run.frames, run.stack, state.mode = frames, stack, mode
        # It happened at the import, before the branch that asks for the name: undoing that must not unbind it.
        state.keep(mark)


def bindings(module: Module) -> dict[str, tuple[int, ...]]:
    """For each name that the module's top level may bind, the units that do; star imports under `*`."""
    if module.bindings is None:
        found: dict[str, list[int]] = {}
        for index, unit in enumerate(module.units):
            for name in bound_by(unit):
                found.setdefault(name, []).append(index)
        module.bindings = {name: tuple(units) for name, units in found.items()}
    return module.bindings


def bound_by(unit: Unit) -> set[str]:
    """The names that a unit of the top level may bind; `*` if it imports all of a module's."""
    if unit.name and (unit.is_def or unit.kind == "class"):
        return {unit.name}
    text = unit.text
    names: set[str] = set()
    if text.startswith(("import", "from")):
        for statement in unit.ir:
            if isinstance(statement, ir.Import):
                names.update(a.asname or a.name.partition(".")[0] for a in statement.names)
            elif isinstance(statement, ir.ImportFrom):
                names.update(a.asname or a.name for a in statement.names)
        return names
    for group in _ASSIGNED.findall(text):
        names.update(part.strip() for part in group.split(","))
    if unit.kind == "block" or text.startswith(("if", "try", "for", "with", "while")):
        names.update(_DEFINED.findall(text))
        if "import" in text:
            for level in module_imports(unit):
                names.update(level)
    return names


def module_imports(unit: Unit) -> list[list[str]]:
    """The names that imports inside a block at the top level bind."""
    found: list[list[str]] = []

    def look(body: ir.Body, inside: Unit) -> None:
        for s in body:
            if isinstance(s, ir.Part):
                child = inside.children[s.index]
                look(child.ir, child)
            elif isinstance(s, ir.Import):
                found.append([a.asname or a.name.partition(".")[0] for a in s.names])
            elif isinstance(s, ir.ImportFrom):
                found.append([a.asname or a.name for a in s.names])
            else:
                for part in ("body", "orelse", "final"):
                    block = getattr(s, part, None)
                    if isinstance(block, tuple) and not isinstance(s, (ir.Def, ir.Class)):
                        look(block, inside)
                for handler in getattr(s, "handlers", ()):
                    look(handler.body, inside)

    look(unit.ir, unit)
    return found


def attribute(run: Interpreter, module: Module, name: str, at: int) -> Value:
    """`module.name`, also when it is a submodule that was not imported yet."""
    value = name_in(run, module, name)
    if value is not None:
        return value
    submodule = run.project.submodule(module, name)
    if submodule is not None:
        return import_module(run, submodule, at)
    return UNKNOWN


def _starred(run: Interpreter, module: Module, name: str) -> Value | None:
    """A name that a star import may have brought."""
    if name.startswith("_"):
        return None
    if module.path not in run.running:
        done = run.opened.setdefault(module.path, set())
        for index in bindings(module).get("*", ()):
            if index not in done:
                done.add(index)
                _run_apart(run, module, open_module(run, module), module.units[index])
    for source in run.stars.get(module.path, ()):
        if isinstance(source, Module):
            if (module.path, source.path, name) in run.asking:
                continue
            run.asking.add((module.path, source.path, name))
            try:
                value = name_in(run, source, name)
            finally:
                run.asking.discard((module.path, source.path, name))
            if value is not None:
                return value
        else:
            full = f"{source}.{name}"
            if torchlib.module(full) or torchlib.op(full) or torchlib.optimizer(full):
                return External(torchlib.canonical(full))
    return None


# The parts of the interpreter know each other: these come when this one is complete.
from . import objects as _objects  # noqa: E402
