"""One line per finding: `train.py:31:5: GL202 [*] message`. `[*]`: `--fix` mends it."""

from __future__ import annotations

from typing import TextIO

from . import Report, one_line
from .full import summary
from .terminal import Painter


def write(report: Report, stream: TextIO) -> None:
    from ..edits import Applicability

    paint = Painter(report.color)
    for finding, fix in report.entries:
        location = report.location(finding.place)
        cell = f"cell {location.cell}:" if location.cell else ""
        place = f"{report.name(finding.place.path)}:{cell}{location.row}:{location.column}:"
        mark = " [*]" if fix and fix.applicability is Applicability.SAFE else ""
        code = paint(finding.code, finding.severity.value)
        stream.write(f"{paint(place, 'place')} {code}{paint(mark, 'fix')} {one_line(finding.message)}\n")
    summary(report, stream)
