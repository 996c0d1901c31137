"""What a check found, and writing it down: one module per output format, each with `write(report, stream)`.

A module is loaded when its format is asked for. Rows and columns are from 1, columns in code points; in a notebook
they are those of the cell.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TextIO

from ..findings import Finding, Place, Severity
from ..paths import below, spelled

if TYPE_CHECKING:
    from ..edits import Applicability, Fix
    from ..rule import Rule
    from ..text import Source

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit")
WITH_FIXES = frozenset({"full", "concise", "json", "sarif"})  # finding a fix costs time: only these show it


class Location(NamedTuple):
    """Where a place is for a reader; `cell` is the notebook's cell from 1, None in a plain file."""

    row: int
    column: int
    end_row: int
    end_column: int
    cell: int | None = None


class Entry(NamedTuple):
    """A finding and the fix that was verified for it, if there is one."""

    finding: Finding
    fix: Fix | None = None


@dataclass(frozen=True)
class Report:
    """Everything a format may want. `entries` are in the order of path and place; `checked` are the files looked at.

    `source` gives the text of a file that a finding or its trail is in; `base` is the folder that shown paths are
    relative to.
    """

    entries: Sequence[Entry]
    source: Callable[[str], Source | None]
    rules: Mapping[str, Rule]
    base: str
    checked: Sequence[str] = ()
    color: bool = False
    width: int = 80
    summary: bool = True  # whether to end with the counts
    fixed: int = 0  # findings that were mended before those of `entries` were left
    notes: int = 0  # what the engine could not follow to its end
    complete: bool = True  # whether everything that was asked for could be done

    @cached_property
    def _changeable(self) -> frozenset[str]:
        return frozenset(self.checked)

    def elsewhere(self, fix: Fix) -> list[str]:
        """The files that a fix would change and that are not checked, so that `--fix` leaves them alone."""
        return sorted({edit.path for edit in fix.edits} - self._changeable)

    def applies(self, entry: Entry, applicability: Applicability) -> bool:
        """Whether `--fix` (for an unsafe one, with `--unsafe-fixes`) mends this finding."""
        fix = entry.fix
        if fix is None or not fix.edits or fix.applicability is not applicability:
            return False
        return not self.elsewhere(fix)

    def location(self, place: Place) -> Location:
        """The rows and columns of a place; 1:1 if its file is gone."""
        source = self.source(place.path)
        if source is None:
            return Location(1, 1, 1, 1)
        if source.cells is not None and source.cells.cells:
            cell, row, column = source.cells.position(place.start)
            _, end_row, end_column = source.cells.position(place.end)
            return Location(row + 1, column + 1, end_row + 1, end_column + 1, cell + 1)
        row, column = source.position(place.start)
        end_row, end_column = source.position(place.end)
        return Location(row + 1, column + 1, end_row + 1, end_column + 1)

    def name(self, path: str) -> str:
        """The path as it is shown: relative to `base` if it lies below it."""
        return below(path, self.base) or path

    def shown(self, path: str) -> str:
        """The same for a terminal: a file's name may hold whatever its maker liked."""
        return clean(self.name(path))

    def url(self, finding: Finding) -> str | None:
        rule = self.rules.get(finding.code)
        return rule.url if rule else None

    def counts(self) -> dict[Severity, int]:
        """How many findings there are of each severity, the worst first; those that are 0 are left out."""
        found = dict.fromkeys(Severity, 0)
        for entry in self.entries:
            found[entry.finding.severity] += 1
        return {severity: count for severity, count in found.items() if count}

    @property
    def fails(self) -> bool:
        return any(entry.finding.severity.fails for entry in self.entries)


def write(form: str, report: Report, stream: TextIO) -> None:
    """Writes `report` in the format of this name, one of FORMATS."""
    importlib.import_module(f".{form}", __name__).write(report, stream)


def here() -> str:
    """The folder that the command runs in, as paths are written here."""
    return spelled(os.getcwd())


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def one_line(text: str) -> str:
    """`text` on one line, without characters that a terminal would act on."""
    return "".join(char if char.isprintable() else " " for char in " ".join(text.split()))


def clean(text: str) -> str:
    """`text` without characters that a terminal would act on; it keeps its length."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)
