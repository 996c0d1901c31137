"""SARIF 2.1.0, for code scanning. The trail is a code flow, which SARIF orders as the program runs: origin first."""

from __future__ import annotations

import json
from typing import Any, TextIO

from .. import __version__
from ..findings import Place, Severity
from ..paths import quoted, uri_of
from . import Entry, Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note", Severity.HINT: "note"}
ROOT = "%SRCROOT%"


def write(report: Report, stream: TextIO) -> None:
    codes = sorted({entry.finding.code for entry in report.entries})
    driver: dict[str, Any] = {"name": "gradline", "version": __version__}
    driver["rules"] = [_rule(report, code) for code in codes]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": uri_of(report.base.rstrip("/") + "/")}},
        "results": [_result(report, entry, codes) for entry in report.entries],
    }
    json.dump({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, stream, indent=2, ensure_ascii=False)
    stream.write("\n")


def _rule(report: Report, code: str) -> dict[str, Any]:
    rule = report.rules.get(code)
    if rule is None:
        return {"id": code}
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.summary or rule.name},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _result(report: Report, entry: Entry, codes: list[str]) -> dict[str, Any]:
    finding, fix = entry
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [_location(report, finding.place)],
        "partialFingerprints": {"gradline/v1": fingerprint(report, entry)},
    }
    if finding.trail:
        result["relatedLocations"] = [
            {"id": number, **_location(report, step.place), "message": {"text": step.note}}
            for number, step in enumerate(finding.trail, 1)
        ]
        steps = [(step.place, step.note) for step in reversed(finding.trail)]
        steps.append((finding.place, finding.message))
        flow = [{"location": {**_location(report, place), "message": {"text": note}}} for place, note in steps]
        result["codeFlows"] = [{"threadFlows": [{"locations": flow}]}]
    if fix is not None and fix.edits:
        paths = dict.fromkeys(edit.path for edit in fix.edits)
        result["fixes"] = [
            {
                "description": {"text": fix.message},
                "artifactChanges": [
                    {
                        "artifactLocation": _artifact(report, path),
                        "replacements": [
                            {
                                "deletedRegion": _region(report, Place(edit.path, edit.start, edit.end)),
                                "insertedContent": {"text": edit.content},
                            }
                            for edit in fix.edits
                            if edit.path == path
                        ],
                    }
                    for path in paths
                ],
            }
        ]
    return result


def fingerprint(report: Report, entry: Entry) -> str:
    """A name for the finding that stays when lines move: of its rule, file and source line."""
    import hashlib

    finding = entry.finding
    source = report.source(finding.place.path)
    line = source.line_text(source.position(finding.place.start)[0]).strip() if source else ""
    twins = 0  # findings with the same rule, file and line text before this one
    for other in report.entries:
        if other.finding is finding:
            break
        if (other.finding.code, other.finding.place.path) == (finding.code, finding.place.path) and source:
            twins += source.line_text(source.position(other.finding.place.start)[0]).strip() == line
    key = "\0".join((finding.code, report.name(finding.place.path), line, str(twins)))
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _location(report: Report, place: Place) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(report, place.path), "region": _region(report, place)}}


def _artifact(report: Report, path: str) -> dict[str, str]:
    name = report.name(path)
    return {"uri": uri_of(path)} if name == path else {"uri": quoted(name), "uriBaseId": ROOT}


def _region(report: Report, place: Place) -> dict[str, int]:
    location = report.location(place)
    return {
        "startLine": location.row,
        "startColumn": location.column,
        "endLine": location.end_row,
        "endColumn": location.end_column,
    }
