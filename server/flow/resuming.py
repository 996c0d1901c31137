"""A program that is being edited: its last run is gone back in to where the edit comes in, and taken up there.

What a script does before its training loop (models are built, data are loaded) is most of its run, and most edits
leave it alone. So while somebody types in a script, a `Recorder` keeps *moments* of its run: between two statements of
the module's top level, or of a function that it calls there. The *way* to a moment says where that is:

    def main():                              Stop(7, "unit")   the module's unit 7, `if __name__ ...`
        net = Net()                          Stop(0, "body")   its statement 0, the `if`, and in it the body
        trainer = Trainer(net)               Stop(0, "call")   of which statement 0 calls `main`
        trainer.fit()       # a moment       Stop(2)           whose statement 2 comes next
    if __name__ == "__main__":
        main()

After an edit the latest moment is looked for before which nothing of what has changed was run or read (`_Meeting`).
The run is *led* there: it begins again in what the moment held, evaluates only the statements of the way, each leading
into the next body, and when it has arrived all is set to what it was at the moment, so that leading has left nothing.
If it arrives anywhere else (`_LostError`), the program is run from its start.

That all places of the part that stays are still right is what the `Spread` is for. Besides places these remember what
was before, and are looked after: `Function` and `LazyDef` (their code: `_exchange`; a function of which other objects
were made is not gone into anew, `Function.copied`), `Frames` (rules ask whether two calls are the same: `Moment.stacks`),
`notes` and what else a run knows (`_FIELDS`, each copied; `_OF_STATE` is not), branches that were left out (both are
compared), and identities of bodies, which are held by what has them as a key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .. import ir
from ..facts import Frames, Function, Scope, Value
from ..project import Module, Project
from ..state import Recorded
from ..units import DEF, Unit, Units
from . import scopes
from .frames import Frame
from .interp import STATEMENTS, Interpreter, StoppedError
from .spread import UNITS_LIMIT, Spread

EVERY = 60  # steps between two moments: half a millisecond; what keeping one costs is a twentieth of that
DEPTH = 4  # frames in which a run may be taken up: that of the module, of `main()`, of what that calls

T = TypeVar("T")


class _LostError(Exception):
    """The run does not come by where it was to be taken up."""


@dataclass(frozen=True)
class Stop:
    """A statement of one body on the way from the module's top level: its number, and how it leads to the next body."""

    index: int
    step: str = ""  # "unit", "body", "orelse", "part", "call"; "" at the end of the way


def _copy(value: T) -> T:
    return value.copy() if isinstance(value, (dict, list, set)) else value  # type: ignore[return-value]


# What a run has for all its time, or is set back in a way of its own; whatever else an interpreter knows is plain, or
# containers that are copied.
_OWN_WAY = frozenset(
    "project state events objects frames handed watch asking guesses alone step_limit depth_limit _look".split()
)
_FIELDS = [*(name for name in Interpreter.__slots__ if name not in _OWN_WAY), "called"]
# Notes that the state writes, and sets back itself.
_OF_STATE = frozenset({"freed"})
# Of the body that runs; not what it gets as it is entered again.
_FRAME = [each.name for each in fields(Frame) if each.name not in ("function", "module", "unit", "base", "scope")]


class Moment:
    """A point of a run between two statements to which it can be set back."""

    def __init__(self, run: Recorder, way: tuple[Stop, ...]) -> None:
        self.way = way
        self.events, self.objects = len(run.events), len(run.objects)
        self.named, self.defined = len(run.named), len(run.defined)
        self.journal = run.state.journal.copy()
        self.frames = [_frame(frame) for frame in run.frames]
        self.functions = [frame.function for frame in run.frames]
        # Where each was called: rules ask whether two calls are the very same.
        self.stacks: list[Frames | None] = [run.stack]
        for _ in run.frames[1:]:
            self.stacks.insert(0, self.stacks[0].up if self.stacks[0] is not None else None)
        self.fields = _separate({name: getattr(run, name) for name in _FIELDS})
        self.section = run.state.section()

    @property
    def made(self) -> Collection[tuple[str, int]]:
        return self.fields["made"]

    def restore(self, run: Recorder) -> None:
        """Set the run back, but for the bodies that run."""
        state = run.state
        state.rewind(self.section)
        state.journal = self.journal.copy()
        run.look_up_soon()
        del run.events[self.events :], run.objects[self.objects :]
        del run.named[self.named :], run.defined[self.defined :]
        for name, value in _separate(self.fields).items():
            setattr(run, name, value)

    def restore_frames(self, run: Recorder) -> None:
        """The bodies that run get the names, and all else, that those of the way had. Raises _LostError."""
        count = len(run.frames)
        if count > len(self.frames):
            raise _LostError
        function, before = run.frames[-1].function, self.functions[count - 1]
        if function is not before and (
            function is None or before is None or function.code is not before.code or function.bound is not before.bound
        ):
            raise _LostError
        run.stack = self.stacks[count - 1]
        for frame, (scope, flags, values) in zip(run.frames, self.frames, strict=False):
            frame.scope = scope
            scope.globals, scope.nonlocals, scope.captured = flags
            for name, value in values.items():
                setattr(frame, name, _copy(value))


