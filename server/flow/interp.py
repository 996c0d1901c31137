"""The abstract interpreter: walks the IR forward with what is known of every value, and records events.

A program is interpreted from an entry point as Python would run it: the module's top level, the functions that it
calls, with their arguments. What is not known is `Unknown`, both ways of an unknown branch are taken and joined
(`State`), a loop's body is passed twice (the second pass is a real second iteration: that is where carried graphs and
missing `zero_grad` show), and every bound is a named constant below.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import ir, torchlib
from ..facts import (
    MAYBE,
    NONE,
    ON,
    UNKNOWN,
    Class,
    Const,
    Context,
    External,
    Frames,
    Function,
    Mapping,
    Method,
    Mode,
    ModuleValue,
    Number,
    Object,
    ParameterOf,
    Scope,
    Sequence,
    Surely,
    Tensor,
    Union,
    Unknown,
    Value,
    element,
)
from ..findings import Place
from ..project import Module, Project
from ..state import Changes, State
from ..units import Units
from . import calls, errors, events, loops, modes, modules, objects, python, replacing, scopes
from .expressions import EXPRESSIONS
from .frames import Args, Frame, Loop
from .scopes import LAZY

# Bounds. Each is generous for hand-written training code; what is passed ends the path without a claim.
STEP_LIMIT = (
    50_000  # statements and calls for one entry point: about a second; of 120 scripts of public packages one has more
)
DEPTH_LIMIT = 24  # calls inside calls; the deepest chain of three large packages is 14
ALONE_STEP_LIMIT = 1_500  # the same for a function that is judged alone: it is one of very many
ALONE_DEPTH_LIMIT = 3  # and the frames above which its calls are not followed: it and what it calls
LOOK_UP = 256  # steps after which it is asked whether somebody waits: some milliseconds


# Called with each expression that was evaluated, each target and each parameter that was bound, and its value
# (the editor, the differential test); the interpreter stands in the frame of the expression.
Watch = Callable[["Interpreter", "ir.Expr | ir.Param", Value], None]


_new_tuple = tuple.__new__  # half of what a named tuple's own constructor costs; hundreds of places are made


class StoppedError(Exception):
    """`Project.cancelled` asked for it: nothing is known of what was being interpreted."""


class OutOfSteps(Exception):
    """The entry point is too large to be judged; what was found until then is kept, absences are not claimed."""


class Interpreter:
    """Interprets one entry point of a project; afterwards `events` tells what happened."""

    # With slots attributes are read faster than out of a dict, and there is little else that a run does more often.
    __slots__ = (
        "_look", "alone", "asking", "assigned", "assigned_e", "at", "borrowed", "compiled", "complete", "condition",
        "counted", "depth_limit", "events", "executed", "frames", "guesses", "handed", "instance", "made", "notes",
        "objects", "opened", "project", "read", "reasons", "rests", "running", "scopes", "sized", "stack", "stars",
        "state", "step_limit", "steps", "unbound", "watch",
    )  # fmt: skip

    def __init__(self, project: Project) -> None:
        self.project = project
        self.state = State()
        self.events: list[events.Event] = []
        self.steps = self._look = 0  # statements and calls so far, and at how many to look whether to go on
        self.sized = 0  # how often it was asked what is in a container, or whether anything is
        self.guesses = 0  # inside so many calls of which it is not known what is called
        self.alone = False  # one function is judged without its callers
        self.step_limit = STEP_LIMIT
        self.depth_limit = DEPTH_LIMIT
        self.at = 0  # span of the call that is being evaluated
        self.complete = True
        self.stack: Frames | None = None
        self.frames: list[Frame] = []
        self.scopes: dict[str, Scope] = {}  # path -> names of a module that was imported
        self.running: set[str] = set()  # paths of modules that were run from top to bottom
        # path -> the units of a module that were run because a name was asked for
        self.opened: dict[str, set[int]] = {}
        self.reasons: dict[tuple[str, str], frozenset[str]] = {}  # module, name -> what was read to make its value
        self.counted: set[tuple[str, str]] = set()  # those whose reasons are in `read` already
        self.borrowed: dict[str, set[str]] = {}  # path -> what was read for the names that it imports from others
        self.stars: dict[str, list[Module | str]] = {}  # path -> what its star imports name
        self.asking: set[tuple[str, str, str]] = set()
        self.unbound: set[tuple[str, str]] = set()  # module, name of a builtin that the module leaves as it is
        self.executed: set[tuple[str, int]] = set()  # (path, offset) of each function that was entered
        self.made: set[tuple[str, int]] = set()  # (path, offset) of each def and class that was read
        self.read: set[str] = set()  # paths whose text the result depends on
        self.objects: list[Object] = []
        self.handed: dict[object, object] = {}  # nodes that went where they can't be followed; kept by `state`
        self.watch: Watch | None = None
        # Of loops inside others, by their body and the calls that led there: what the pass changed after which they ended,
        # and the body itself, so that no other one gets its identity.
        self.rests: dict[tuple[object, ...], tuple[ir.Body, frozenset[tuple[object, ...]]]] = {}
        self.notes: dict[object, object] = {}
        self.compiled: Place | None = None  # what runs now was given to `torch.compile` there
        self.instance: Object | None = None  # a module whose forward, which was put into it, is called next
        self.assigned: Place | None = None  # the right side of the assignment that runs now
        self.assigned_e: ir.Expr | None = None
        self.condition: tuple[ir.Expr, bool] | None = None  # of the innermost `if`, and which way it is

    # ------------------------------------------------------------ places and events

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def place(self, at: int) -> Place:
        frame = self.frames[-1]
        base = frame.base
        return _new_tuple(Place, (frame.module.path, base + (at >> ir.SHIFT), base + (at & ir.END)))

    def place_now(self) -> Place:
        """The expression or statement that is being evaluated, as closely as it is known."""
        frame = self.frames[-1]
        start, end = ir.unpack(self.at)
        return Place(frame.module.path, frame.base + start, frame.base + end)

    def certain_now(self) -> bool:
        """Whether this point is reached on every run: no unknown condition above it, in any running function."""
        return all(frame.branches == 0 for frame in self.frames)

    def straight(self) -> bool:
        """Whether every way through the functions that run comes here: no unknown condition, and none that has left
        a function or a turn of a loop before."""
        return all(
            not frame.branches and not frame.exits and not any(loop.breaks or loop.continues for loop in frame.loops)
            for frame in self.frames
        )

    def certain_in_forward(self) -> bool:
        """Whether the statement is reached in every call of the module's forward that runs now."""
        instance = self.frame.instance
        for frame in reversed(self.frames):
            if frame.instance is not instance:
                break
            if frame.branches:
                return False
        return True

    def record(self, event: events.Event) -> None:
        loops: tuple[Loop, ...] = ()
        branches = 0
        for frame in self.frames:
            if frame.loops:
                loops += tuple(frame.loops)
            branches += frame.branches
        event.loops, event.branches = loops, branches
        self.events.append(event)

    @property
    def guards(self) -> tuple[events.Guard, ...]:
        """The conditions `... % every == ...` that hold here."""
        return tuple(guard for f in self.frames for guard in f.guards)

    def tick(self) -> None:
        self.steps += 1
        if self.steps >= self._look:
            self._look_up()

    def _look_up(self) -> None:
        """Raises OutOfSteps where the bound is passed, StoppedError where somebody has something more urgent."""
        if self.steps > self.step_limit:
            raise OutOfSteps
        cancelled = self.project.cancelled
        if cancelled is not None and cancelled():
            raise StoppedError
        self._look = min(self.steps + LOOK_UP, self.step_limit + 1)

    def look_up_soon(self) -> None:
        self._look = 0

    def defer(self, lazy: scopes.LazyDef) -> scopes.LazyDef:
        """A definition is met whose text is read when it is asked for."""
        return lazy

    def begin(self) -> None:
        """Begin to count steps."""
        self.steps = self._look = 0

    # ------------------------------------------------------------ statements

    def run_units(self, units: Units) -> None:
        """Run a module's top level."""
        for unit in units:
            if scopes.run_unit(self, unit):
                break

    def run_body(self, body: ir.Body) -> bool:
        """Run statements; true if the path ended (return, raise, break, continue)."""
        for statement in body:
            self.tick()
            handler = STATEMENTS.get(type(statement))
            if handler is not None and handler(self, statement):
                return True
        return False

    def do_part(self, s: ir.Part) -> bool:
        frame = self.frame
        assert frame.unit is not None
        return scopes.run_unit(self, frame.unit.children[s.index])

    def do_hole(self, s: ir.Hole) -> bool:
        for word in s.words:
            if word in self.frame.scope.names:
                self.state.set(self.frame.scope.names, word, Unknown(doubt="hole"))
        self.note_hole()
        return False

    def note_hole(self) -> None:
        self.complete = False

    def do_expr(self, s: ir.ExprStmt) -> bool:
        self.statement_value(s, self.eval(s.value))
        return False

    def statement_value(self, s: ir.ExprStmt, value: Value) -> None:
        """A value that is thrown away: some of them tell of a mistake."""
        e = s.value
        if type(e) is ir.Call:
            if isinstance(value, Context) and value.before is None and value.mode is not None:
                self.record(events.BareContext(self.place(e.at), self.stack, value.name, True))
            elif type(e.func) is ir.Attr:
                self.record(events.Discarded(self.place(e.at), self.stack, value, e.func.name))
        elif isinstance(value, External):
            if isinstance(e, (ir.Attr, ir.Name)) and value.name in MODE_NAMES:
                self.record(events.BareContext(self.place(e.at), self.stack, value.name, False))
        elif type(e) is ir.Attr:
            if isinstance(value, Method):
                self.record(events.NotCalled(self.place(e.at), self.stack, value.owner, value.name))
            elif isinstance(value, Function) and value.bound is not None:
                self.record(events.NotCalled(self.place(e.at), self.stack, value.bound, value.name))

    def do_assign(self, s: ir.Assign) -> bool:
        value = self.eval(s.value)
        if isinstance(value, Tensor) and value.live and isinstance(s.value, ir.Bin) and s.value.op == "+":
            self.note_sum(s, value)
        self.assigned, self.assigned_e = self.place(s.value.at), s.value
        for target in s.targets:
            self.assign(target, value)
        self.assigned = self.assigned_e = None
        return False

    def note_sum(self, s: ir.Assign, total: Tensor) -> None:
        """`total = total + term`, which is `total += term` written out, also as `total = 0.9 * total + 0.1 * term`."""
        assert isinstance(s.value, ir.Bin)
        target = s.targets[0]
        for old, term in ((s.value.left, s.value.right), (s.value.right, s.value.left)):
            if isinstance(old, ir.Bin) and old.op == "*":  # a weight that the old total gets
                right = isinstance(old.right, (ir.Name, ir.Attr)) and ir.same_name(old.right, target)
                old, weight = (old.right, old.left) if right else (old.left, old.right)
                if not isinstance(weight, (ir.Const, ir.Name, ir.Attr)):
                    continue
                if not isinstance(self.eval(weight), (Const, Number)):
                    continue
            if ir.same_name(old, target):
                objects.keep(self, self.eval(term), "sum", total, self.place(term.at))
                return

    def do_ann_assign(self, s: ir.AnnAssign) -> bool:
        if s.value is not None:
            value = self.eval(s.value)
            self.assigned, self.assigned_e = self.place(s.value.at), s.value
            self.assign(s.target, value)
            self.assigned = self.assigned_e = None
        elif isinstance(s.target, ir.Name) and self.frame.cls is not None and self.frame.function is None:
            self.state.set(self.frame.scope.names, "?" + s.target.id, NONE)
        if isinstance(s.target, ir.Name) and self.frame.cls is not None and self.frame.function is None:
            default = None if s.value is None else self.frame.scope.names.get(s.target.id)
            field_of = (s.target.id, default if isinstance(default, Value) else None)
            self.frame.cls.fields = (*self.frame.cls.fields, field_of)
        return False

    def do_aug_assign(self, s: ir.AugAssign) -> bool:
        objects.augment(self, s)
        return False

    def do_return(self, s: ir.Return) -> bool:
        value = self.eval(s.value) if s.value is not None else NONE
        self.leave(value)
        return True

    def leave(self, value: Value) -> None:
        """Leave the running function with a value, from wherever it stands."""
        frame = self.frame
        self.run_cleanups(frame, 0)
        frame.exits.append((value, self.state.changes(frame.mark) if frame.forks else None))

    def run_cleanups(self, frame: Frame, down_to: int) -> None:
        """Leave the blocks that are open above `down_to`, innermost first."""
        saved = frame.cleanups
        while len(frame.cleanups) > down_to:
            cleanup = frame.cleanups[-1]
            frame.cleanups = frame.cleanups[:-1]
            cleanup()
        frame.cleanups = saved

    def do_raise(self, s: ir.Raise) -> bool:
        if s.exc is not None:
            self.eval(s.exc)
        return True

    def do_assert(self, s: ir.Assert) -> bool:
        self.eval(s.test)
        return isinstance(s.test, ir.Const) and not s.test.value

    def do_delete(self, s: ir.Delete) -> bool:
        for target in s.targets:
            if isinstance(target, ir.Name):
                self.state.delete(self.frame.scope.names, target.id)
            elif isinstance(target, ir.Attr):
                owner = self.eval(target.value)
                if target.name == "grad" and isinstance(owner, (Tensor, ParameterOf)):
                    objects.set_attribute(self, owner, "grad", NONE, target)  # reads as None from then on
                if isinstance(owner, Object):
                    self.state.delete(owner.attrs, target.name)
                    modules.take_apart(self, owner)
                    modules.drop_named_member(self, owner, target.name)
            elif isinstance(target, ir.Sub):
                owner = self.eval(target.value)  # `del module._parameters[name]`
                whole = isinstance(target.index, ir.Slice) and target.index[1:] == (None, None, None)
                replacing.delete(self, owner)
                if isinstance(owner, Mapping):
                    self.state.set(owner.cells, "covers", None)
                    if isinstance(index := self.eval(target.index), Const):
                        self.state.delete(owner.cells, ("key", index.value))
                if isinstance(owner, Sequence):
                    self.state.put(owner.cells, "emptied", True)
                    if whole:  # `del losses[:]`
                        self.state.set(owner.cells, "items", ())
                    else:
                        self.state.set(owner.cells, "surely", Surely())
        return False

    def do_break(self, s: ir.Break) -> bool:
        return self.leave_loop(True)

    def do_continue(self, s: ir.Continue) -> bool:
        return self.leave_loop(False)

    def leave_loop(self, is_break: bool) -> bool:
        frame = self.frame
        if frame.loops:
            loop = frame.loops[-1]
            self.run_cleanups(frame, loop.cleanups)
            (loop.breaks if is_break else loop.continues).append(self.state.changes(loop.mark))
        return True

    def do_global(self, s: ir.Global) -> bool:
        self.frame.scope.globals += s.names
        return False

    def do_nonlocal(self, s: ir.Nonlocal) -> bool:
        self.frame.scope.nonlocals += s.names
        return False

    # ------------------------------------------------------------ branches

    def do_if(self, s: ir.If) -> bool:
        truth = self.truth(self.eval(s.test))
        outer = self.condition
        try:
            if truth is None:
                return self.either(s)
            self.condition = s.test, truth
            taken, left = (s.body, s.orelse) if truth else (s.orelse, s.body)
            if left:
                self.notes.setdefault("left", {})[id(s)] = s, left  # type: ignore[index]
            return self.run_body(taken)
        finally:
            self.condition = outer

    def under(self, test: ir.Expr, outcome: bool) -> None:
        self.condition = test, outcome

    def either(self, s: ir.If) -> bool:
        """Both ways of an `if` whose condition is not known."""
        guard = self.guard(s.test)
        left = []
        ended = self.branch(
            lambda: (
                self.under(s.test, True)
                or left.append(self.assume(s.test, True) or self.guarded(s.body, guard))
                or left[0]
            ),
            lambda: self.under(s.test, False) or self.assume(s.test, False) or self.run_body(s.orelse),
        )
        if left[0] and not ended and guard is None:
            # `if i % every != 0: continue`: the rest of this turn is what the condition guards.
            rest = self.guard(s.test, "!=")
            if rest is not None:
                self.frame.guards.append(rest)
        return ended

    def guard(self, test: ir.Expr, op: str = "==") -> events.Guard | None:
        """What a condition says if it holds once in so many iterations (`i % every == 0`, also as part of an `or`)."""
        if op == "!=" and isinstance(test, ir.Bin) and test.op == "%":
            test = ir.Compare(test.at, test, ("!=",), (ir.Const(test.at, 0),))
        if isinstance(test, ir.Bool) and test.op == "or":
            return next((g for g in map(self.guard, test.values) if g is not None), None)
        if isinstance(test, ir.Unary) and test.op == "not":
            test = ir.Compare(test.at, test.value, ("==",), (ir.Const(test.at, 0),))
        if not isinstance(test, ir.Compare) or test.ops != (op,):
            return None
        for side in (test.left, test.rights[0]):
            if isinstance(side, ir.Bin) and side.op == "%":
                return events.Guard(self.place(side.at), self.eval(side.right), len(self.frame.loops))
        return None

    def guarded(self, body: ir.Body, guard: events.Guard | None) -> bool:
        if guard is None:
            return self.run_body(body)
        self.frame.guards.append(guard)
        try:
            return self.run_body(body)
        finally:
            self.frame.guards.pop()

    def branch(self, *ways: Callable[[], bool]) -> bool:
        """Take each way from the present state and join those that come out at the end."""
        state, frame = self.state, self.frame
        out: list[Changes] = []
        frame.branches += 1
        frame.forks += 1
        try:
            for way in ways:
                mark = state.mark()
                try:
                    ended = way()
                finally:
                    changes = state.take(mark)
                if not ended:
                    out.append(changes)
        finally:
            frame.branches -= 1
            frame.forks -= 1
        if not out:
            return True
        state.merge(out)
        return False

    def assume(self, test: ir.Expr, outcome: bool) -> bool:
        """Narrow names by the condition that was taken; always false (for `or` chains)."""
        if isinstance(test, ir.Unary) and test.op == "not":
            return self.assume(test.value, not outcome)
        if isinstance(test, ir.Bool) and (test.op == "and") == outcome:
            for part in test.values:
                self.assume(part, outcome)
            return False
        name = value = None
        if isinstance(test, ir.Compare) and len(test.ops) == 1:
            right = test.rights[0]
            if isinstance(right, ir.Const) and isinstance(test.left, (ir.Name, ir.Attr)):
                equal = test.ops[0] in ("is", "==")
                if isinstance(test.left, ir.Attr) and test.left.name == "grad" and right.value is None:
                    self.frame.looked.append(test.left.value)
                if equal or test.ops[0] in ("is not", "!="):
                    name, value = test.left, right.value
                    outcome = outcome if equal else not outcome
        elif isinstance(test, (ir.Name, ir.Attr)):
            self.narrow(test, lambda v: self.truth(v) is not (not outcome))
            if not outcome:
                return False
            return False
        if name is not None:
            wanted = value

            def fits(v: Value) -> bool:
                if isinstance(v, Const):
                    return (v.value == wanted and type(v.value) is type(wanted)) is outcome
                return not (outcome and wanted is None and not isinstance(v, Unknown))

            self.narrow(name, fits)
            if outcome and isinstance(name, ir.Name) and isinstance(self.lookup(name.id), Unknown):
                self.bind(name.id, Const(wanted))
        return False

    def narrow(self, target: ir.Expr, fits: Callable[[Value], bool]) -> None:
        if isinstance(target, ir.Name):
            value = self.lookup(target.id)
            if isinstance(value, Union):
                options = tuple(o for o in value.options if fits(o))
                if options and len(options) < len(value.options):
                    self.bind(target.id, options[0] if len(options) == 1 else Union(options))
        elif isinstance(target, ir.Attr):
            owner = self.eval(target.value)
            if isinstance(owner, Object):
                value = owner.attrs.get(target.name)
                if isinstance(value, Union):
                    options = tuple(o for o in value.options if fits(o))
                    if options and len(options) < len(value.options):
                        self.state.set(owner.attrs, target.name, options[0] if len(options) == 1 else Union(options))

    def truth(self, value: Value) -> bool | None:
        """Whether a value is true; None if that is not known."""
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Sequence):
            items = value.cells.get("items")
            self.sized += 1
            return bool(items) if isinstance(items, tuple) else None
        if isinstance(value, (Function, Class, ModuleValue, External, Context, Method)):
            return None if isinstance(value, External) else True
        if isinstance(value, Object):
            kind = value.kind
            return True if kind.startswith("torch.") and "List" not in kind and "Dict" not in kind else None
        if isinstance(value, Union):
            truths = {self.truth(o) for o in value.options}
            return truths.pop() if len(truths) == 1 else None
        return None

    def do_match(self, s: ir.Match) -> bool:
        self.eval(s.subject)

        def way(case: ir.Case) -> Callable[[], bool]:
            def run() -> bool:
                for name in case.binds:
                    self.bind(name, UNKNOWN)
                if case.guard is not None:
                    self.eval(case.guard)
                return self.run_body(case.body)

            return run

        ways = [way(case) for case in s.cases]
        if not any(case.irrefutable and case.guard is None for case in s.cases):
            ways.append(lambda: False)
        return self.branch(*ways)

    # ------------------------------------------------------------ with, try

    def do_with(self, s: ir.With) -> bool:
        frame = self.frame
        depth = len(frame.cleanups)
        for expression, target in s.items:
            value = self.eval(expression)
            entered, leave = modes.enter(self, value, expression)
            frame.cleanups = [*frame.cleanups, leave]
            if target is not None:
                self.assign(target, entered)
        caught = any(errors.swallows(expression) for expression, _ in s.items)
        frame.caught += caught
        ended = self.run_body(s.body)
        frame.caught -= caught
        if not ended:
            self.run_cleanups(frame, depth)
        frame.cleanups = frame.cleanups[:depth]
        return ended

    def imports_succeed(self, body: ir.Body) -> bool:
        """Whether a `try` body begins with imports that are surely there, and does nothing else but assign constants."""
        known = False
        for s in body:
            if isinstance(s, ir.Assign) and isinstance(s.value, ir.Const):
                continue
            if isinstance(s, ir.Import):
                targets = [(0, alias.name) for alias in s.names]
            elif isinstance(s, ir.ImportFrom):
                targets = [(s.level, s.module)]
            else:
                return False
            for level, name in targets:
                if name.partition(".")[0] in ("torch", "numpy") and not level:
                    known = True
                    continue
                module = self.project.resolve(self.frame.module, level, name)
                if module is None or not module.in_project:
                    return False
                known = True
        return known

    def do_try(self, s: ir.Try) -> bool:
        if s.handlers and not s.final and self.imports_succeed(s.body):
            return self.run_body(s.body) or self.run_body(s.orelse)
        frame, state = self.frame, self.state
        depth = len(frame.cleanups)
        if s.final:
            frame.cleanups = [*frame.cleanups, lambda: self.run_body(s.final)]
        mark = state.mark()
        mode_before = state.mode
        modes: list[Mode] = []
        outer, self.notes["modes"] = self.notes.get("modes"), modes
        caught = any(map(errors.goes_on, s.handlers))
        frame.forks += bool(s.handlers)
        frame.caught += caught
        try:
            ended = self.run_body(s.body)
            if not ended and s.orelse:
                ended = self.run_body(s.orelse)
        finally:
            frame.forks -= bool(s.handlers)
            frame.caught -= caught
            self.notes["modes"] = outer
        if s.handlers:
            normal = state.take(mark)
            out = [] if ended else [normal]
            for handler in s.handlers:
                start = state.mark()
                # The exception may have come before or after anything in the body was done.
                state.merge([{}, normal])
                state.mode = mode_before
                stuck = next((m for m in modes if m.persistent and m.kind != mode_before.kind), None)
                if stuck is not None:
                    off = None if stuck.kind in (ON, MAYBE) else stuck
                    state.mode = Mode(MAYBE, stuck.place, stuck.how, True, stuck.stack, off)
                if handler.name:
                    self.bind(handler.name, UNKNOWN)
                frame.branches += 1
                frame.forks += 1
                handler_ended = self.run_body(handler.body)
                frame.branches -= 1
                frame.forks -= 1
                changes = state.take(start)
                if not handler_ended:
                    out.append(changes)
            ended = not out
            if out:
                state.merge(out)
        if s.final:
            frame.cleanups = frame.cleanups[:depth]
            if not ended:
                switched = len(modes)
                if outer is not None:
                    self.notes["modes"] = modes
                ended = self.run_body(s.final)
                self.notes["modes"] = outer
                if len(modes) > switched:
                    modes.clear()  # what the body switched is put right, whatever happens
        if isinstance(outer, list):
            outer.extend(modes)
        return ended

    # ------------------------------------------------------------ definitions and imports

    def do_def(self, s: ir.Def) -> bool:
        self.bind(s.name, self.make_function(s))
        return False

    def make_function(self, s: ir.Def | ir.Lambda) -> Value:
        frame = self.frame
        assert frame.unit is not None
        in_class = frame.cls is not None and frame.function is None
        closure = frame.scope
        if in_class:
            closure = frame.scope.up or frame.scope
        closure.capture()
        defaults = tuple((p.name, self.eval(p.default)) for p in s.params if p.default is not None)
        function = Function(
            s, frame.unit, frame.base, frame.module, closure, frame.cls if in_class else None, None, (), defaults
        )
        if isinstance(s, ir.Lambda) or not s.decorators:
            return function
        return calls.decorate(self, function, s)

    def do_class(self, s: ir.Class) -> bool:
        self.bind(s.name, objects.make_class(self, s))
        return False

    def do_import(self, s: ir.Import) -> bool:
        for alias in s.names:
            module = self.project.resolve(self.frame.module, 0, alias.name)
            value: Value = External(alias.name)
            if module is not None and not self.skipped(module):
                top = alias.name.partition(".")[0]
                if top != alias.name:
                    package = self.project.resolve(self.frame.module, 0, top)
                    if package is not None:
                        scopes.import_module(self, package, alias.at)
                value = scopes.import_module(self, module, alias.at)
            if alias.asname is not None:
                self.bind(alias.asname, value)
                continue
            top = alias.name.partition(".")[0]
            if top != alias.name:
                package = self.project.resolve(self.frame.module, 0, top) if module is not None else None
                value = ModuleValue(package) if package is not None and not self.skipped(package) else External(top)
            self.bind(top, value)
        return False

    def skipped(self, module: Module) -> bool:
        """A module of the environment is run only for its effect on grad mode; its values are not followed."""
        if module.in_project:
            return False
        if module.path not in self.running and self.project.may_switch(module):
            return False
        return module.path not in self.running

    def do_import_from(self, s: ir.ImportFrom) -> bool:
        module = self.project.resolve(self.frame.module, s.level, s.module)
        if module is not None and self.skipped(module):
            module = None
        if module is not None:
            scopes.import_module(self, module, s.at)
        for alias in s.names:
            if alias.name == "*":
                stars = self.stars.setdefault(self.frame.module.path, [])
                stars.append(module if module is not None else s.module)
                continue
            bound: object
            if module is None:
                bound = External(torchlib.canonical(f"{s.module}.{alias.name}")) if not s.level else UNKNOWN
            else:
                submodule = self.project.submodule(module, alias.name)
                if submodule is not None and self.project.may_switch(submodule):
                    bound = scopes.import_module(self, submodule, alias.at)
                else:
                    bound = scopes.LazyName(module, alias.name, self.frame.module, alias.at)
            self.bind(alias.asname or alias.name, bound)  # type: ignore[arg-type]
        return False

    # ------------------------------------------------------------ names

    def force(self, names: dict[str, object], name: str) -> Value | None:
        """The value of a name, a lazily read definition made real; None if it is not bound."""
        value = names.get(name)
        if value is None:
            return None
        if type(value) in LAZY:
            # Not journaled: the definition is the same on every path. A decorator may name what was bound before
            # (`@x.setter`), so that stands there while the definition is made.
            lazy: scopes.Lazy = value  # type: ignore[assignment]
            self.state.note(names, name)
            if lazy.previous is None:
                names.pop(name)
            else:
                names[name] = lazy.previous
            made = lazy.make(self)
            names[name] = made
            return made
        return value if isinstance(value, Value) else None

    def lookup(self, name: str) -> Value:
        frame = self.frames[-1]
        scope: Scope | None = frame.scope
        if scope.globals and name in scope.globals:
            scope = None
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                value = self.force(scope.names, name) if type(found) in LAZY else found
                if isinstance(value, Value):
                    return value
            scope = scope.up
        builtin = python.BUILTINS.get(name)
        key = (frame.module.path, name)
        if builtin is not None and key in self.unbound:
            return builtin
        value = scopes.name_in(self, frame.module, name)
        if value is not None:
            return value
        if builtin is None:
            return UNKNOWN
        if "*" not in scopes.bindings(frame.module):
            self.unbound.add(key)
        return builtin

    def bind(self, name: str, value: Value) -> None:
        frame = self.frame
        scope = frame.scope
        if name in scope.globals:
            scope = scopes.open_module(self, frame.module)
        elif name in scope.nonlocals:
            up = scope.up
            while up is not None and name not in up.names:
                up = up.up
            scope = up or scope
        self.state.set(scope.names, name, value)

    def assign(self, target: ir.Expr, value: Value) -> None:
        kind = type(target)
        if kind is ir.Name:
            self.bind(target.id, value)  # type: ignore[union-attr]
            if self.watch is not None:
                self.observe(target, value)
        elif kind is ir.Attr:
            owner = self.eval(target.value)  # type: ignore[union-attr]
            objects.set_attribute(self, owner, target.name, value, target)  # type: ignore[union-attr]
            if self.watch is not None:
                self.observe(target, value)
        elif kind is ir.Sub:
            owner = self.eval(target.value)  # type: ignore[union-attr]
            objects.set_item(self, owner, self.eval(target.index), value, target)  # type: ignore[union-attr]
        elif kind in (ir.Tuple, ir.List):
            self.unpack(target.items, value)  # type: ignore[union-attr]
        elif kind is ir.Star:
            self.assign(target.value, value)  # type: ignore[union-attr]

    def unpack(self, targets: tuple[ir.Expr, ...], value: Value) -> None:
        star = next((i for i, t in enumerate(targets) if isinstance(t, ir.Star)), None)
        values = python.unpacked(self, value, len(targets), star)
        for target, item in zip(targets, values, strict=True):
            self.assign(target, item)

    # ------------------------------------------------------------ expressions

    def eval(self, e: ir.Expr) -> Value:
        handler = EXPRESSIONS.get(type(e))
        if handler is None:
            return UNKNOWN
        value = handler(self, e)
        if self.watch is not None:
            self.observe(e, value)
        return value

    def observe(self, e: ir.Expr | ir.Param, value: Value) -> None:
        if self.watch is not None:
            self.watch(self, e, value)

    def arguments(self, e: ir.Call) -> Args:
        args = Args([], {})
        positional, ats = args.positional, []
        for a in e.args:
            if type(a) is ir.Star:
                value = self.eval(a.value)
                items = value.cells.get("items") if isinstance(value, Sequence) else None
                if isinstance(items, tuple) and not args.spread:
                    positional.extend(items)
                    ats.extend(a.at for _ in items)
                    continue
                args.spread = True
                members = value.cells.get("members") if isinstance(value, Sequence) else None
                if isinstance(members, tuple) and len(e.args) == 1:
                    args.members = members
                positional.append(element(value) if isinstance(value, Sequence) else value)  # type: ignore[arg-type]
            else:
                positional.append(self.eval(a))
            ats.append(a.at)
        keyword_ats: dict[str, int] = {}
        for name, a in e.keywords:
            value = self.eval(a)
            if name is not None:
                args.keywords[name] = value
                keyword_ats[name] = a.at
            elif isinstance(value, Mapping) and value.complete and "rest" not in value.cells:
                for key, item in value.cells.items():
                    if isinstance(key, tuple) and isinstance(key[1], str):
                        args.keywords.setdefault(key[1], item)  # type: ignore[arg-type]
            else:
                args.spread = True
        frame = self.frames[-1]
        args.written(frame.module.path, frame.base, ats, keyword_ats)
        return args

    def each(self, value: Value) -> Value:
        return python.iterate(self, value, None).each


