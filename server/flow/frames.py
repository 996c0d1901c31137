"""A running body of code, the loops that run in it, and the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .. import ir
from ..facts import (
    UNKNOWN,
    Class,
    Function,
    Mode,
    Object,
    Scope,
    Value,
)
from ..findings import Place
from ..project import Module
from ..state import Changes
from ..units import Unit
from . import events

UNROLL_LIMIT = 6  # a literal sequence this short is passed item by item (`for phase in ("train", "val")`)


@dataclass(eq=False, slots=True)
class Loop:
    mark: int
    cleanups: int
    unrolled: bool = False  # the iterations are passed one by one
    place: Place | None = None  # what it iterates over, or its condition
    over: Value = UNKNOWN  # the iterable; NONE for `while`
    counted: bool = False  # over `range(...)`
    length: int | None = None  # the number of iterations, where it is known
    index: int = 0  # which pass over the body this is
    breaks: list[Changes] = field(default_factory=list)
    continues: list[Changes] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Frame:
    """One running body of code."""

    scope: Scope
    module: Module
    unit: Unit | None
    base: int
    function: Function | None = None
    mark: int = 0
    exits: list[tuple[Value, Changes | None]] = field(default_factory=list)  # None: the state is as it was left
    forks: int = 0  # how many ways through its code are open that will be undone and joined with others
    caught: int = 0  # how many blocks around the present statement go on after an error
    cleanups: list[Callable[[], object]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    yields: list[tuple[Value, Mode]] = field(default_factory=list)
    protected: bool = True  # each `yield` stands in a block whose end runs on an exception too
    instance: Object | None = None  # the module whose forward this is
    cls: Class | None = None  # the class whose body or method this is
    looked: list[ir.Expr] = field(default_factory=list)  # of which `.grad` it was asked whether it is None
    branches: int = 0  # how many unknown conditions the present statement depends on
    guards: list[events.Guard] = field(default_factory=list)

    @property
    def repeating(self) -> bool:
        """Inside a loop of which not each iteration is passed."""
        return any(not loop.unrolled for loop in self.loops)


class Args:
    """Evaluated arguments; `spread` says that there may be more than the known ones (`*args`, `**kwargs`)."""

    __slots__ = ("_ats", "_base", "_keyword_ats", "_path", "_places", "keywords", "members", "positional", "spread")

    def __init__(
        self,
        positional: list[Value],
        keywords: dict[str, Value],
        spread: bool = False,
        places: list[Place] | None = None,
    ) -> None:
        self.positional, self.keywords, self.spread = positional, keywords, spread
        # All positional arguments, not in order, if `*args` hides how many there are.
        self.members: tuple[Value, ...] | None = None
        self._places = places
        self._ats: list[int] = []
        self._keyword_ats: dict[str, int] = {}
        self._path, self._base = "", 0

    def written(self, path: str, base: int, ats: list[int], keyword_ats: dict[str, int]) -> None:
        """Where the arguments stand: `Place`s are made of it when they are asked for, which is rare."""
        self._path, self._base, self._ats, self._keyword_ats = path, base, ats, keyword_ats

    @property
    def places(self) -> list[Place]:
        """The places of the positional arguments, as far as they are known."""
        if self._places is None:
            self._places = [self._place(at) for at in self._ats]
        return self._places

    def _place(self, at: int) -> Place:
        start, end = ir.unpack(at)
        return Place(self._path, self._base + start, self._base + end)

    def get(self, index: int | None, name: str, default: Value | None = None) -> Value | None:
        """The argument at a position or under a name; UNKNOWN if it may be in what was spread."""
        if name in self.keywords:
            return self.keywords[name]
        if index is not None and index < len(self.positional):
            return self.positional[index]
        return UNKNOWN if self.spread else default

    def place(self, index: int, name: str) -> Place | None:
        """Where the argument at a position or under a name is written."""
        if name in self._keyword_ats:
            return self._place(self._keyword_ats[name])
        return self.places[index] if index < len(self.places) else None

    def all(self) -> list[Value]:
        return [*self.positional, *self.keywords.values()]