def _separate(values: dict[str, Any]) -> dict[str, Any]:
    """The same with containers of its own."""
    return {
        name: {key: inner if key in _OF_STATE else _copy(inner) for key, inner in value.items()}
        if isinstance(value, dict)
        else _copy(value)
        for name, value in values.items()
    }


def _frame(frame: Frame) -> tuple[Scope, tuple[Any, ...], dict[str, Any]]:
    scope = frame.scope
    flags = scope.globals, scope.nonlocals, scope.captured
    return scope, flags, {name: _copy(getattr(frame, name)) for name in _FRAME}


class Recorder(Interpreter):
    """An interpreter that remembers moments of its run."""

    __slots__ = (
        "_ahead", "_frames", "_goal", "_leading", "_way", "called", "defined", "moments", "named",
    )  # fmt: skip

    state: Recorded

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.state = Recorded()
        self.moments: list[Moment] = []
        self.named: list[scopes.LazyDef] = []  # definitions that were met, in order
        self.defined: list[Function] = []  # functions that were made of a `def` of a module or class, in order
        self._way: list[Stop] = []  # of the bodies that run now, as far as the run can be taken up in them
        self._leading: list[Unit | ir.Stmt] = []  # the statement of each that runs now
        self._frames: list[int] = []  # how many frames there were in each
        self.called: set[tuple[str, int]] = set()  # file and offset of each function whose body has run
        self._ahead: list[int] = []  # where to go on: the statements of the way that is left
        self._goal: Moment | None = None

    def go_on(self, moment: Moment, module: Module) -> None:
        """Run the program from a moment on. Raises _LostError."""
        moment.restore(self)
        self.frames, self.stack, self.condition = [], None, None
        self._way, self._leading, self._frames = [], [], []
        self.running.discard(module.path)
        self._goal, self._ahead = moment, [stop.index for stop in moment.way]
        try:
            scopes.run_module(self, module, main=True)
            there = self._goal is None
        except RecursionError:
            there = self._goal is None
            if there:
                raise
        if not there:
            raise _LostError

    def drop_after(self, moment: Moment) -> None:
        """Forget the moments after this one: what was run there is not so any more."""
        del self.moments[self.moments.index(moment) + 1 :]

    # The way, and the moments on it

    def run_units(self, units: Units) -> None:
        if len(self.frames) != 1:
            super().run_units(units)
            return
        begin = self._enter()
        for index in range(begin, len(units)):
            self._pass(0, index, units[index])
            if scopes.run_unit(self, units[index]):
                break
            self._must_have_arrived()
        self._leave(0)

    def run_body(self, body: ir.Body) -> bool:
        first = self._is_first_call(body)
        step = self._leads_here(body, first) if self._way and len(self.frames) - self._frames[-1] < 2 else ""
        if not step:
            return Interpreter.run_body(self, body)
        level = len(self._way)
        self._way[-1] = Stop(self._way[-1].index, step)
        if self._goal is not None and self._goal.way[level - 1].step != step:
            raise _LostError
        begin = self._enter()
        ended = False
        for index in range(begin, len(body)):
            statement = body[index]
            self._pass(level, index, statement)
            self.tick()
            handler = STATEMENTS.get(type(statement))
            if handler is not None and handler(self, statement):
                ended = True
                break
            self._must_have_arrived()
        self._must_have_arrived()
        self._leave(level)
        return ended

    def _must_have_arrived(self) -> None:
        """A statement of the way has ended, and where to go on has not been met in it."""
        if self._goal is not None:
            raise _LostError

    def _enter(self) -> int:
        """A body of the way begins: the statement to begin with."""
        self._way.append(Stop(0))
        self._leading.append(ir.Pass(0))
        self._frames.append(len(self.frames))
        if not self._ahead:
            return 0
        begin, goal = self._ahead.pop(0), self._goal
        assert goal is not None
        if not self._ahead:
            goal.restore(self)
            self._goal = None
        goal.restore_frames(self)
        return begin

    def _pass(self, level: int, index: int, statement: Unit | ir.Stmt) -> None:
        """The next statement of a body of the way."""
        self._way[level], self._leading[level] = Stop(index), statement
        if self._goal is not None:
            return
        if self.steps - (self.moments[-1].fields["steps"] if self.moments else 0) >= EVERY:
            self.moments.append(Moment(self, tuple(self._way)))

    def _leave(self, level: int) -> None:
        del self._way[level:], self._leading[level:], self._frames[level:]

    def _is_first_call(self, body: ir.Body) -> bool:
        """Whether this is the body of a function that has not been called before."""
        function = self.frames[-1].function
        if function is None or body is not function.code.body:
            return False
        key = function.module.path, function.base + ir.unpack(function.code.at)[0]
        if key in self.called:
            return False
        self.called.add(key)
        return True

    def _leads_here(self, body: ir.Body, first: bool) -> str:
        """How the statement that runs leads to this body, if the run can be taken up in it; else "".

        `first`: it is a function's, which is called for the first time; an earlier call would have run all of its text.
        """
        leading, frames = self._leading[-1], self.frames
        deeper = len(frames) - self._frames[-1]
        if deeper not in (0, 1) or len(frames) > DEPTH or self.guesses or not all(map(_is_plain, frames[-2:])):
            return ""
        if deeper == 0:
            if isinstance(leading, Unit):
                return "unit"
            if isinstance(leading, ir.Part):
                return "part"
            if isinstance(leading, ir.If):
                return "body" if body is leading.body else "orelse" if body is leading.orelse else ""
            return ""
        call, function = _called_by(leading), frames[-1].function
        if call is None or function is None or self.stack is None:
            return ""
        code, caller = function.code, frames[-2]
        start, end = ir.unpack(call.at)
        if self.stack.place[1:] != (caller.base + start, caller.base + end) or type(code) is not ir.Def:
            return ""
        if code.name != _name(call) or body is not code.body or function.decorators:
            return ""
        if code.is_generator or code.is_async or (function.owner is not None and code.name.startswith("__")):
            return ""
        return "call" if first or self._goal is not None else ""

    # What an edit has to find again

    def defer(self, lazy: scopes.LazyDef) -> scopes.LazyDef:
        self.named.append(lazy)
        return lazy

    def make_function(self, s: ir.Def | ir.Lambda) -> Value:
        made = super().make_function(s)
        unit = self.frame.unit
        if isinstance(made, Function) and unit is not None and _definition(unit) is s:
            self.defined.append(made)
        return made


