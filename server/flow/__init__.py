"""The abstract interpreter: what a program does to its gradients, as `Flow`.

    for flow in interpret(project, module, wanted=lambda name, text: True):
        for event in flow.of(events.Backward): ...

`events` says what can be asked. A `Flow` covers one *entry point*: a module's top level, or one function that nothing
at the top level reaches (its arguments are then unknown).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from .. import ir
from ..facts import Class, Function, Leaf, Object
from ..findings import Place
from ..project import Module, Project
from ..units import Unit
from . import events, naming, scopes
from .frames import Args
from .interp import ALONE_DEPTH_LIMIT, ALONE_STEP_LIMIT, Interpreter, OutOfSteps, StoppedError, Watch
from .modules import library_class
from .resuming import Edited, edited
from .standalone import call_alone, function_alone

E = TypeVar("E", bound=events.Event)
T = TypeVar("T")
Wanted = Callable[[str, str], bool]  # of a function's name and text: may it be the place of a finding


@dataclass
class Flow:
    """What happened on one entry point.

    `whole` says that it is a program from its start (absences may be claimed); `complete` that no bound was passed and
    no text was unreadable.
    """

    module: Module
    events: list[events.Event]
    objects: list[Object]
    whole: bool
    complete: bool
    handed: frozenset[object]
    project: Project
    read: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    run: Interpreter | None = None
    _among: dict[tuple[type, ...], list[events.Event]] = field(default_factory=dict, repr=False)

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in the order in which they happened."""
        return iter(self._kinds.get(kind, ()))  # type: ignore[arg-type]

    def among(self, *kinds: type[events.Event]) -> list[events.Event]:
        """The events of some kinds, in the order in which they happened."""
        found = self._among.get(kinds)
        if found is None:
            if sum(kind in self._kinds for kind in kinds) < 2:  # most programs have but one of them
                found = next((self._kinds[kind] for kind in kinds if kind in self._kinds), [])
            else:
                found = [event for event in self.events if type(event) in kinds]
            self._among[kinds] = found
        return found

    @functools.cached_property
    def _kinds(self) -> dict[type, list[events.Event]]:
        kinds: dict[type, list[events.Event]] = {}
        for event in self.events:
            kinds.setdefault(type(event), []).append(event)
        return kinds

    @property
    def selected(self) -> set[int]:
        """The numbers of loops (by identity) that chose an item or went to unknown code."""
        return self.run.notes.get("selected", set()) if self.run is not None else set()  # type: ignore[return-value]

    @property
    def entered(self) -> frozenset[int]:
        """The offsets of the functions of the module itself that were called."""
        executed = self.run.executed if self.run is not None else ()
        return frozenset(at for path, at in executed if path == self.module.path)

    @property
    def made(self) -> frozenset[tuple[str, int]]:
        """File and offset of each `def` and `class` that was read; of the others nothing but their names was."""
        return frozenset(self.run.made) if self.run is not None else frozenset()

    @property
    def asked(self) -> dict[str, frozenset[str]]:
        """Of each file that was opened and not run: the names that were looked up in it."""
        found: dict[str, set[str]] = {}
        for path, name in self.run.reasons if self.run is not None else ():
            if path not in self.run.running:  # type: ignore[union-attr]
                found.setdefault(path, set()).add(name)
        return {path: frozenset(names) for path, names in found.items()}

    @functools.cached_property
    def left(self) -> frozenset[str]:
        """What is called in branches that were left out, since their condition is known not to hold: the last names."""
        bodies = self.run.notes.get("left", {}) if self.run is not None else {}
        calls = (node.func for _, body in bodies.values() for node in ir.nodes(body) if isinstance(node, ir.Call))  # type: ignore[attr-defined]
        return frozenset(f.id if isinstance(f, ir.Name) else f.name if isinstance(f, ir.Attr) else "" for f in calls)

    @property
    def tainted(self) -> bool:
        """Somewhere a backward goes through a graph that is not known: it may be any."""
        return self.run is not None and "unknown backward" in self.run.notes

    def called(self, *names: str) -> Iterator[events.Called]:
        """The calls of functions of these names, in the order in which they happened."""
        known = [name for name in names if name in self._calls]
        if len(known) == 1:
            return iter(self._calls[known[0]])
        return (event for event in self.of(events.Called) if event.name in known) if known else iter(())

    def forwards(self, *classes: str) -> Iterator[events.Forward]:
        """The calls of torch's own layers of these classes."""
        return (event for name in sorted(classes) for event in self._layers.get(name, ()))

    @functools.cached_property
    def _layers(self) -> dict[str, list[events.Forward]]:
        layers: dict[str, list[events.Forward]] = {}
        for event in self.of(events.Forward):
            layers.setdefault(library_class(event.module), []).append(event)
        return layers

    @functools.cached_property
    def _calls(self) -> dict[str, list[events.Called]]:
        calls: dict[str, list[events.Called]] = {}
        for event in self.of(events.Called):
            calls.setdefault(event.name, []).append(event)
        return calls

    def code(self, place: Place) -> str:
        """The code at a place, short and in backticks: what the user calls what a message speaks of."""
        return naming.quoted(self.project.source(place.path), place.start, place.end)

    def names(self, leaves: Iterable[Leaf]) -> str:
        """What the user calls these parameters, the first few of them, for a message."""
        return naming.names_of(leaves, self._called)

    @functools.cached_property
    def _called(self) -> dict[Leaf, str]:
        scope = self.run.scopes.get(self.module.path) if self.run is not None else None
        return naming.called(self.objects, scope.names if scope is not None else None)


