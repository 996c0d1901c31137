"""A function that nothing at the top level reaches, judged on its own: its arguments are not known."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator
from typing import TYPE_CHECKING

from ..facts import DEFAULT_MODE, UNKNOWN, Class, Function, Object, Scope, Value, Wrapped
from ..memo import Recent
from ..project import Module
from ..units import Unit
from . import frameworks, scopes
from .calls import call, instantiate
from .frames import Args, Frame
from .modules import submodules
from .objects import bound, find, is_module

if TYPE_CHECKING:
    from .interp import Interpreter

_STORES = re.compile(r"self\.(\w+)(?:\s*:[^=\n]+)?\s*(?:[-+*/]?=)(?!=)")


def function_alone(run: Interpreter, module: Module, scope: Scope, unit: Unit, owner: Unit | None) -> Function | None:
    """The function of `unit`, bound to an instance if `owner` is the unit of its class; None if there is none to call."""
    with _standing(run, module, scope):
        target = scopes.name_in(run, module, unit.name if owner is None else owner.name)
        if owner is not None:
            target = method_alone(run, target, unit.name) if isinstance(target, Class) else None
        if isinstance(target, Wrapped) and isinstance(target.function, Function):
            target = target.function
        return target if isinstance(target, Function) else None


def call_alone(run: Interpreter, module: Module, scope: Scope, function: Function) -> None:
    """Call a function with unknown arguments. What it does to the state stays."""
    with _standing(run, module, scope):
        result = call(run, function, Args([], {}, spread=True), None)
        frameworks.step_returned(run, function, result)


@contextlib.contextmanager
def _standing(run: Interpreter, module: Module, scope: Scope) -> Generator[None, None, None]:
    """As if it were done by the module's top level, with grad mode as it is at the start."""
    run.frames.append(Frame(scope, module, None, 0, mark=run.state.mark()))
    run.state.mode = DEFAULT_MODE
    try:
        yield
    finally:
        run.frames.pop()


def method_alone(run: Interpreter, cls: Class, name: str) -> Value | None:
    """The method bound to an instance of its class as `__init__` leaves it, as far as other methods leave it alone."""
    instance = instance_alone(run, cls)
    member = find(cls, name, run)
    if member is None or instance is None or name == "__init__":
        return None  # making the instance has run `__init__`
    return bound(member[0], instance) if isinstance(member[0], Function) else member[0]


def instance_alone(run: Interpreter, cls: Class) -> Object | None:
    key = ("alone", id(cls))
    known = run.notes.get(key)
    if isinstance(known, Object):
        return known
    instance = instantiate(run, cls, Args([], {}, spread=True), None)
    if not isinstance(instance, Object):
        return None
    instance.cells["standalone"] = True
    for module in submodules(run, instance) if is_module(instance) else ():
        module.cells["training"] = None  # whoever calls it may have said `eval()`
    for attribute in stored_elsewhere(cls):
        value = instance.attrs.get(attribute)
        if value is not None and not is_module(value):  # type: ignore[arg-type]
            instance.attrs[attribute] = UNKNOWN
    run.notes[key] = instance
    return instance


_STORED: Recent[str, tuple[str, ...]] = Recent(1_000_000)  # characters of methods


def _stored_in(text: str) -> tuple[str, ...]:
    if "self." not in text:
        return ()
    known = _STORED.get(text)
    return known if known is not None else _STORED.put(text, tuple(_STORES.findall(text)))


def stored_elsewhere(cls: Class) -> set[str]:
    """Attributes that methods other than `__init__` assign: their value is not the one `__init__` gave."""
    names: set[str] = set()
    for base in cls.mro:
        if not isinstance(base, Class):
            continue
        for unit in base.module.units:
            if unit.kind == "class" and unit.name == base.name:
                for child in unit.children:
                    if child.name != "__init__":
                        names.update(_stored_in(child.text))
    return names
