"""GitLab's code quality report, which shows findings in a merge request."""

from __future__ import annotations

import json
from typing import TextIO

from ..findings import Severity
from . import Report
from .sarif import fingerprint

LEVELS = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info", Severity.HINT: "info"}


def write(report: Report, stream: TextIO) -> None:
    records: list[dict[str, object]] = []
    for entry in report.entries:
        finding = entry.finding
        at = report.location(finding.place)
        records.append(
            {
                "description": f"{finding.code} {finding.message}",
                "check_name": finding.name,
                "fingerprint": fingerprint(report, entry),
                "severity": LEVELS[finding.severity],
                "location": {
                    "path": report.name(finding.place.path),
                    "positions": {
                        "begin": {"line": at.row, "column": at.column},
                        "end": {"line": at.end_row, "column": at.end_column},
                    },
                },
            }
        )
    json.dump(records, stream, indent=2, ensure_ascii=False)
    stream.write("\n")
