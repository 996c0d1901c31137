"""Findings for people: the message, the source lines with the place marked, the trail to the origin, and the fix.

error[GL202] backward-under-grad-off: `loss.backward()` runs while grad mode is off
  --> train.py:31:5
   |
31 |     loss.backward()
   |     ^^^^^^^^^^^^^^^
   |
   1  importing `utils` runs `utils/__init__.py`
  --> train.py:4:1
   |
 4 | import utils
   | ------------
   = help: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from ..findings import Finding, Place, Severity
from ..messages import joined, say, tell, told
from ..text import Source
from . import Entry, Report, one_line
from .changes import part_at
from .terminal import Painter, cells, shown, wrap

if TYPE_CHECKING:
    from ..edits import Edit, Fix

CONTEXT = 2  # lines shown before and after the place of the finding itself, as ruff does
SPAN_LINES = 6  # of a place that is longer, the first and the last lines are shown
DIFF_LINES = 16  # of a fix that is longer, `--diff` shows the rest


LEVELS = {
    Severity.ERROR: say("error"),
    Severity.WARNING: say("warning"),
    Severity.INFO: say("info"),
    Severity.HINT: say("hint"),
}
COUNTED: dict[Severity, Callable[[int], str]] = {
    Severity.ERROR: lambda n: say("1 error") if n == 1 else say("{n} errors", n=n),
    Severity.WARNING: lambda n: say("1 warning") if n == 1 else say("{n} warnings", n=n),
    Severity.INFO: lambda n: say("1 piece of advice") if n == 1 else say("{n} pieces of advice", n=n),
    Severity.HINT: lambda n: say("1 hint") if n == 1 else say("{n} hints", n=n),
}
HOW = {
    "safe": say("`--fix` does it"),
    "unsafe": say("`--unsafe-fixes` does it; look at the result"),
    "display-only": say("to be done by hand"),
}


def write(report: Report, stream: TextIO) -> None:
    home: dict[tuple[Edit, ...], Finding] = {}  # the finding with which a fix is shown that several have
    for finding, fix in report.entries:
        if fix is not None and (fix.edits not in home or _at_home(fix, finding) > _at_home(fix, home[fix.edits])):
            home[fix.edits] = finding
    for entry in report.entries:
        shows_fix = entry.fix is not None and home[entry.fix.edits] is entry.finding
        _Writer(report, entry, stream, shows_fix).write()
    summary(report, stream)


def write_one(report: Report, entry: Entry, stream: TextIO) -> None:
    """One finding with its fix, as `write` has it."""
    _Writer(report, entry, stream, entry.fix is not None).write()


def write_places(report: Report, finding: Finding, stream: TextIO) -> None:
    """Of one finding the place and the trail alone."""
    _Writer(report, Entry(finding), stream, False).places()


def _at_home(fix: Fix, finding: Finding) -> bool:
    return any(edit.path == finding.place.path for edit in fix.edits)


class _Writer:
    """Writes one finding. All its parts share a gutter as wide as the largest line number among them."""

    def __init__(self, report: Report, entry: Entry, stream: TextIO, shows_fix: bool) -> None:
        self.report = report
        self.finding, self.fix = entry
        self.stream = stream
        self.shows_fix = shows_fix
        self.paint = Painter(report.color)
        places = [self.finding.place, *(step.place for step in self.finding.trail)]
        self.gutter = max(len(str(self._last_line(place) + CONTEXT)) for place in places)

    def write(self) -> None:
        finding = self.finding
        level = finding.severity.value
        start = f"{told(LEVELS[finding.severity])}[{finding.code}]"
        head = f"{start} {finding.name}: {one_line(told(finding.message))}"
        lines = wrap(head, self.report.width, later="  ")
        lines[0] = self.paint(start, level) + self.paint(lines[0][len(start) :], "name")
        self._lines([lines[0], *(self.paint(line, "name") for line in lines[1:])])
        self.places()
        self._help()
        self.stream.write("\n")

    def places(self) -> None:
        finding = self.finding
        self._place(finding.place)
        self._snippet(finding.place, "^", finding.severity.value, CONTEXT)
        for number, step in enumerate(finding.trail, 1):
            mark = f"{number:>{self.gutter}}:"
            note = wrap(one_line(told(step.note)), self.report.width, " " * (self.gutter + 2))
            note[0] = self.paint(mark, "number") + note[0][self.gutter + 1 :]
            self._lines(note)
            self._place(step.place)
            self._snippet(step.place, "-", "note", 0)

    def _lines(self, lines: list[str]) -> None:
        self.stream.writelines(line.rstrip() + "\n" for line in lines)

    def _bar(self, number: str = "") -> str:
        return self.paint(f"{number:>{self.gutter}} |", "gutter")

    def _last_line(self, place: Place) -> int:
        location = self.report.location(place)
        return location.end_row

    def _place(self, place: Place) -> None:
        location = self.report.location(place)
        cell = f"cell {location.cell}:" if location.cell else ""
        where = f"{self.report.shown(place.path)}:{cell}{location.row}:{location.column}"
        self._lines([" " * self.gutter + self.paint("-->", "gutter") + " " + where])

    def _snippet(self, place: Place, mark: str, style: str, context: int) -> None:
        whole = self.report.source(place.path)
        if whole is None:
            return
        source, offset, _ = part_at(whole, place.start)
        first, start = source.position(place.start - offset)
        last, end = source.position(max(place.end - 1, place.start) - offset)
        end += 1
        self._lines([self._bar()])
        for line in range(max(first - context, 0), first):
            self._source_line(source, line)
        skipped = False
        for line in range(first, last + 1):
            if last - first >= SPAN_LINES and first + 2 <= line < last - 1:
                if not skipped:
                    self._lines([self.paint("." * self.gutter, "gutter")])
                    skipped = True
                continue
            text = source.line_text(line)
            from_ = start if line == first else len(text) - len(text.lstrip())
            to = end if line == last else len(text.rstrip())
            window = self._source_line(source, line, focus=from_)
            self._marks(text, from_, max(to, from_ + 1), window, mark, style)
        for line in range(last + 1, min(last + 1 + context, len(source.line_starts))):
            self._source_line(source, line)
        self._lines([self._bar()])

    def _source_line(self, source: Source, line: int, focus: int | None = None) -> tuple[int, int]:
        """Writes a line, cut to the width around the column `focus`; returns the columns that are shown, from and to."""
        text = source.line_text(line)
        room = max(self.report.width - self.gutter - 4, 20)
        start = 0
        if focus is not None and cells(_shown(text[: focus + 20])) > room:
            start = max(focus - room // 4, 0)
        visible, end = _fit(text, start, room - (start > 0))
        before = "…" if start else ""
        self._lines([f"{self._bar(str(line + 1))} {before}{visible}"])
        return start, end

    def _marks(self, text: str, start: int, end: int, window: tuple[int, int], mark: str, style: str) -> None:
        lead = cells(_shown(text[window[0] : start])) + (1 if window[0] else 0)
        length = max(cells(_shown(text[start : min(end, window[1])])), 1)
        self._lines([f"{self._bar()} {' ' * lead}{self.paint(mark * length, style)}"])

    def _help(self) -> None:
        indent = " " * self.gutter
        if self.fix is not None:
            note = HOW[self.fix.applicability.value]
            if self.fix.applicability.value != "display-only" and (others := self.report.elsewhere(self.fix)):
                # nothing but what was asked for is changed
                note = say("{how}, if you also name {files}", how=note, files=", ".join(map(self.report.shown, others)))
            text = tell("{fix} ({note})", fix=one_line(told(self.fix.message)), note=note)
            mark = tell("help:")
            lines = wrap(text, self.report.width, f"{indent} = {mark} ", f"{indent}   ")
            lines[0] = lines[0].replace(mark, self.paint(mark, "fix"), 1)
            self._lines(lines)
            if self.shows_fix:
                self._diff()
        more = tell("more: {command}", command=f"gradline explain {self.finding.name}")
        self._lines([f"{indent} = {self.paint(more, 'dim')}"])

    def _diff(self) -> None:
        """The lines that the fix takes away and puts there."""
        import difflib

        from .changes import applied, changed

        assert self.fix is not None
        for path in dict.fromkeys(edit.path for edit in self.fix.edits):
            source = self.report.source(path)
            if source is None:
                continue
            after = applied(source, [edit for edit in self.fix.edits if edit.path == path])
            out = []
            for old, new in changed(source, after):
                before_lines, after_lines = _lines_of(old.source), _lines_of(new.source)
                matcher = difflib.SequenceMatcher(None, before_lines, after_lines, autojunk=False)
                for tag, a, b, c, d in matcher.get_opcodes():
                    if tag == "equal":
                        out += [("." * self.gutter, "", "", "gutter")] if out and b < len(before_lines) else []
                    else:
                        out += [(str(line + 1), "-", before_lines[line], "remove") for line in range(a, b)]
                        out += [(str(line + 1), "+", after_lines[line], "add") for line in range(c, d)]
            room = max(self.report.width - self.gutter - 6, 20)
            if path != self.finding.place.path:
                self._place(Place(path, self.fix.edits[0].start, self.fix.edits[0].end))
            self._lines([self._bar()])
            for number, sign, text, style in out[:DIFF_LINES]:
                if not sign:  # lines that stay lie between
                    self._lines([self.paint(number, style)])
                    continue
                visible, _ = _fit(text, 0, room)
                self._lines(
                    [f"{self.paint(f'{number:>{self.gutter}}', 'gutter')} {self.paint(f'{sign} {visible}', style)}"]
                )
            if len(out) > DIFF_LINES:
                self._lines(
                    [
                        f"{self._bar()} … {tell('{n} more lines (`--diff` shows them)', n=sum(bool(sign) for _, sign, *_ in out[DIFF_LINES:]))}"
                    ]
                )


def _shown(text: str) -> str:
    return "".join(shown(char) for char in text)


def _fit(text: str, start: int, room: int) -> tuple[str, int]:
    """What of `text` from `start` on can be shown in `room` columns, with a mark if it is not all, and its end."""
    visible = _shown(text[start : start + room + 1])
    if len(text) <= start + room and cells(visible) <= room:
        return visible, len(text)
    end, width = start, 0
    while end < len(text) and (width := width + cells(shown(text[end]))) < room:
        end += 1
    return _shown(text[start:end]) + "…", end


def _lines_of(source: Source) -> list[str]:
    return [source.line_text(line) for line in range(len(source.line_starts))]


def findings(number: int) -> str:
    """`1 finding`, `2 findings`, as a text."""
    return say("1 finding") if number == 1 else say("{n} findings", n=number)


def summary(report: Report, stream: TextIO) -> None:
    """The last lines: how much was found, what `--fix` would mend, and that not everything could be followed."""
    if not report.summary:
        return
    paint = Painter(report.color)
    if report.fixed:
        stream.write(tell("Fixed {findings}.", findings=findings(report.fixed)) + "\n")
    if report.entries:
        _counts(report, stream, paint)
    elif report.complete and report.checked:  # of files that could not be read the errors tell
        stream.write(paint(tell("All checks passed!"), "good") + "\n")
    if report.notes:
        what = say("1 program or function")
        if report.notes > 1:
            what = say("{n} programs or functions", n=report.notes)
        said = tell("Too large to be followed to the end: {what} (`-v` says which).", what=what)
        stream.write(paint(said, "dim") + "\n")


def _counts(report: Report, stream: TextIO, paint: Painter) -> None:
    from ..edits import Applicability

    said = joined([COUNTED[severity](count) for severity, count in report.counts().items()], "{first} and {rest}")
    files = len({entry.finding.place.path for entry in report.entries})
    where = say("1 file") if files == 1 else say("{n} files", n=files)
    stream.write(tell("Found {findings} in {files}.", findings=said, files=where) + "\n")
    safe = sum(report.applies(entry, Applicability.SAFE) for entry in report.entries)
    unsafe = sum(report.applies(entry, Applicability.UNSAFE) for entry in report.entries)
    if safe:
        more = tell(" ({n} more with `--unsafe-fixes`)", n=unsafe) if unsafe else ""
        star = paint("*", "fix")
        stream.write(tell("[{star}] {n} fixable with the `--fix` option{more}.", star=star, n=safe, more=more) + "\n")
    elif unsafe:
        stream.write(tell("{n} fixable with `--fix --unsafe-fixes`.", n=unsafe) + "\n")
