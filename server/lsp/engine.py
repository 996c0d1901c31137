"""What the features ask of gradline: the one place where the language server meets the engine.

The types here are what a feature needs to know, in offsets of the file's text (code points). `Local` answers them
from `project.Project` and `check`; a test may put anything else in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..findings import Finding, Place
from ..insight import Fact, Hint, Lens, Line, Region, Token

if TYPE_CHECKING:
    from ..edits import Fix
    from ..refactor import Offer
    from ..text import Source

Findings = dict[str, tuple[Finding, ...]]


class CancelledError(Exception):
    """The analysis was stopped, as `cancelled` asked for; what it has learned is kept."""


class Cause(NamedTuple):
    """One answer to why a program raised: `place` is where to go, `code` the rule that speaks ("" for none)."""

    title: str
    markdown: str
    place: Place | None
    code: str
    fixable: bool


class Told(NamedTuple):
    """A traceback explained: `markdown` is the whole of it, `answers` are the causes, the likeliest first."""

    markdown: str
    answers: tuple[Cause, ...]


class Engine(Protocol):
    def set_roots(self, roots: Sequence[str]) -> None:
        """The folders of the workspace, as absolute paths."""
        ...

    def update(self, path: str, source: Source | None) -> None:
        """The text of an open document; None: closed, the disk holds again."""
        ...

    def touch(self, paths: Iterable[str]) -> None:
        """Files (settings among them) that were made, changed or removed on the disk."""
        ...

    def altered(self) -> Iterator[tuple[str, bool] | None]:
        """The files that have changed on the disk and were not touched since, and whether they have come or gone; None
        now and then, when other work may come before."""
        ...

    def source(self, path: str) -> Source | None: ...

    def files(self) -> list[str]:
        """The workspace's files that a check looks at."""
        ...

    def check(self, paths: Sequence[str], cancelled: Callable[[], bool]) -> Findings:
        """Findings of these files, by file, as `gradline check` has them. Raises CancelledError."""
        ...

    def fix(self, finding: Finding) -> Fix | None:
        """Raises edits.EditingUnavailableError where LibCST is missing."""
        ...

    def ignore(self, finding: Finding) -> Fix | None:
        """The edit that writes a comment which silences the finding."""
        ...

    def url(self, finding: Finding) -> str: ...

    def refactorings(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Sequence[Offer]:
        """What can be changed here without a finding; what takes long to find out is left out if `cancelled`."""
        ...

    def refactor(self, path: str, offset: int, name: str) -> Fix | None:
        """The edits of an offer. Raises edits.EditingUnavailableError where LibCST is missing."""
        ...

    def fact(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Fact | None:
        """What is true at an offset; what the word there does, if `cancelled` before a document is looked at first."""
        ...

    def line(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Line | None:
        """The line of the value at an offset; None if `cancelled` before a document is looked at first."""
        ...

    def tokens(self, path: str) -> Sequence[Token]: ...

    def regions(self, path: str) -> Sequence[Region]: ...

    def hints(self, path: str) -> Sequence[Hint]: ...

    def lenses(self, path: str) -> Sequence[Lens]: ...

    def trainings(self, path: str) -> Sequence[int]:
        """Where functions and scripts that back-propagate begin, as offsets of their lines."""
        ...

    def look(self, path: str, cancelled: Callable[[], bool]) -> bool:
        """Learn what the answers above about an open document rest on; whether there is news. Raises CancelledError.

        Until it has looked at the present text the engine answers from what it knew of the text before.
        """
        ...

    def why(self, text: str, folder: str | None) -> Told | None:
        """Explains the traceback in a text, of a program that ran in `folder`; None if there is none in it."""
        ...

    def problems(self) -> Sequence[str]:
        """What the user should know and can act on, as sentences: settings that can't be used and the like."""
        ...
