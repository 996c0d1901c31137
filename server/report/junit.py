"""JUnit's XML: a suite per file, a failing case per finding, a passing one for a file without any.

There is no standard; this keeps to what Jenkins' schema (junit-10.xsd), the strictest reader, lets pass.
Advice is left out: in a test report a case either passes or fails.
"""

from __future__ import annotations

import re
from typing import TextIO
from xml.etree import ElementTree

from . import Report

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(report: Report, stream: TextIO) -> None:
    by_file: dict[str, list] = {path: [] for path in report.checked}
    for entry in report.entries:
        if entry.finding.severity.fails:
            by_file.setdefault(entry.finding.place.path, []).append(entry.finding)
    tests = sum(max(len(found), 1) for found in by_file.values())
    failures = sum(len(found) for found in by_file.values())
    root = ElementTree.Element("testsuites", name="gradline", tests=str(tests), failures=str(failures), errors="0")
    for path, found in by_file.items():
        name = _clean(report.name(path))
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(max(len(found), 1)),
            failures=str(len(found)),
            errors="0",
            skipped="0",
            package="gradline",
        )
        if not found:
            ElementTree.SubElement(suite, "testcase", name="no findings", classname=name)
        for finding in found:
            at = report.location(finding.place)
            cell = f"cell {at.cell}:" if at.cell else ""
            case = ElementTree.SubElement(
                suite,
                "testcase",
                # with the place, as two cases of one name are one to most readers; `line` is no attribute of a test case
                name=f"{finding.code} {finding.name} at {cell}{at.row}:{at.column}",
                classname=name,
            )
            failure = ElementTree.SubElement(
                case, "failure", message=_clean(finding.message), type=finding.severity.value
            )
            lines = [f"{report.name(path)}:{cell}{at.row}:{at.column}: {finding.message}"]
            for number, step in enumerate(finding.trail, 1):
                row = report.location(step.place).row
                lines.append(f"{number}. {report.name(step.place.path)}:{row}: {step.note}")
            failure.text = _clean("\n".join(lines))
    ElementTree.indent(root)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(ElementTree.tostring(root, encoding="unicode") + "\n")


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
