"""The abstract interpreter: what a program does to its gradients, as `Flow`.

    for flow in interpret(project, module, wanted=lambda text: True):
        for event in flow.of(events.Backward): ...

`events` says what can be asked. A `Flow` covers one *entry point*: a module's top level, or one function that nothing
at the top level reaches (its arguments are then unknown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from ..facts import Class, Function, Object
from ..project import Module, Project
from ..units import Unit
from . import events
from .interp import Args, Interpreter, OutOfSteps, Watch
from .standalone import call_alone

E = TypeVar("E", bound=events.Event)


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

    def of(self, kind: type[E]) -> Iterator[E]:
        """The events of one kind, in the order in which they happened."""
        return (event for event in self.events if isinstance(event, kind))

    def called(self, *names: str) -> Iterator[events.Called]:
        return (event for event in self.of(events.Called) if event.name in names)


def interpret(project: Project, module: Module, wanted: Callable[[str], bool], watch: Watch | None = None) -> list[Flow]:
    """Run a module's top level as a script, then each of its functions that was not reached and whose text is `wanted`."""
    run = Interpreter(project)
    run.watch = watch
    _guarded(run, lambda: run.run_module(module, main=True))
    flows = [_flow(run, module, True)]
    left = [
        (unit, owner)
        for unit, owner in functions(module)
        if wanted(unit.text) and not any(p == module.path and unit.start <= s < unit.end for p, s in run.executed)
    ]
    if not left:
        return flows
    # Seen as an import: what stands under `if __name__ == "__main__"` did not run.
    alone = Interpreter(project)
    alone.watch = watch
    _guarded(alone, lambda: alone.run_module(module))
    scope = alone.scopes[module.path]
    for unit, owner in left:
        if any(p == module.path and unit.start <= s < unit.end for p, s in alone.executed):
            continue
        alone.events, alone.complete, alone.steps, alone.stack = [], True, 0, None
        alone.notes.pop("bound", None)
        _guarded(alone, lambda unit=unit, owner=owner: call_alone(alone, module, scope, unit, owner))
        flows.append(_flow(alone, module, False))
    return flows


def functions(module: Module) -> Iterator[tuple[Unit, Unit | None]]:
    """The functions of a module and the methods of its classes, with the class's unit."""
    for unit in module.units:
        if unit.is_def:
            yield unit, None
        elif unit.kind == "class":
            for child in unit.children:
                if child.is_def:
                    yield child, unit


def _guarded(run: Interpreter, action: Callable[[], object]) -> None:
    try:
        action()
    except OutOfSteps:
        run.complete = False
        run.notes["bound"] = "steps"
    except RecursionError:
        run.complete = False
        run.notes["bound"] = "depth"


def _flow(run: Interpreter, module: Module, whole: bool) -> Flow:
    handed = run.state.shared.get("handed", frozenset())
    return Flow(
        module, run.events, run.objects, whole, run.complete, handed, run.project, frozenset(run.read),  # type: ignore[arg-type]
        [str(run.notes["bound"])] if "bound" in run.notes else [], run,
    )  # fmt: skip


__all__ = ["Args", "Class", "Flow", "Function", "events", "functions", "interpret"]