MODE_NAMES = frozenset({"torch.no_grad", "torch.enable_grad", "torch.inference_mode"})


STATEMENTS: dict[type, Callable[[Interpreter, object], bool]] = {
    ir.Part: Interpreter.do_part,
    ir.Hole: Interpreter.do_hole,
    ir.ExprStmt: Interpreter.do_expr,
    ir.Assign: Interpreter.do_assign,
    ir.AnnAssign: Interpreter.do_ann_assign,
    ir.AugAssign: Interpreter.do_aug_assign,
    ir.Return: Interpreter.do_return,
    ir.Raise: Interpreter.do_raise,
    ir.Assert: Interpreter.do_assert,
    ir.Delete: Interpreter.do_delete,
    ir.Break: Interpreter.do_break,
    ir.Continue: Interpreter.do_continue,
    ir.Global: Interpreter.do_global,
    ir.Nonlocal: Interpreter.do_nonlocal,
    ir.If: Interpreter.do_if,
    ir.Match: Interpreter.do_match,
    ir.For: loops.run_for,
    ir.While: loops.run_while,
    ir.With: Interpreter.do_with,
    ir.Try: Interpreter.do_try,
    ir.Def: Interpreter.do_def,
    ir.Class: Interpreter.do_class,
    ir.Import: Interpreter.do_import,
    ir.ImportFrom: Interpreter.do_import_from,
}  # type: ignore[assignment]
