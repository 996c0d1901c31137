"""Workflow commands that GitHub Actions turns into annotations on the lines of a pull request."""

from __future__ import annotations

from typing import TextIO

from ..findings import Severity
from . import Report, one_line

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice", Severity.HINT: "notice"}


def write(report: Report, stream: TextIO) -> None:
    for finding, _ in report.entries:
        at = report.location(finding.place)
        cell = f"cell {at.cell}: " if at.cell else ""
        lines = [f"{cell}{finding.code} {one_line(finding.message)}"]
        for number, step in enumerate(finding.trail, 1):
            row = report.location(step.place).row
            lines.append(f"{number}. {report.shown(step.place.path)}:{row}: {one_line(step.note)}")
        properties = {
            "title": f"gradline ({finding.code} {finding.name})",
            "file": report.shown(finding.place.path),
            "line": at.row,
            "endLine": at.end_row,
        }
        if at.row == at.end_row:  # GitHub takes columns of one line only
            properties |= {"col": at.column, "endColumn": at.end_column}
        said = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
        stream.write(f"::{LEVELS[finding.severity]} {said}::{_data(chr(10).join(lines))}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
