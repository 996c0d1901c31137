"""A list of objects, one per finding, in the shape of ruff's JSON with the trail added as `related`."""

from __future__ import annotations

import json
from typing import Any, TextIO

from ..findings import Place
from . import Entry, Report


def write(report: Report, stream: TextIO) -> None:
    json.dump([record(report, entry) for entry in report.entries], stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def record(report: Report, entry: Entry) -> dict[str, Any]:
    """One finding as it is written, of plain values."""
    finding, fix = entry
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "filename": finding.place.path,
        **_span(report, finding.place),
        "cell": report.location(finding.place).cell,
        "related": [
            {
                "filename": step.place.path,
                **_span(report, step.place),
                **_cell(report, step.place),
                "message": step.note,
            }
            for step in finding.trail
        ],
        "fix": None
        if fix is None
        else {
            "applicability": fix.applicability.value,
            "message": fix.message,
            "edits": [
                {
                    "content": edit.content,
                    **_span(report, Place(edit.path, edit.start, edit.end)),
                    # an edit is of the finding's own file and cell unless it says otherwise
                    **({"filename": edit.path} if edit.path != finding.place.path else {}),
                    **_cell(report, Place(edit.path, edit.start, edit.end)),
                }
                for edit in fix.edits
            ],
        },
        "url": report.url(finding),
    }


def _span(report: Report, place: Place) -> dict[str, dict[str, int]]:
    location = report.location(place)
    return {
        "location": {"row": location.row, "column": location.column},
        "end_location": {"row": location.end_row, "column": location.end_column},
    }


def _cell(report: Report, place: Place) -> dict[str, int]:
    cell = report.location(place).cell
    return {"cell": cell} if cell is not None else {}
