"""The engine of a language server: a workspace on this machine's disk, with open documents over it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .. import check as engine
from ..config import ConfigError, Configuration, find_rule
from ..edits import Applicability, Edit, Fix, apply
from ..findings import Finding, Place
from ..suppress import apply as silence
from ..words import Word, meanings, words
from ..workspace import Workspace
from .engine import CancelledError, Fact, Findings, Hint, Region, Token

if TYPE_CHECKING:
    from ..text import Source

MARKS = {"cut": "cut", "switch": "off", "flow": "off"}  # what a kind of word is where a finding is about it
FAR = 40  # lines below a finding in which its statement must end for a comment to be put there


class Local:
    """See `engine.Engine`."""

    def __init__(self) -> None:
        self._roots: tuple[str, ...] = ()
        self._open: dict[str, Source] = {}
        self._files: list[str] | None = None
        self._found: Findings = {}  # as last checked
        self._words: dict[str, tuple[Source, list[Word]]] = {}
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
            self._workspace.project.update(path, source)

    def update(self, path: str, source: Source | None) -> None:
        if source is None:
            self._open.pop(path, None)
        else:
            self._open[path] = source
        self._workspace.project.update(path, source)

    def touch(self, paths: Iterable[str]) -> None:
        paths = list(paths)
        if any(not path.endswith((".py", ".ipynb")) for path in paths):
            self._renew()
            return
        self._files = None
        self._workspace.disk.forget()
        for path in paths:
            if path not in self._open:
                self._workspace.project.update(path, None)

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
                return Fix(f"Ignore {finding.name} here", Applicability.SAFE, (edit,))
        return None

    def url(self, finding: Finding) -> str:
        rule = find_rule(finding.code)
        return rule.url if rule else ""

    def fact(self, path: str, offset: int) -> Fact | None:
        word = next((word for word in self._words_of(path) if word.start <= offset <= word.end), None)
        if word is None:
            return None
        return Fact(word.start, word.end, meanings()[word.name].text)

    def tokens(self, path: str) -> Sequence[Token]:
        # a word glares where a finding, or the trail of one, is about it
        named = [
            place
            for findings in self._found.values()
            for finding in findings
            if finding.severity.fails
            for place in (finding.place, *(step.place for step in finding.trail))
            if place.path == path
        ]
        return [
            Token(word.start, word.end, word.kind, self._marks(word, named))
            for word in self._words_of(path)
            if word.kind in MARKS
        ]

    def _marks(self, word: Word, named: Sequence[Place]) -> tuple[str, ...]:
        is_named = any(place.start <= word.start and word.end <= place.end for place in named)
        return (MARKS[word.kind],) if is_named else ()

    def _words_of(self, path: str) -> list[Word]:
        source = self.source(path)
        known = self._words.get(path)
        if known is None or known[0] is not source:
            module = self._workspace.project.module(path)
            if module is None:
                return []
            known = self._words[path] = module.source, words(module)
        return known[1]

    def regions(self, path: str) -> Sequence[Region]:
        return ()

    def hints(self, path: str) -> Sequence[Hint]:
        found = []
        source = self.source(path)
        for finding in self._found.get(path, ()) if source is not None else ():
            if finding.severity.fails and finding.trail:
                line, _ = source.position(finding.place.end)
                end = source.offset(line, len(source.line_text(line)))
                origin = finding.trail[-1]
                found.append(Hint(end, "⊘", origin.note, origin.place))
        return found

    def problems(self) -> Sequence[str]:
        return list(self._refused)
