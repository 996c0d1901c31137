"""What gradline says: a finding, the trail that leads to it, and how sure it is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple


class Severity(enum.Enum):
    """How bad it is; `ERROR` and `WARNING` fail a check, the others are advice."""

    ERROR = "error"  # raises, or nothing trains, on every run that reaches it
    WARNING = "warning"  # part of what should train does not, or trains on something else than meant
    INFO = "info"
    HINT = "hint"

    @property
    def fails(self) -> bool:
        return self in (Severity.ERROR, Severity.WARNING)


class Place(NamedTuple):
    """A span of a file's text: `start` and `end` count code points from the start of the file, end exclusive.

    `path` is the key under which the project holds the file. In a notebook the offsets are those of the joined
    program (see `notebooks.py`).
    """

    path: str
    start: int
    end: int


class Step(NamedTuple):
    """One place of a trail and what happens there, as a sentence without a full stop."""

    place: Place
    note: str


class Finding(NamedTuple):
    """A rule's claim about one place.

    `trail` runs from the symptom (the finding's own place, not repeated) back to the origin, which comes last.
    `doubt` names the approximations that the claim rests on; a finding with doubt is not shown by default.
    `data` is what the rule's `fix` wants to remember; plain values only.
    """

    code: str
    name: str
    severity: Severity
    place: Place
    message: str
    trail: tuple[Step, ...] = ()
    doubt: frozenset[str] = frozenset()
    data: tuple[tuple[str, object], ...] = ()
    tags: tuple[str, ...] = ()  # "unnecessary" or "deprecated", as LSP's DiagnosticTag
    fixable: bool = False  # the rule has a fix; whether one is right here, `check.Check.fix` tells

    def get(self, key: str, default: object = None) -> object:
        return dict(self.data).get(key, default)

    def moved(self, to: Callable[[Place], Place]) -> Finding:
        """The same finding with all its places where `to` puts them."""
        trail = tuple([step._replace(place=to(step.place)) for step in self.trail])
        return self._replace(place=to(self.place), trail=trail)