def _is_plain(frame: Frame) -> bool:
    """Whether nothing is open in a body that would have to be opened again."""
    return not (frame.forks or frame.branches or frame.caught or frame.cleanups or frame.loops)


def _called_by(statement: Unit | ir.Stmt) -> ir.Call | None:
    """The call that is all of a statement, or whose value it assigns or returns."""
    if isinstance(statement, (ir.ExprStmt, ir.Assign, ir.Return)) and isinstance(statement.value, ir.Call):
        return statement.value
    return None


def _name(call: ir.Call) -> str:
    return call.func.id if isinstance(call.func, ir.Name) else call.func.name if isinstance(call.func, ir.Attr) else ""


# ---------------------------------------------------------------- the program that is edited


class Edited:
    """The program in a file in which somebody types, over the edits: `begin`, then `run`, for each of its texts."""

    def __init__(self, module: Module) -> None:
        self.path = module.path
        self.spread = Spread(module)
        self.resumed = 0  # runs that were taken up, for tests of what was not run again
        self._last: Recorder | None = None
        self._from: Moment | None = None
        self._others: dict[str, Module | None] = {}  # the other files that the last run has read

    def begin(self, project: Project, module: Module) -> None:
        """Spread the present text, and look where the last run can be taken up."""
        olds, news = self.spread.module.units, self.spread.laid_out(module)
        last, self._from = self._last, None
        if last is not None and news is not None and self._others_are_same(project):
            moments = reversed(last.moments)
            self._from = next((m for m in moments if _Meeting(m, self.path, olds, news).is_clear()), None)
        if last is not None and self._from is not None and news is not None:
            last.drop_after(self._from)
            _exchange(last, olds, news)
        else:
            self._last = None
        if news is None:
            self.spread = Spread(module)
        else:
            self.spread.fill(news, module)

    def run(self, project: Project, guarded: Callable[[Interpreter, Callable[[], object]], object]) -> Recorder:
        """The run of the present text, while the project has the spread file in the place of the real one.

        `guarded` runs what may pass a bound. Raises StoppedError; what has run till then is not lost.
        """
        run, moment, module = self._last, self._from, self.spread.module
        self._last = self._from = None  # for the case that anything goes wrong
        try:
            if run is not None and moment is not None:
                taken = run
                try:
                    guarded(run, lambda: taken.go_on(moment, module))
                    self.resumed += 1
                    return self._keep(project, run)
                except _LostError:
                    pass
            run = Recorder(project)
            guarded(run, lambda: scopes.run_module(run, module, main=True))
            return self._keep(project, run)
        except StoppedError:
            if run is not None:
                self._keep(project, run)
            raise

    def _keep(self, project: Project, run: Recorder) -> Recorder:
        self._last = run
        self._others = {path: project.module(path) for path in run.read if path != self.path}
        return run

    def _others_are_same(self, project: Project) -> bool:
        return all(project.module(path) is module for path, module in self._others.items())


