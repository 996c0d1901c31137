"""What was seen at each place while programs ran through it: the interpretation of the findings, watched.

A place is passed many times: in loops, in every call of a function, from every program that reaches it. Passes that
look alike (`Seen`) are counted once; what is to be said of a place is what all of them have in common.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .. import ir
from ..check import CancelledError
from ..facts import (
    ANY_RANK,
    ON,
    Const,
    Leaf,
    Mapping,
    Mode,
    Number,
    Object,
    Sequence,
    Tensor,
    Value,
)
from ..flow import Flow, events, interpret, is_script
from ..flow.interp import Interpreter
from ..flow.modules import leaves_of
from ..flow.naming import paths
from ..flow.objects import is_module
from ..flow.training import is_optimizer, optimizer_leaves
from ..project import Module, Project

# A file is looked at through itself and the programs nearest to it that run through it. More of them would tell
# little more, and each costs as much as a check.
ENTRIES_LIMIT = 4
# Passes over one place that look different; of one passed in more ways than these nothing is said.
LOOKS_LIMIT = 12
# Values kept of passes that look alike.
ALIKE_LIMIT = 3
# Expressions between two questions whether to stop: a fraction of a millisecond.
PATIENCE = 256

# Of code that runs when a module is imported, and was run here only when a name in it was asked for, the grad mode is
# not known.
_ANY_MODE = Mode(ON)

_BOTH_ENDS = (1 << 32) + 1  # what moving a packed span by one adds to it

ATTACHED, LEAF, CUT, PLAIN, FROZEN, UNKNOWN = "attached", "leaf", "cut", "plain", "frozen", "unknown"
LIVE, DEAD = frozenset({ATTACHED, LEAF}), frozenset({CUT, PLAIN, FROZEN})


def state_of(tensor: Tensor) -> str:
    """What is known of a tensor's graph now."""
    if tensor.leaf is not None and tensor.certain:
        flag = tensor.leaf.cells.get("requires_grad")
        return LEAF if flag is True else FROZEN if flag is False else UNKNOWN
    if tensor.live:
        return ATTACHED
    if tensor.dead:
        return CUT if tensor.cuts else PLAIN
    return UNKNOWN


@dataclass(frozen=True)
class Members:
    """The parameters that a module has or an optimizer holds at some moment, and whether each asks for gradients."""

    leaves: tuple[tuple[Leaf, object], ...]
    exact: bool
    training: object = None


@dataclass(eq=False)
class Seen:
    """Passes over one place that look alike: `state` and `rank` of a tensor, the grad mode behind the expression.

    `alone`: a function was run without its callers, so grad mode and arguments are those of nobody in particular.
    """

    mode: Mode
    alone: bool
    state: str = ""
    rank: str = ANY_RANK
    values: list[Value] = field(default_factory=list)
    more: bool = False  # there were other values than these
    members: Members | None = None


Looks = dict[object, Seen]


@dataclass(eq=False)
class Observed:
    """What one file's entry points have passed, of whatever file: `looks` by path and span (packed)."""

    entry: str
    flows: list[Flow] = field(default_factory=list)
    looks: dict[str, dict[int, Looks]] = field(default_factory=dict)
    names: dict[object, str] = field(default_factory=dict)  # modules, optimizers and leaves: as the user calls them

    @property
    def read(self) -> frozenset[str]:
        return frozenset({self.entry}.union(*(flow.read for flow in self.flows)))


def observe(project: Project, entry: Module, cancelled: Callable[[], bool] | None = None) -> Observed:
    """Run a file's entry points and write down what is passed. Raises CancelledError."""
    found = Observed(entry.path)
    found.flows = list(interpret(project, entry, lambda name, text: True, _Watch(found, cancelled)))
    return found


