"""One line per finding: `train.py:31:5: GL202 [*] message`. `[*]`: `--fix` mends it."""

from __future__ import annotations

from typing import TextIO

from ..messages import told
from . import Report, one_line
from .full import summary
from .terminal import Painter


def write(report: Report, stream: TextIO) -> None:
    from ..edits import Applicability

    paint = Painter(report.color)
    for entry in report.entries:
        finding = entry.finding
        location = report.location(finding.place)
        cell = f"cell {location.cell}:" if location.cell else ""
        place = f"{report.shown(finding.place.path)}:{cell}{location.row}:{location.column}:"
        mark = " [*]" if report.applies(entry, Applicability.SAFE) else ""
        code = paint(finding.code, finding.severity.value)
        stream.write(f"{paint(place, 'place')} {code}{paint(mark, 'fix')} {one_line(told(finding.message))}\n")
    summary(report, stream)