def edited(project: Project, module: Module) -> Edited | None:
    """The program in this file, if it is in this one that somebody types; its text is the present one then."""
    if project.typed != module.path or len(module.units) > UNITS_LIMIT:
        return None
    known = project.edited
    if not isinstance(known, Edited) or known.path != module.path:
        known = project.edited = Edited(module)
    else:
        known.begin(project, module)
    return known


def _exchange(run: Recorder, olds: Units, news: Units) -> None:
    """Let what was defined, and goes on being so, have the new text."""
    units = {old: new for old, new in _pairs(olds, news) if old is not new}
    for lazy in run.named:
        lazy.unit = units.get(lazy.unit, lazy.unit)
    for function in run.defined:
        new = units.get(function.unit)
        code = _definition(new) if new is not None else None
        if new is not None and code is not None and function.base == new.start:
            function.unit, function.code = new, code


def _pairs(olds: Units, news: Units) -> Iterator[tuple[Unit, Unit]]:
    """Each unit with what it has become, and the members of classes that have as many as before."""
    for old, new in zip(olds, news, strict=True):
        yield old, new
        if old.kind == new.kind == "class" and len(old.children) == len(new.children):
            yield from zip(old.children, new.children, strict=True)


def _definition(unit: Unit) -> ir.Def | None:
    return next((s for s in unit.ir if type(s) is ir.Def), None) if unit.is_def else None