class _Watch:
    def __init__(self, found: Observed, cancelled: Callable[[], bool] | None) -> None:
        self._found = found
        self._cancelled = cancelled
        self._left = PATIENCE

    def __call__(self, run: Interpreter, e: ir.Expr | ir.Param, value: Value) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = PATIENCE
            if self._cancelled is not None and self._cancelled():
                raise CancelledError
        frame = run.frames[-1]
        module = frame.module
        if not module.in_project and module.path != self._found.entry:  # a text that is in no file is looked at, too
            return
        by_span = self._found.looks.get(module.path)
        if by_span is None:
            by_span = self._found.looks[module.path] = {}
        span = e.at + frame.base * _BOTH_ENDS
        looks = by_span.get(span)
        if looks is None:
            looks = by_span[span] = {}
        mode, alone = run.state.mode, run.alone
        if frame.function is None and (frame.cls is not None or module.path not in run.running):
            mode, alone = _ANY_MODE, True
        kind = type(value)
        if kind is Tensor:
            assert isinstance(value, Tensor)
            state = state_of(value)
            where = value.cuts[0].place if value.cuts else None
            key: object = (state, value.rank, where, mode.kind, mode.place, alone)
            if value.leaf is not None and type(e) is ir.Name:
                self._found.names.setdefault(value.leaf, e.id)
        elif kind is Object:
            key = (id(value), mode.kind, mode.place, alone)
        elif kind is Const or kind is Number:
            cut = value.cut if isinstance(value, Number) else None
            key = (kind, cut.place if cut is not None else None, mode.kind, mode.place, alone)
        else:
            key = (kind, mode.kind, mode.place, alone)
        seen = looks.get(key)
        if seen is None:
            seen = looks[key] = Seen(mode, alone, values=[value])
            if kind is Tensor:
                seen.state, seen.rank = state, value.rank  # type: ignore[attr-defined]
        elif value is not seen.values[-1]:
            if len(seen.values) < ALIKE_LIMIT:
                seen.values.append(value)
            else:
                seen.more = True
        if kind is Object:
            assert isinstance(value, Object)
            if type(e) is ir.Name and e.id != "self":
                self._found.names.setdefault(value, e.id)
            seen.members = _members(run, value, seen.members)


def _members(run: Interpreter, obj: Object, before: Members | None) -> Members | None:
    if is_module(obj):
        leaves, exact = leaves_of(run, obj)
        training = obj.cells.get("training")
    elif is_optimizer(obj):
        leaves, exact, training = list(optimizer_leaves(obj)), obj.cells.get("exact") is True, None
        exact = exact and not obj.cells.get("escaped")
    else:
        return None
    now = tuple((leaf, leaf.cells.get("requires_grad")) for leaf in leaves)
    if before is None or (before.leaves == now and before.exact == exact and before.training == training):
        return before or Members(now, exact, training)
    flags = dict(before.leaves)  # of two moments: what holds at both
    joined = {leaf: flag if flags.get(leaf, flag) == flag else None for leaf, flag in now}
    both = flags.keys() == joined.keys()
    return Members(
        tuple((leaf, joined.get(leaf)) for leaf in {**flags, **joined}),
        exact and before.exact and both,
        training if training == before.training else None,
    )


# ---------------------------------------------------------------- through which programs


# Words of which a program that tells something about the files it runs has one; a package's `__init__.py` has none.
_OF_PROGRAMS = ("__main__", "backward", "optim", "no_grad", "inference_mode", "set_grad")

_entries: weakref.WeakKeyDictionary[Project, tuple[tuple[int, int], dict[str, list[str]]]] = weakref.WeakKeyDictionary()


def entries(project: Project, path: str) -> tuple[str, ...]:
    """The file itself, and the programs among the files read so far that import it, the nearest first."""
    modules = project.modules()
    moment = project.revision, len(modules)
    known = _entries.get(project)
    if known is None or known[0] != moment:
        known = _entries[project] = moment, _importers(project, modules)
    importers = known[1]
    found = [path]
    seen = {path}
    near = [path]
    while near and len(found) < ENTRIES_LIMIT:
        near = sorted({importer for one in near for importer in importers.get(one, ())} - seen)
        seen.update(near)
        found += [one for one in near if _is_program(project, one)]
    return tuple(found[:ENTRIES_LIMIT])


