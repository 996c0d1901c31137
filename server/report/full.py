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

from typing import TYPE_CHECKING, TextIO

from ..findings import Finding, Place
from ..text import Source
from . import Entry, Report, counted, one_line
from .changes import part_at
from .terminal import Painter, cells, shown, wrap

if TYPE_CHECKING:
    from ..edits import Edit, Fix

CONTEXT = 2  # lines shown before and after the place of the finding itself, as ruff does
SPAN_LINES = 6  # of a place that is longer, the first and the last lines are shown
DIFF_LINES = 16  # of a fix that is longer, `--diff` shows the rest


def write(report: Report, stream: TextIO) -> None:
    home: dict[tuple[Edit, ...], Finding] = {}  # the finding with which a fix is shown that several have
    for finding, fix in report.entries:
        if fix is not None and (fix.edits not in home or _at_home(fix, finding) > _at_home(fix, home[fix.edits])):
            home[fix.edits] = finding
    for entry in report.entries:
        shows_fix = entry.fix is not None and home[entry.fix.edits] is entry.finding
        _Writer(report, entry, stream, shows_fix).write()
    summary(report, stream)


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
        head = f"{level}[{finding.code}] {finding.name}: {one_line(finding.message)}"
        lines = wrap(head, self.report.width, later="  ")
        start = f"{level}[{finding.code}]"
        lines[0] = self.paint(start, level) + self.paint(lines[0][len(start) :], "name")
        self._lines([lines[0], *(self.paint(line, "name") for line in lines[1:])])
        self._place(finding.place)
        self._snippet(finding.place, "^", level, CONTEXT)
        for number, step in enumerate(finding.trail, 1):
            mark = f"{number:>{self.gutter}}:"
            note = wrap(one_line(step.note), self.report.width, " " * (self.gutter + 2))
            note[0] = self.paint(mark, "number") + note[0][self.gutter + 1 :]
            self._lines(note)
            self._place(step.place)
            self._snippet(step.place, "-", "note", 0)
        self._help()
        self.stream.write("\n")

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
            note = {
                "safe": "`--fix` does it",
                "unsafe": "`--unsafe-fixes` does it; look at the result",
                "display-only": "to be done by hand",
            }[self.fix.applicability.value]
            if self.fix.applicability.value != "display-only" and (others := self.report.elsewhere(self.fix)):
                # nothing but what was asked for is changed
                note += f", if you also name {', '.join(map(self.report.shown, others))}"
            text = f"{one_line(self.fix.message)} ({note})"
            lines = wrap(text, self.report.width, f"{indent} = help: ", f"{indent}   ")
            lines[0] = lines[0].replace("help:", self.paint("help:", "fix"), 1)
            self._lines(lines)
            if self.shows_fix:
                self._diff()
        more = f"more: gradline explain {self.finding.name}"
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
                    if tag != "equal":
                        out += [(str(line + 1), "-", before_lines[line], "remove") for line in range(a, b)]
                        out += [(str(line + 1), "+", after_lines[line], "add") for line in range(c, d)]
            room = max(self.report.width - self.gutter - 6, 20)
            if path != self.finding.place.path:
                self._place(Place(path, self.fix.edits[0].start, self.fix.edits[0].end))
            self._lines([self._bar()])
            for number, sign, text, style in out[:DIFF_LINES]:
                visible, _ = _fit(text, 0, room)
                self._lines(
                    [f"{self.paint(f'{number:>{self.gutter}}', 'gutter')} {self.paint(f'{sign} {visible}', style)}"]
                )
            if len(out) > DIFF_LINES:
                self._lines([f"{self._bar()} … {len(out) - DIFF_LINES} more lines (`--diff` shows them)"])


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


def summary(report: Report, stream: TextIO) -> None:
    """The last lines: how much was found, what `--fix` would mend, and that not everything could be followed."""
    if not report.summary:
        return
    paint = Painter(report.color)
    if report.fixed:
        stream.write(f"Fixed {counted(report.fixed, 'finding')}.\n")
    if report.entries:
        _counts(report, stream, paint)
    elif report.complete and report.checked:  # of files that could not be read the errors tell
        stream.write(paint("All checks passed!", "good") + "\n")
    if report.notes:
        what = counted(report.notes, "program or function", "programs or functions")
        stream.write(paint(f"Too large to be followed to the end: {what} (`-v` says which).", "dim") + "\n")


def _counts(report: Report, stream: TextIO, paint: Painter) -> None:
    from ..edits import Applicability

    names = {
        "error": ("error",),
        "warning": ("warning",),
        "info": ("piece of advice", "pieces of advice"),
        "hint": ("hint",),
    }
    said = [counted(count, *names[severity.value]) for severity, count in report.counts().items()]
    files = len({entry.finding.place.path for entry in report.entries})
    stream.write(f"Found {' and '.join(said)} in {counted(files, 'file')}.\n")
    safe = sum(report.applies(entry, Applicability.SAFE) for entry in report.entries)
    unsafe = sum(report.applies(entry, Applicability.UNSAFE) for entry in report.entries)
    if safe:
        more = f" ({unsafe} more with `--unsafe-fixes`)" if unsafe else ""
        stream.write(f"[{paint('*', 'fix')}] {safe} fixable with the `--fix` option{more}.\n")
    elif unsafe:
        stream.write(f"{unsafe} fixable with `--fix --unsafe-fixes`.\n")
