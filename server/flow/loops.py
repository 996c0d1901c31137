"""Loops: how often a body is passed, and when another pass would show nothing new.

A body is passed twice: the second pass is a second iteration, with what the first left behind. While tensors still gain
or lose a graph from one pass to the next, there are more. A loop inside another is passed again in each pass of the
outer one, so of those one pass is enough where it can only do once more what was seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from .. import ir
from ..facts import (
    NONE,
    Class,
    Const,
    Function,
    Mapping,
    Mode,
    Number,
    Object,
    Range,
    Sequence,
    Tensor,
    Value,
    call_places,
    replace,
)
from ..state import Changes
from . import events
from .frames import UNROLL_LIMIT, Loop
from .objects import draw
from .python import Items, covered_by, first_name, iterate, one_by_one
from .training import Grad

if TYPE_CHECKING:
    from .interp import Interpreter

NESTED_LOOP_LIMIT = 3  # inside so many loops the body is passed once: 2 ** depth passes otherwise
PASS_LIMIT = 4  # passes of a loop in which graphs still come and go (the third is rare: 1 in 2,000 random programs)

# What a further iteration of a loop may do otherwise than the first did.
TRAINING = frozenset(
    {
        events.Backward,
        events.Step,
        events.Zero,
        events.Switch,
        events.GradFlag,
        events.OptimizerMade,
        events.Scaling,
        events.InPlace,
    }
)

Moves: TypeAlias = Iterable[tuple[object, object, object]]  # of a cell: its key, what was in it, what is in it now


def run_for(run: Interpreter, s: ir.For) -> bool:
    iterable = run.eval(s.iter)
    run.at = s.iter.at
    found = iterate(run, iterable, s.iter)
    target = s.target
    place = run.place(s.iter.at)
    named = one_by_one(run, iterable) if any(map(_decides, s.body)) else None
    if named is not None:
        found = Items(found.each, named)
    if found.items is not None and (named is not None or len(found.items) <= UNROLL_LIMIT):
        for index, item in enumerate(found.items):
            loop = Loop(0, 0, True, place, iterable, False, len(found.items), index)
            if _pass_one(run, s.body, lambda item=item: run.assign(target, item), loop):
                return True
        return run.run_body(s.orelse) if s.orelse else False
    before = run.state.mode
    if found.mode is not None:
        run.state.mode = found.mode
    each = found.each
    _widen(run, s.body)
    counted = isinstance(iterable, Range) and iterable.counted
    length = iterable.length if isinstance(iterable, Range) else None
    if length is None and found.items is not None:
        length = len(found.items)
    kind = Loop(0, 0, False, place, iterable, counted, length)
    made = isinstance(iterable, Sequence) and iterable.kind != "generator"
    many = draw(run, each, made)
    ended = _repeat(run, s.body, lambda: run.assign(target, each), kind)
    for one in many:
        run.notes["drawn"].pop(one, None)  # type: ignore[attr-defined]
    if found.mode is not None and not ended and run.state.mode is found.mode:
        run.state.mode = before
    if ended:
        return True
    _cover(run, s, iterable)
    return run.run_body(s.orelse) if s.orelse else False


def _cover(run: Interpreter, s: ir.For, iterable: Value) -> None:
    """After `for name, p in module.named_parameters(): copies[name] = ...`, the dict has an entry for each parameter."""
    covered = covered_by(iterable)
    if covered is None or any(isinstance(node, (ir.Break, ir.Continue, ir.Delete)) for node in ir.nodes(s.body)):
        return
    name, stored = first_name(s.target), set[str]()
    _stored(s.body, stored)
    if name in stored:
        return
    for one in s.body:
        target = one.targets[0] if isinstance(one, ir.Assign) else None
        if isinstance(target, ir.Sub) and isinstance(target.index, ir.Name) and target.index.id == name:
            owner = run.eval(target.value) if isinstance(target.value, ir.Name) else None
            if isinstance(owner, Mapping):
                run.state.set(owner.cells, "covers", covered)


def _decides(s: ir.Stmt) -> bool:
    """Whether a statement does something with some parameters, and with others not: `p.requires_grad = "head" in name`."""
    if isinstance(s, ir.Assign):
        return (
            any(isinstance(t, ir.Attr) and t.name == "requires_grad" for t in s.targets)
            and type(s.value) is not ir.Const
        )
    if isinstance(s, ir.ExprStmt) and isinstance(call := s.value, ir.Call):
        flag = isinstance(call.func, ir.Attr) and call.func.name == "requires_grad_"
        return flag and any(type(arg) is not ir.Const for arg in call.args)
    return type(s) is ir.If


def run_while(run: Interpreter, s: ir.While) -> bool:
    truth = run.truth(run.eval(s.test))
    if truth is False:
        return run.run_body(s.orelse)
    _widen(run, s.body)
    forever = isinstance(s.test, ir.Const) and bool(s.test.value)
    kind = Loop(0, 0, place=run.place(s.test.at), over=NONE)
    return _repeat(run, s.body, lambda: None if forever else run.eval(s.test), kind, forever)


# ---------------------------------------------------------------- passes


def _repeat(run: Interpreter, body: ir.Body, begin: Callable[[], object], kind: Loop, forever: bool = False) -> bool:
    """Pass a body until another pass would show nothing new; true if no way comes to the end of the loop."""
    frame, state = run.frame, run.state
    ends: list[Changes] = []  # where it may stop: after any pass from the second on
    after: list[Changes] = []
    start = state.mark()
    passes = _Passes(run, body, kind.length)
    index = -1
    while (index := index + 1) < passes.most:
        loop = replace(kind, mark=state.mark(), cleanups=len(frame.cleanups), breaks=[], continues=[], index=index)
        ended = _turn(run, body, begin, loop)
        if index == 0:
            passes.look()
        if not (ended or loop.continues or loop.breaks):  # one way, and it has come to the next turn
            if passes.settled(index, lambda mark=loop.mark: state.moved(mark)):
                break
        else:
            changes = state.take(loop.mark)
            ways = [*loop.continues] if ended else [changes, *loop.continues]
            for broken in loop.breaks:
                state.apply(broken)
                after.append(state.changes(start))
                state.undo(loop.mark)
            if not ways:
                # No way leads to the next iteration: only the breaks come out.
                state.undo(start)
                if not after:
                    return True
                state.merge(after)
                return False
            moves = [
                (key, cells.get(key), value)
                for way in ways
                for cells, key, value in way.values()
                if key in cells or type(key) is tuple
            ]
            state.merge(ways)
            if passes.settled(index, lambda moves=moves: moves):
                break
        if index + 1 >= passes.least:
            ends.append(state.changes(start))
    if len(ends) > 1:
        ends.append(state.changes(start))
        state.undo(start)
        state.merge(ends)
    if forever and not after:
        return False  # the loop is left by an exception or not at all: what follows is taken to be reached
    if after:
        if not forever:
            after.append(state.changes(start))
        state.undo(start)
        state.merge(after)
    return False


class _Passes:
    """How often the body of a loop is passed: at least, at most, and whether that was enough."""

    def __init__(self, run: Interpreter, body: ir.Body, length: int | None) -> None:
        self.run = run
        around = [loop for frame in run.frames for loop in frame.loops if not loop.unrolled]
        shallow = len(run.frame.loops) < NESTED_LOOP_LIMIT
        self.least, self.most = (2, PASS_LIMIT) if shallow else (1, 2)
        if length is not None:
            self.most = min(self.most, max(length, self.least))
        self._inside = shallow and bool(around)
        self._happened, self._sized = len(run.events), run.sized
        self._body = body
        self._here = (id(body), *call_places(run.stack)) if around else None
        again = shallow and any(loop.index for loop in around)
        rest = run.rests.get(self._here) if again and self._here is not None else None
        self._earlier = rest[1] if rest is not None else None

    def look(self) -> None:
        """After the first pass: inside another loop one is enough where nothing was trained or written."""
        happened = self.run.events[self._happened :]
        if self._inside and not any(type(event) in TRAINING for event in happened):
            self.least, self.most = 1, 2

    def settled(self, index: int, moves: Callable[[], Moves]) -> bool:
        """Whether after this pass a further one would show nothing new; `moves` gives what the pass has changed."""
        if index + 1 < self.least and self._earlier is None:
            return False
        moved = list(moves())
        if self._earlier is not None and self._earlier.issuperset(self._turns(moved)):
            return True
        kind_of = graph_kind if self.least > 1 else self._kind_of()
        if index + 1 < self.least or any(kind_of(old) != kind_of(new) for _, old, new in moved):
            return False
        if self._here is not None:
            self.run.rests[self._here] = self._body, self._turns(moved)
        return True

    def _turns(self, moves: Moves) -> frozenset[tuple[object, ...]]:
        """What an iteration has changed, as far as that may send a later one another way.

        Of objects, which may be made anew in each iteration, it says no more than of what kind they are.
        """
        kind_of = self._kind_of()

        def sort(value: object) -> object:
            return value.kind if isinstance(value, Object) else kind_of(value)

        return frozenset([(key, sort(old), sort(new)) for key, old, new in moves if kind_of(old) != kind_of(new)])

    def _kind_of(self) -> Callable[[object], object]:
        return way_kind if self.run.sized == self._sized else turn_kind


def graph_kind(value: object) -> object:
    """What a later pass of a loop may find changed: whether a tensor surely has a graph, surely has none, or neither."""
    if isinstance(value, Tensor):
        return value.certain, value.node is None
    return None


def way_kind(value: object) -> object:
    """What decides which way an iteration goes: a flag, which object it is, whether it is None."""
    if isinstance(value, Const):
        return value.value.__class__, value.value
    if isinstance(value, (bool, frozenset)):
        return value  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mode):
        return value.kind, value.place
    if isinstance(value, Grad):
        return value.all
    return id(value) if isinstance(value, (Object, Function, Class)) else graph_kind(value)


def turn_kind(value: object) -> object:
    """The same, where it was asked what is in a container."""
    if isinstance(value, tuple):
        return tuple, len(value)  # pyright: ignore[reportUnknownArgumentType]
    return value is None, way_kind(value)


def _pass_one(run: Interpreter, body: ir.Body, begin: Callable[[], object], loop: Loop) -> bool:
    """One iteration of an unrolled loop; a `break` in it is joined with going on."""
    state = run.state
    loop.mark, loop.cleanups = state.mark(), len(run.frame.cleanups)
    ended = _turn(run, body, begin, loop)
    if not (ended or loop.continues or loop.breaks):
        return False
    changes = state.take(loop.mark)
    ways = ([] if ended else [changes]) + loop.continues + loop.breaks
    if not ways:
        return True
    state.merge(ways)
    return False


def _turn(run: Interpreter, body: ir.Body, begin: Callable[[], object], loop: Loop) -> bool:
    """Pass the body of a loop; true if no way comes to its end."""
    frame = run.frame
    frame.loops.append(loop)
    frame.forks += 1
    guards = len(frame.guards)
    try:
        begin()
        return run.run_body(body)
    finally:
        frame.loops.pop()
        frame.forks -= 1
        del frame.guards[guards:]


# ---------------------------------------------------------------- names that a body binds


def _widen(run: Interpreter, body: ir.Body) -> None:
    """Numbers that the loop changes are not known inside it, from the first pass on."""
    names = run.frame.scope.names
    own: set[str] | None = None
    for name in _stored_names(run, body):
        value = names.get(name)
        if not isinstance(value, Const) or not isinstance(value.value, (int, float)) or isinstance(value.value, bool):
            continue
        if own is None:
            own = set()
            _stored(body, own)
        if name in own:
            run.state.set(names, name, Number())


def _stored_names(run: Interpreter, body: ir.Body) -> set[str]:
    """Names that statements assign, without looking into nested functions; memoised by the body's identity."""
    memo: dict[int, tuple[ir.Body, set[str]]] = run.notes.setdefault("stored", {})  # type: ignore[assignment]
    known = memo.get(id(body))
    if known is not None:
        return known[1]
    names: set[str] = set()
    _stored(body, names)
    if any(type(s) is ir.Part for s in body):
        unit = run.frame.unit
        if unit is not None:
            for child in unit.children:
                _stored(child.ir, names)
    memo[id(body)] = (body, names)
    return names


def _stored(body: ir.Body, names: set[str]) -> None:
    for s in body:
        kind = type(s)
        if kind is ir.Assign:
            for target in s.targets:  # type: ignore[union-attr]
                ir.target_names(target, names)
        elif kind is ir.AugAssign or kind is ir.AnnAssign:
            ir.target_names(s.target, names)  # type: ignore[union-attr]
        elif kind is ir.If or kind is ir.While:
            _stored(s.body, names)  # type: ignore[union-attr]
            _stored(s.orelse, names)  # type: ignore[union-attr]
        elif kind is ir.For:
            ir.target_names(s.target, names)  # type: ignore[union-attr]
            _stored(s.body, names)  # type: ignore[union-attr]
        elif kind is ir.With:
            _stored(s.body, names)  # type: ignore[union-attr]
        elif kind is ir.Try:
            _stored(s.body, names)  # type: ignore[union-attr]
            for handler in s.handlers:  # type: ignore[union-attr]
                _stored(handler.body, names)
