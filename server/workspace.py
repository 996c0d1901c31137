"""A project on the disk with its settings: what the command and the language server both stand on.

The engine knows neither files nor settings. Here its findings get the severity that the settings of their file give
them, those that are off or silenced by a comment are taken away, and comments that silence nothing are added.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import check as engine
from . import suppress
from .config import Configuration, catalog
from .disk import Disk, Problem
from .findings import Finding
from .project import Project
from .report.changes import is_possible
from .text import Source

if TYPE_CHECKING:
    from .edits import Fix

DEBUG = "GRADLINE_DEBUG"  # set to anything, a bug of ours ends the program and shows where it is
BUG = f"a bug in gradline; {DEBUG}=1 shows where"


class Checked(NamedTuple):
    """`findings` of each checked file, in the order of their places; `notes` are what the engine has to say."""

    findings: Mapping[str, tuple[Finding, ...]]
    notes: tuple[str, ...]


# Objects made between two collections of garbage during an analysis. Nearly all of them stay in use: of 7,000 files
# what could be collected is 3 % of the memory, and looking for it takes a fifth of the time. This many are about 1 GB.
COLLECT_AFTER = 10_000_000
OLD = 10  # collections of the young between two of the older, as Python has it


@contextlib.contextmanager
def collecting_rarely() -> Generator[None, None, None]:
    before = gc.get_threshold()
    gc.set_threshold(max(COLLECT_AFTER, before[0]), OLD, OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Workspace:
    """The folders `roots` and everything that is known of the programs in them.

    The methods raise ConfigError where settings can't be used; files that can't be read are in `disk.problems`.
    """

    def __init__(self, roots: Sequence[str], configuration: Configuration | None = None) -> None:
        self.configuration = configuration or Configuration()
        self.disk = Disk(roots, self.configuration)
        self.project = Project(self.disk)
        self._settled: dict[tuple[str, bool], tuple[Source, tuple[Finding, ...], tuple[Finding, ...]]] = {}
        self._before: dict[tuple[str, bool], tuple[tuple[Finding, ...], tuple[Finding, ...]]] = {}
        self._raw: dict[str, tuple[Finding, ...]] = {}

    def source(self, path: str) -> Source | None:
        return self.project.source(path)

    def forget(self) -> None:
        """Files or settings have come, gone or changed; what is known of programs stays (see `Project.update`)."""
        self.disk.forget()
        self.configuration.forget()
        self._settled.clear()
        self._before.clear()

    def check(
        self, paths: Iterable[str], doubtful: bool = False, cancelled: Callable[[], bool] | None = None
    ) -> Checked:
        """What is to be said of these files. With `doubtful`, findings that rest on a guess are among it.

        A file over which the engine breaks becomes a problem; the others are checked all the same.
        """
        paths = list(paths)
        with collecting_rarely():
            result = self._checked(paths, cancelled)
        self._raw = {path: found for path, found in result.findings.items() if found}
        return Checked(
            {path: self._settle(path, result.findings.get(path, ()), doubtful) for path in paths}, result.notes
        )

    def _checked(self, paths: list[str], cancelled: Callable[[], bool] | None) -> engine.Result:
        try:
            return engine.check(self.project, paths, cancelled=cancelled, doubtful=True)
        except (engine.CancelledError, MemoryError):
            raise
        except Exception:
            sound = [path for path in paths if self._is_sound(path, cancelled)]
            return engine.check(self.project, sound, cancelled=cancelled, doubtful=True)

    def fix(self, finding: Finding) -> Fix | None:
        """The fix of a finding, verified; None if there is none that is right here."""
        if finding.code == suppress.UNUSED_SUPPRESSION.code:
            return suppress.fix(finding)
        if not finding.fixable:
            return None
        try:
            fix = engine.fix(self.project, finding)
        except RecursionError:  # LibCST recurses over what is nested, and the report matters more than the fix
            return None
        return fix if fix is not None and self._is_possible(fix) else None

    def _is_possible(self, fix: Fix) -> bool:
        for path in {edit.path for edit in fix.edits}:
            source = self.project.source(path)
            if source is None or not is_possible(source, [edit for edit in fix.edits if edit.path == path]):
                return False
        return True

    def _is_sound(self, path: str, cancelled: Callable[[], bool] | None) -> bool:
        """Whether the engine gets through this file; if not, that is a problem. What it learns is kept."""
        try:
            engine.check(self.project, [path], cancelled=cancelled, doubtful=True)
        except (engine.CancelledError, MemoryError):
            raise
        except Exception as error:
            if os.environ.get(DEBUG):
                raise
            self.disk.problems.append(Problem(path, f"could not be analysed: {type(error).__name__}: {error} ({BUG})"))
            return False
        return True

    def raw(self, path: str) -> tuple[Finding, ...]:
        """What the engine had to say of a file in the last check, before settings and comments were heeded."""
        return self._raw.get(path, ())

    def settled_before(
        self, path: str, doubtful: bool, findings: tuple[Finding, ...], settled: tuple[Finding, ...]
    ) -> None:
        """What an earlier run made of the findings of a file whose analysis is recalled: it makes the same again."""
        self._before[path, doubtful] = findings, settled

    def _settle(self, path: str, findings: Sequence[Finding], doubtful: bool) -> tuple[Finding, ...]:
        before = self._before.get((path, doubtful))
        if before is not None and path in self.project.recalled and before[0] == tuple(findings):
            return before[1]
        source = self.project.source(path)
        if source is None:
            return ()
        known = self._settled.get((path, doubtful))
        if known is not None and known[0] is source and known[1] == tuple(findings):
            return known[2]
        if not findings and not suppress.speaks(source.text):
            self._settled[path, doubtful] = source, (), ()
            return ()
        settings = self.configuration.for_path(path)
        rules = catalog()
        names = {code: rule.name for code, rule in rules.items()}
        on = {code for code, rule in rules.items() if settings.severity_of(rule, path) is not None}
        outcome = suppress.apply(path, source.text, findings, names, on.__contains__)
        settled = [
            finding._replace(severity=settings.severity_of(rules[finding.code], path, finding.severity))
            for finding in (*outcome.kept, *outcome.unused)
            if finding.code in on and (doubtful or not finding.doubt)
        ]
        result = tuple(sorted(settled, key=lambda finding: (finding.place.start, finding.place.end, finding.code)))
        self._settled[path, doubtful] = source, tuple(findings), result
        return result
