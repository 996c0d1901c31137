"""The engine of a language server: a workspace on this machine's disk, with open documents over it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .. import check as engine
from .. import insight, refactor
from ..config import ConfigError, Configuration, find_rule
from ..edits import Applicability, Edit, Fix, apply
from ..findings import Finding
from ..insight import Fact, Hint, Insight, Lens, Line, Region, Token
from ..messages import say
from ..refactor import Offer
from ..suppress import UNUSED_SUPPRESSION
from ..suppress import apply as silence
from ..workspace import Workspace
from .engine import CancelledError, Cause, Findings, Told
from .moved import Moved

if TYPE_CHECKING:
    from ..text import Source

LOG = logging.getLogger(__name__)

FAR = 40  # lines below a finding in which its statement must end for a comment to be put there


class Local:
    """See `engine.Engine`."""

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()
        self._open: dict[str, Source] = {}
        self._files: list[str] | None = None
        self._found: Findings = {}  # as last checked
        self._looked: dict[str, Insight] = {}  # open documents as last looked at
        self._told: dict[str, Insight] = {}  # what `look` has last said was news: a hover may look before
        self._refused: dict[str, None] = {}  # settings that can't be used, as sentences
        self._workspace = Workspace(self._roots)

    def set_roots(self, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self._renew()

    def _renew(self) -> None:
        self._workspace = Workspace(self._roots, Configuration())
        self._refused.clear()
        self._files = None
        for path, source in self._open.items():
            self._take_in(path)
            self._tell(path, source)

    def _tell(self, path: str, source: Source | None) -> None:
        try:
            self._workspace.project.update(path, source)
        except ConfigError as error:
            self._refused[str(error)] = None

    def update(self, path: str, source: Source | None) -> None:
        if source is None:
            self._open.pop(path, None)
            self._looked.pop(path, None)
            self._told.pop(path, None)
        else:
            self._open[path] = source
            self._take_in(path)
        self._tell(path, source)
        if source is None:
            insight.forget(self._workspace.project, self._open)

    def _take_in(self, path: str) -> None:
        """What a document outside of every folder imports from beside it is the user's own, too."""
        folder = path.rpartition("/")[0]
        if folder and not self._workspace.disk.is_project(path) and "/site-packages/" not in path:
            self._workspace.disk.near.add(folder)

    def touch(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        if any(not path.endswith((".py", ".ipynb")) for path in paths):
            self._renew()
            return
        self._files = None
        self._workspace.disk.touched(paths)
        for path in paths:
            self._found.pop(path, None)  # it may be gone; if not, it is checked again
            if path not in self._open:
                self._tell(path, None)

    def altered(self) -> Iterator[tuple[str, bool] | None]:
        return self._workspace.disk.altered(self._open)

    def source(self, path: str) -> Source | None:
        return self._open.get(path) or self._workspace.source(path)

    def files(self) -> list[str]:
        if self._files is None:
            try:
                self._files = self._workspace.disk.discover(self._roots)
            except ConfigError as error:
                self._refused[str(error)] = None
                self._files = []
        return self._files

    def check(self, paths: Sequence[str], cancelled: Callable[[], bool]) -> Findings:
        try:
            found = dict(self._workspace.check(paths, cancelled=cancelled).findings)
        except engine.CancelledError as error:
            raise CancelledError from error
        except ConfigError as error:
            self._refused[str(error)] = None
            return {}
        if len(paths) == 1 and self._files is not None and len(self._files) > 1:
            # whether a comment silences something shows when all who may have a finding there are looked at
            found = {
                path: tuple(finding for finding in some if finding.code != UNUSED_SUPPRESSION.code)
                for path, some in found.items()
            }
        self._found.update(found)
        return found

    def fix(self, finding: Finding) -> Fix | None:
        return self._workspace.fix(finding)

    def ignore(self, finding: Finding) -> Fix | None:
        source = self.source(finding.place.path)
        if source is None:
            return None
        rule = find_rule(finding.code)
        names = {finding.code: rule.name if rule else finding.name}
        first, _ = source.position(finding.place.end)
        for line in range(first, min(first + FAR, len(source.line_starts))):
            end = source.offset(line, len(source.line_text(line)))
            edit = Edit(finding.place.path, end, end, f"  # gradline: ignore[{finding.code}]")
            # a comment is none inside a string or behind a backslash: whether it works is asked, not guessed
            if not silence(finding.place.path, apply(source.text, [edit]), [finding], names).kept:
                return Fix(say("Ignore {name} here", name=finding.name), Applicability.SAFE, (edit,))
        return None

    def url(self, finding: Finding) -> str:
        rule = find_rule(finding.code)
        return rule.url if rule else ""

    def fact(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Fact | None:
        try:
            known, moved = self._present(path, cancelled)
            if known is not None and moved is None:
                return known.fact(offset)
            if known is not None and moved is not None:
                # while somebody types, what was seen before the edit is told of what the edit did not touch
                before = moved.back(offset)
                fact = known.fact(before) if before is not None else None
                span = moved.span(fact.start, fact.end) if fact is not None else None
                if fact is not None and span is not None:
                    return Fact(*span, fact.markdown)
        except Exception:
            LOG.exception("what is true in %s could not be found out", path)
        return insight.word_fact(self._workspace.project, path, offset)

    def line(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Line | None:
        known, moved = self._present(path, cancelled)
        if known is None or moved is None:
            return known.line(offset) if known is not None else None
        before = moved.back(offset)
        return moved.line(known.line(before)) if before is not None else None

    def refactorings(self, path: str, offset: int, cancelled: Callable[[], bool]) -> Sequence[Offer]:
        return refactor.offers(self._workspace.project, path, offset, self._seen(path), cancelled)

    def refactor(self, path: str, offset: int, name: str) -> Fix | None:
        return refactor.make(self._workspace.project, path, offset, name, self._seen(path))

    def _seen(self, path: str) -> Insight | None:
        """What was seen of the present text, if it was looked at."""
        known, moved = self._insight(path)
        return known if moved is None else None

    def look(self, path: str, cancelled: Callable[[], bool]) -> bool:
        known = self._told.get(path)
        try:
            new = insight.insight(self._workspace.project, path, cancelled)
        except engine.CancelledError as error:
            raise CancelledError from error
        if new is None or new is known:
            return False
        new.settle()
        self._looked[path] = self._told[path] = new
        return True

    def _insight(self, path: str) -> tuple[Insight | None, Moved | None]:
        """What was last seen of a document, and how what was seen then has moved since; None: it has not."""
        known, source = self._looked.get(path), self.source(path)
        if known is None or source is None:
            return None, None
        return known, None if known.source.text == source.text else Moved(path, known.source.text, source.text)

    def _present(self, path: str, cancelled: Callable[[], bool]) -> tuple[Insight | None, Moved | None]:
        """As `_insight`, the newest that there is; a document that nobody has looked at yet is looked at now."""
        project = self._workspace.project
        ready = insight.ready(project, path)
        if ready is not None:
            return ready, None
        known, moved = self._insight(path)
        if known is None:
            try:
                known = insight.insight(project, path, cancelled)
            except engine.CancelledError:
                return None, None
            if known is not None:
                known.settle()
                if path in self._open:
                    self._looked[path] = known
        return known, moved

    def _findings(self) -> list[Finding]:
        return [finding for findings in self._found.values() for finding in findings]

    def tokens(self, path: str) -> Sequence[Token]:
        known, moved = self._insight(path)
        findings = self._findings()
        if known is not None and moved is None:
            return known.tokens(findings)
        found = insight.plain_tokens(self._workspace.project, path, findings)
        if known is None or moved is None:
            return found
        # what is edited keeps its colours where the edit does not touch it
        calm = {moved.span(t.start, t.end) for t in known.tokens(()) if t.marks == ("harmless",)}
        return [t._replace(marks=("harmless",)) if not t.marks and (t.start, t.end) in calm else t for t in found]

    def regions(self, path: str) -> Sequence[Region]:
        known, moved = self._insight(path)
        if known is None:
            return ()
        return known.regions if moved is None else moved.regions(known.regions)

    def hints(self, path: str) -> Sequence[Hint]:
        known, moved = self._insight(path)
        source, findings = self.source(path), self._findings()
        if source is None:
            return ()
        if known is not None and moved is None:
            return known.hints(findings)
        found = insight.finding_hints(path, findings, source)
        if known is not None and moved is not None:
            told = {hint.offset for hint in found}
            found += [hint for hint in moved.hints(known.hints(())) if hint.offset not in told]
        return sorted(found, key=lambda hint: hint.offset)

    def lenses(self, path: str) -> Sequence[Lens]:
        known, moved = self._insight(path)
        if known is None:
            return ()
        return known.lenses if moved is None else moved.lenses(known.lenses)

    def why(self, text: str, folder: str | None) -> Told | None:
        from .. import why
        from ..why import markdown

        explained = why.explain(text, folder, self._beside, near=self._workspace)
        if explained is None:
            return None
        shown = markdown.report(explained)
        return Told(
            markdown.write(explained, shown),
            tuple(
                Cause(
                    one.title,
                    markdown.answer(one, shown),
                    one.place,
                    one.finding.code if one.finding is not None else "",
                    one.fix is not None,
                )
                for one in explained.answers
            ),
        )

    def _beside(self, roots: list[str]) -> Workspace:
        """Folders that are not the client's, as they are on the disk, with the open documents over them."""
        workspace = Workspace(roots, Configuration())
        for path, source in self._open.items():
            workspace.project.update(path, source)
        return workspace

    def trainings(self, path: str) -> Sequence[int]:
        known, moved = self._insight(path)
        if known is None:
            return ()
        return known.trainings if moved is None else moved.offsets(known.trainings)

    def problems(self) -> Sequence[str]:
        return list(self._refused)
