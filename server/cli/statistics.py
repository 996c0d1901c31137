"""`--statistics`: how many findings of each rule there are, the most first."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from ..report import counted

if TYPE_CHECKING:
    from ..report import Report


def write(report: Report, stream: TextIO, as_json: bool) -> None:
    counts = Counter((entry.finding.code, entry.finding.name) for entry in report.entries)
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    if as_json:
        json.dump([{"code": code, "name": name, "count": count} for (code, name), count in rows], stream, indent=2)
        stream.write("\n")
        return
    if report.fixed and report.summary:
        stream.write(f"Fixed {counted(report.fixed, 'finding')}.\n")
    width = max((len(str(count)) for _, count in rows), default=0)
    for (code, name), count in rows:
        stream.write(f"{count:>{width}}  {code}  {name}\n")