def interpret(project: Project, module: Module, wanted: Wanted, watch: Watch | None = None) -> Iterator[Flow]:
    """Run a module's top level as a script, then each of its functions that was not reached and that is `wanted`.

    What a flow's objects hold is to be asked before the next flow is: what a function has done is undone then.
    """
    whole = program(project, module, watch) if watch is not None or acts(module, wanted) else None
    if whole is not None:
        yield whole
    yield from lone(project, module, wanted, whole.entered if whole is not None else frozenset(), watch)


def program(project: Project, module: Module, watch: Watch | None = None, editing: Edited | None = None) -> Flow:
    """Run a module's top level as a script.

    `editing`: what was run before the last edit is not run again, and all places are those of the spread file, which
    the project has to have in the place of the real one.
    """
    if editing is not None:
        return _flow(editing.run(project, _guarded), editing.spread.module, True)
    run = Interpreter(project)
    run.watch = watch
    _guarded(run, lambda: scopes.run_module(run, module, main=True))
    return _flow(run, module, True)


def lone(
    project: Project, module: Module, wanted: Wanted, entered: Collection[int], watch: Watch | None = None
) -> Iterator[Flow]:
    """Run each function of a module that is `wanted` and not among those at the offsets `entered`."""
    left = [(unit, owner) for unit, owner in functions(module) if wanted(unit.name, unit.text)]
    if entered:
        left = [(unit, owner) for unit, owner in left if not any(unit.start <= at < unit.end for at in entered)]
    if not left:
        return
    # Names are found as they are asked for: what stands under `if __name__ == "__main__"` does not run.
    alone = _for_functions(project) if watch is None else _new_for_functions(project)
    alone.watch = watch
    alone.executed, alone.read, alone.counted, alone.objects = set(), {module.path}, set(), []
    alone.notes.clear()
    alone.handed.clear()
    alone.state.journal.clear()
    scope = scopes.open_module(alone, module)
    for unit, owner in left:
        if any(p == module.path and unit.start <= s < unit.end for p, s in alone.executed):
            continue
        alone.events, alone.complete, alone.stack = [], True, None
        alone.begin()
        alone.notes.pop("bound", None)
        alone.notes.pop("taint", None)
        alone.notes.pop("unknown backward", None)
        try:
            function = _guarded(alone, lambda unit=unit, owner=owner: function_alone(alone, module, scope, unit, owner))
            mark = alone.state.mark()
            if function is not None:
                _guarded(alone, lambda function=function: call_alone(alone, module, scope, function))
        except StoppedError:
            project.definitions = None  # one of them may be half made
            raise
        yield _flow(alone, module, False)
        alone.state.undo(mark)


