"""What the features ask of gradline: the one place where the language server meets the engine.

The types here are what a feature needs to know, in offsets of the file's text (code points). `Local` answers them
from `project.Project` and `check`; a test may put anything else in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ..findings import Finding, Place

if TYPE_CHECKING:
    from ..edits import Fix
    from ..text import Source

Findings = dict[str, tuple[Finding, ...]]


class CancelledError(Exception):
    """The analysis was stopped, as `cancelled` asked for; what it has learned is kept."""


class Fact(NamedTuple):
    """What is true at a place: Markdown, the short answer first."""

    start: int
    end: int
    markdown: str


class Token(NamedTuple):
    """A word to colour. `kind` is "cut", "switch" or "flow"; `marks` are of "cut", "off" and "harmless"."""

    start: int
    end: int
    kind: str
    marks: tuple[str, ...] = ()


class Region(NamedTuple):
    """A span that runs with one grad mode ("on", "off", "inference", "unknown"), and who set it."""

    start: int
    end: int
    mode: str
    origin: Place | None = None
    note: str = ""


class Hint(NamedTuple):
    """Something to write behind a place. `origin` is where it leads; `is_cut`: it says that the line is cut here."""

    offset: int
    label: str
    tooltip: str = ""
    origin: Place | None = None
    is_cut: bool = True


class Engine(Protocol):
    def set_roots(self, roots: Sequence[str]) -> None:
        """The folders of the workspace, as absolute paths."""

    def update(self, path: str, source: Source | None) -> None:
        """The text of an open document; None: closed, the disk holds again."""

    def touch(self, paths: Iterable[str]) -> None:
        """Files (settings among them) that were made, changed or removed on the disk."""

    def source(self, path: str) -> Source | None: ...

    def files(self) -> list[str]:
        """The workspace's files that a check looks at."""

    def check(self, paths: Sequence[str], cancelled: Callable[[], bool]) -> Findings:
        """Findings of these files, by file, as `gradline check` has them. Raises CancelledError."""

    def fix(self, finding: Finding) -> Fix | None:
        """Raises edits.EditingUnavailableError where LibCST is missing."""

    def ignore(self, finding: Finding) -> Fix | None:
        """The edit that writes a comment which silences the finding."""

    def url(self, finding: Finding) -> str: ...

    def fact(self, path: str, offset: int) -> Fact | None: ...

    def tokens(self, path: str) -> Sequence[Token]: ...

    def regions(self, path: str) -> Sequence[Region]: ...

    def hints(self, path: str) -> Sequence[Hint]: ...

    def problems(self) -> Sequence[str]:
        """What the user should know and can act on, as sentences: settings that can't be used and the like."""
