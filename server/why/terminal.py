"""An explanation for a terminal, in the look of `gradline check`."""

from __future__ import annotations

import re
from typing import TextIO

from ..findings import Finding, Severity
from ..messages import tell, told
from ..report import Entry, Report, here, one_line
from ..report.full import write_one, write_places
from ..report.terminal import Painter, wrap
from . import Answer, Explanation
from .words import apply_command, certainty, heading, repeats, unknown, where_raised


def write(explained: Explanation, stream: TextIO, color: bool, width: int) -> None:
    fixes = [answer.fix for answer in explained.answers if answer.fix is not None]
    changed = dict.fromkeys(edit.path for fix in fixes for edit in fix.edits)
    report = Report((), explained.workspace.source, {}, here(), tuple(changed), color, width)
    _Writer(explained, report, stream).write()


class _Writer:
    def __init__(self, explained: Explanation, report: Report, stream: TextIO) -> None:
        self.explained = explained
        self.report = report
        self.stream = stream
        self.paint = Painter(report.color)

    def write(self) -> None:
        explained = self.explained
        for index, line in enumerate(wrap(one_line(heading(explained)), self.report.width, "", "  ")):
            self._line(self.paint(line, "error" if index == 0 else "name"))
        if raised := where_raised(explained, self.report):
            self._text(raised, "  ")
        self._line()
        meaning = told(explained.error.meaning) if explained.error is not None else unknown(explained)
        self._text(meaning)
        self._line()
        for number, answer in enumerate(explained.answers, 1):
            self._answer(number, answer)
        self._advice()
        for note in (*explained.notes, *repeats(explained)):
            self._text(tell("note: {note}", note=told(note)))

    def _answer(self, number: int, answer: Answer) -> None:
        mark = f"{number}. {certainty(answer)}" if len(self.explained.answers) > 1 else certainty(answer)
        if answer.finding is not None:
            self._line(self.paint(mark, "number"))
            write_one(self.report, Entry(answer.finding, answer.fix), self.stream)
            if command := apply_command(self.explained, answer, self.report):
                self._line(tell("To mend it: {command}", command=command))
                self._line()
        else:
            self._text(f"{mark} {one_line(told(answer.title))}", style="number")
            if answer.place is not None:
                bare = Finding("", "", Severity.INFO, answer.place, "", answer.trail)
                write_places(self.report, bare, self.stream)
            self._line()
        if answer.facts:
            self._line(self.paint(tell("What is known of that line:"), "name"))
            for fact in answer.facts:
                head, *rest = fact.splitlines()
                self._text(plain(head), "  ")
                for line in rest:
                    if line.strip():
                        self._text(plain(line.removeprefix("- ")), "    - ", "      ")
            self._line()
        if answer.note:
            self._text(tell("note: {note}", note=told(answer.note)))
            self._line()

    def _advice(self) -> None:
        explained = self.explained
        if explained.error is not None and explained.error.look and not explained.found:
            self._text(tell("Look at {place}", place=told(explained.error.look)))
            self._line()
        if explained.sure:
            return
        if explained.check:
            self._line(tell("To see it there, put before the line that raises:"))
            self._line(f"    {explained.check}")
        if explained.probe:
            self._line(tell("To watch a run of it:"))
            self._line(f"    {explained.probe}")
        if explained.check or explained.probe:
            self._line()

    def _text(self, text: str, first: str = "", later: str | None = None, style: str = "") -> None:
        for index, line in enumerate(wrap(text, self.report.width, first, later)):
            self._line(self.paint(line, style) if style and index == 0 else line)

    def _line(self, line: str = "") -> None:
        self.stream.write(line.rstrip() + "\n")


def plain(markdown: str) -> str:
    """A fact without the marks of Markdown; names keep their backticks, as in messages."""
    return re.sub(r"\*\*(.+?)\*\*", r"\1", markdown)