def _for_functions(project: Project) -> Interpreter:
    """The interpreter in which functions are judged alone: what modules define is made once for all files of a check."""
    run = project.definitions
    if isinstance(run, Interpreter):
        changed, project.changed = project.changed, set()
        if all(scopes.forget(run, path) for path in changed):
            return run
    project.changed = set()
    project.definitions = run = _new_for_functions(project)
    return run


def _new_for_functions(project: Project) -> Interpreter:
    run = Interpreter(project)
    run.alone, run.step_limit, run.depth_limit = True, ALONE_STEP_LIMIT, ALONE_DEPTH_LIMIT
    return run


def is_script(module: Module) -> bool:
    """Whether a module's top level does something besides defining."""
    return acts(module, lambda name, text: False)


def acts(module: Module, wanted: Wanted) -> bool:
    """Whether a module's top level does something besides defining, or may be the place of a finding."""
    return any(_acts(unit, wanted) for unit in module.units) or _runs_own(module)


_CALL = re.compile(r"^[A-Za-z_][\w.]*\(|^(?:for|while|with|async)\b")
_RESULT = re.compile(r"^[\w.,*() \t]+=[ \t]*(\w+)\(")
_METHOD = re.compile(r"\)\.\w+\(")
# `optimizer = torch.optim.SGD(...)`, `grads = grad(loss_of)(params)`: what only a program does.
_PROGRAM = re.compile(r"=[ \t]*(?:torch\.)?optim\.[A-Z]\w+\(|=[ \t]*[\w.]+\([^()\n]*\)\(")
_GUARD = re.compile(r"if\s+(?:TYPE_CHECKING|typing\.TYPE_CHECKING|sys\.|is_\w+available)")


def _acts(unit: Unit, wanted: Wanted) -> bool:
    """Whether a unit of the top level does something, and is no mere definition, import or constant."""
    text = unit.text
    if unit.is_def or unit.kind == "class" or text.startswith(("import", "from", '"', "'", "@")):
        return False
    if text.startswith("if"):
        return _GUARD.match(text) is None and "(" in text
    if text.startswith("try"):
        return wanted("", text)
    if "(" not in text:
        return False
    return _CALL.match(text) is not None or _PROGRAM.search(text) is not None or wanted("", text)


def _runs_own(module: Module) -> bool:
    """Whether the top level keeps what one of the module's own functions gives: `history = train(model)`."""
    functions = {unit.name for unit in module.units if unit.is_def}
    classes = {unit.name for unit in module.units if unit.kind == "class"}
    for unit in module.units:
        match = _RESULT.match(unit.text) if unit.kind == "code" and not unit.is_def else None
        if match is not None and (match[1] in functions or (match[1] in classes and _METHOD.search(unit.text))):
            return True
    return False


def functions(module: Module) -> Iterator[tuple[Unit, Unit | None]]:
    """The functions of a module and the methods of its classes, with the class's unit."""
    for unit in module.units:
        if unit.is_def:
            yield unit, None
        elif unit.kind == "class":
            for child in unit.children:
                if child.is_def:
                    yield child, unit


def _guarded(run: Interpreter, action: Callable[[], T]) -> T | None:
    """What `action` gives; None if it passes a bound."""
    try:
        return action()
    except OutOfSteps:
        run.complete = False
        run.notes["bound"] = "steps"
    except RecursionError:
        run.complete = False
        run.notes["bound"] = "depth"
    return None


def _flow(run: Interpreter, module: Module, whole: bool) -> Flow:
    return Flow(
        module, run.events, run.objects, whole, run.complete, frozenset(run.handed), run.project, frozenset(run.read),  # type: ignore[arg-type]
        [str(run.notes["bound"])] if "bound" in run.notes else [], run,
    )  # fmt: skip


__all__ = [
    "Args",
    "Class",
    "Edited",
    "Flow",
    "Function",
    "StoppedError",
    "acts",
    "edited",
    "events",
    "functions",
    "interpret",
    "is_script",
    "lone",
    "program",
]
