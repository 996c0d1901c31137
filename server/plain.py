"""Findings, fixes and analyses as plain values (tuples, strings, numbers), which `marshal` can write.

For the disk (`cache.py`) and for other processes (`jobs.py`). Texts keep what they were made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .check import Analysis
from .findings import Finding, Place, Severity, Step
from .messages import packed, unpacked

if TYPE_CHECKING:
    from .edits import Fix

Plain = Any


def of_finding(finding: Finding) -> Plain:
    return (
        *finding[:2],
        finding.severity.value,
        tuple(finding.place),
        packed(finding.message),
        tuple((tuple(step.place), packed(step.note)) for step in finding.trail),
        *finding[6:],
    )


def to_finding(values: Plain) -> Finding:
    code, name, severity, place, message, trail, *rest = values
    steps = tuple(Step(Place(*where), unpacked(note)) for where, note in trail)
    return Finding(code, name, Severity(severity), Place(*place), unpacked(message), steps, *rest)


def of_findings(findings: tuple[Finding, ...]) -> Plain:
    return tuple(of_finding(finding) for finding in findings)


def to_findings(values: Plain) -> tuple[Finding, ...]:
    return tuple(to_finding(each) for each in values)


def of_analysis(analysis: Analysis) -> Plain:
    return of_findings(analysis.findings), tuple(analysis.notes), tuple(sorted(analysis.reads))


def to_analysis(values: Plain) -> Analysis:
    findings, notes, reads = values
    return Analysis(to_findings(findings), notes, frozenset(reads))


def of_fix(fix: Fix | None) -> Plain:
    if fix is None:
        return None
    return packed(fix.message), fix.applicability.value, tuple(tuple(edit) for edit in fix.edits)


def to_fix(values: Plain) -> Fix | None:
    if values is None:
        return None
    from .edits import Applicability, Edit, Fix

    message, applicability, edits = values
    return Fix(unpacked(message), Applicability(applicability), tuple(Edit(*edit) for edit in edits))