def _is_program(project: Project, path: str) -> bool:
    module = project.module(path)
    return module is not None and any(word in module.source.text for word in _OF_PROGRAMS) and is_script(module)


def _importers(project: Project, modules: list[Module]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for module in modules:
        for level, dotted, names in module.imports():
            target = project.resolve(module, level, dotted)
            if target is None or not target.in_project:
                continue
            found.setdefault(target.path, []).append(module.path)
            for name in names:
                inner = project.submodule(target, name) if name != "*" else None
                if inner is not None:
                    found.setdefault(inner.path, []).append(module.path)
    return found


# ---------------------------------------------------------------- names of parameters


class Names:
    """What the user calls the parameters of a program: by the variable that holds the outermost module."""

    def __init__(self, observed: Observed) -> None:
        self.of: dict[Leaf, str] = {}
        self.roots: dict[str, list[Leaf]] = {}  # of each outermost module its parameters, by its name
        self._root: dict[Leaf, str] = {}
        self._called = observed.names
        modules = [o for flow in observed.flows for o in flow.objects if is_module(o)]
        trees = [(obj, dict(paths(obj))) for obj in dict.fromkeys(modules)]
        # The module with the most parameters first: it is the outermost one.
        for obj, tree in sorted(trees, key=lambda item: (-len(item[1]), item[0] not in observed.names)):
            new = [leaf for leaf in tree if leaf not in self.of]
            if not new:
                continue
            root = self.name(obj)
            self.roots.setdefault(root, []).extend(new)
            for leaf in new:
                self.of[leaf] = root + tree[leaf]
                self._root[leaf] = root
        for thing, name in observed.names.items():
            if isinstance(thing, Leaf):
                self.of.setdefault(thing, name)

    def name(self, obj: Object) -> str:
        return self._called.get(obj) or obj.label or "model"

    def leaf(self, leaf: Leaf) -> str:
        return self.of.get(leaf) or leaf.label or ("Parameter" if leaf.kind == "parameter" else "tensor")

    def grouped(self, leaves: list[Leaf]) -> Iterator[tuple[str, list[Leaf], list[Leaf]]]:
        """For each outermost module: its name, those of `leaves` that are its, and all of its parameters."""
        by_root: dict[str, list[Leaf]] = {}
        for leaf in leaves:
            by_root.setdefault(self._root.get(leaf, ""), []).append(leaf)
        for root, some in by_root.items():
            every = self.roots.get(root, some)
            yield root, [leaf for leaf in every if leaf in some], every


def unregistered(obj: Object) -> Iterator[tuple[str, str]]:
    """Attributes of a module that are plain containers of modules: the name, and what it is."""
    for name, value in obj.attrs.items():
        if isinstance(value, Sequence):
            items = value.cells.get("items")
            inside: tuple[object, ...] = items if isinstance(items, tuple) else (value.cells.get("each"),)
            kind = value.kind
        elif isinstance(value, Mapping):
            inside, kind = tuple(value.cells.values()), "dict"
        else:
            continue
        if any(isinstance(item, Object) and is_module(item) for item in inside):
            yield str(name), kind


def holders(observed: Observed) -> dict[Object, tuple[dict[Leaf, None], bool]]:
    """What each optimizer was given in all, and whether that is surely everything."""
    found: dict[Object, tuple[dict[Leaf, None], bool]] = {}
    for flow in observed.flows:
        for event in flow.events:
            if isinstance(event, events.OptimizerMade):
                found[event.optimizer] = dict.fromkeys(event.leaves), event.exact
            elif isinstance(event, events.ParametersAdded) and event.optimizer in found:
                found[event.optimizer][0].update(dict.fromkeys(event.leaves))
    return found