class _Meeting:
    """Whether a moment comes before all that is different in other units."""

    def __init__(self, moment: Moment, path: str, olds: Units, news: Units) -> None:
        self.moment, self.path, self.olds, self.news = moment, path, olds, news
        self.gone_through: list[Unit] = []  # units of functions on the way that are not what they were

    def is_clear(self) -> bool:
        if not self._is_way_same():
            return False
        last = self.moment.way[0].index
        return all(
            old is new or self._was_unread(old, new)
            for old, new in zip(self.olds[:last], self.news[:last], strict=True)
        )

    def _is_way_same(self) -> bool:
        """Whether the same statements, with the same text before them, lead to the moment."""
        way, first = self.moment.way, self.moment.way[0].index
        if first >= len(self.olds):
            return False
        if len(way) == 1:
            return True
        old, new = self.olds[first], self.news[first]
        if (old.kind, old.is_def, old.name) != (new.kind, new.is_def, new.name) or old.is_def or old.kind == "class":
            return False
        before, now, depth = old.ir, new.ir, 0
        for stop in way[1:]:
            if not _is_begun_alike(old, new, before, now, stop.index):
                return False
            if not stop.step:
                return True
            if stop.index >= len(now) or type(before[stop.index]) is not type(now[stop.index]):
                return False
            one, two = before[stop.index], now[stop.index]
            if stop.step == "part":
                assert isinstance(one, ir.Part) and isinstance(two, ir.Part)
                if one.index >= len(new.children):
                    return False
                old, new = old.children[one.index], new.children[two.index]
                if old.start != new.start or old.is_def != new.is_def or old.kind != new.kind:
                    return False
                before, now = old.ir, new.ir
            elif stop.step == "call":
                if one != two or not _is_text_same(old, new, *ir.unpack(one.at)):
                    return False
                depth += 1
                pair = self._function(depth)
                if pair is None:
                    return False
                old, new, before, now = pair
            else:
                assert isinstance(one, ir.If) and isinstance(two, ir.If)
                if one.test != two.test or not _is_text_same(old, new, *ir.unpack(one.test.at)):
                    return False
                other = "orelse" if stop.step == "body" else "body"  # rules ask what was left out
                if getattr(one, other) != getattr(two, other):
                    return False
                before, now = getattr(one, stop.step), getattr(two, stop.step)
        return False

    def _function(self, depth: int) -> tuple[Unit, Unit, ir.Body, ir.Body] | None:
        """A function on the way: its unit, old and new, and its body."""
        function = self.moment.functions[depth]
        if function is None or type(function.code) is not ir.Def:
            return None
        old, code = function.unit, function.code
        new = old
        if function.module.path == self.path:
            new = next((two for one, two in _pairs(self.olds, self.news) if one is old), None)
        if new is None:
            return None
        if new is old:
            return old, new, code.body, code.body
        if function.copied or function.bound is not None:
            return None  # there may be other objects of it, with the text that it had
        other = _definition(new)
        if other is None or new.start != old.start or other._replace(at=code.at, body=code.body) != code:
            return None
        if not _is_text_same(old, new, 0, ir.unpack(code.body[0].at)[0] if code.body else len(old.text)):
            return None
        self.gone_through.append(old)
        return old, new, code.body, other.body

    def _was_unread(self, old: Unit, new: Unit) -> bool:
        """Whether a unit was no more than named before the moment, and has the same name and kind still."""
        if (old.kind, old.name, old.is_def) != (new.kind, new.name, new.is_def):
            return False
        if any(old is unit for unit in self.gone_through):
            return True
        if not (old.is_def or old.kind == "class"):
            return False
        if (self.path, old.start) in self.moment.made:
            return old.kind == "class" and self._were_members_unread(old, new)
        return not (old.text.startswith("@") or new.text.startswith("@")) or _is_head_same(old, new)

    def _were_members_unread(self, old: Unit, new: Unit) -> bool:
        """The same of a class that was made: whether but for members that were not, it is what it was."""
        if len(old.children) != len(new.children) or len(old.ir) != 1 or len(new.ir) != 1:
            return False
        one, two = old.ir[0], new.ir[0]
        if type(one) is not ir.Class or type(two) is not ir.Class or len(one.body) != len(two.body):
            return False
        if one._replace(at=0, body=()) != two._replace(at=0, body=()):
            return False
        if any(a != b and not (type(a) is type(b) is ir.Part) for a, b in zip(one.body, two.body, strict=True)):
            return False
        if not _is_text_same(old, new, 0, ir.unpack(one.body[0].at)[0] if one.body else len(old.text)):
            return False
        for mine, other in zip(old.children, new.children, strict=True):
            if mine.text == other.text:
                named = (mine.is_def or mine.kind == "class") and (self.path, mine.start) not in self.moment.made
                if mine.start != other.start and not named:
                    return False
            elif not (mine.is_def and other.is_def and mine.start == other.start and self._was_unread(mine, other)):
                return False
        return True


def _is_begun_alike(old: Unit, new: Unit, before: ir.Body, now: ir.Body, index: int) -> bool:
    """Whether two bodies have the same statements up to one, and the same text from the start of the unit on: instructions
    do not tell `[x]` from `(x,)`."""
    if len(now) < index or before[:index] != now[:index]:
        return False
    if not index:
        return True
    if not _is_text_same(old, new, 0, ir.unpack(before[index - 1].at)[1]):
        return False
    parts = [s.index for s in before[:index] if type(s) is ir.Part]
    return all(old.children[part].text == new.children[part].text for part in parts)


def _is_text_same(old: Unit, new: Unit, start: int, end: int) -> bool:
    return old.text[start:end] == new.text[start:end]


def _is_head_same(old: Unit, new: Unit) -> bool:
    """Whether the decorators are the same."""
    one, two = DEF.search(old.text), DEF.search(new.text)
    return one is not None and two is not None and old.text[: one.start()] == new.text[: two.start()]
