"""Recall and false alarms on a folder of verified cases beside the checkout; skipped with a message where there is none.

A case is `bad/` and `good/` (or `good/` alone: correct code that looks wrong) with `case.toml`, which names the line a
finding must show, as its own place or in its trail. Only errors and warnings count.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from fixture import MemoryFiles

from gradline.check import check
from gradline.findings import Finding
from gradline.project import Project

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/case.toml"))
LEAST = {"yes": 0.95, "hard": 0.70}  # of the cases that a careful reader sees, and of those that take effort

if not FOLDERS:
    pytest.skip(f"no cases at {CASES}", allow_module_level=True)


def findings(program: Path) -> list[tuple[Finding, set[tuple[str, int]]]]:
    """The findings of a program, each with the lines that it shows."""
    memory = MemoryFiles(
        {p.relative_to(program).as_posix(): p.read_text(encoding="utf-8") for p in program.rglob("*.py")}
    )
    project = Project(memory)
    found = []
    for each in check(project, memory.paths()).findings.values():
        for finding in each:
            if finding.severity.fails:
                places = [finding.place, *(step.place for step in finding.trail)]
                found.append((finding, {_line(project, place) for place in places}))
    return found


def _line(project: Project, place: Any) -> tuple[str, int]:
    source = project.source(place.path)
    assert source is not None
    return place.path.removeprefix(f"{MemoryFiles.ROOT}/"), source.position(place.start)[0] + 1


def culprits(folder: Path) -> tuple[str, set[tuple[str, int]]]:
    text = (folder / "case.toml").read_text(encoding="utf-8")
    case = tomllib.loads(text)
    also = re.search(r"^# also defensible: (.+)$", text, re.MULTILINE)
    words = [case["culprit"], *(also[1].split(",") if also else [])]
    places = (word.strip().rpartition(":") for word in words)
    return case.get("static", "yes"), {(name, int(line)) for name, _, line in places}


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_correct_programs_are_silent(folder: Path) -> None:
    said = [f"{finding.name} at {sorted(lines)}: {finding.message}" for finding, lines in findings(folder / "good")]
    assert not said, "\n".join(said)


def test_bugs_are_found() -> None:
    hits: dict[str, list[bool]] = {"yes": [], "hard": []}
    missed = []
    for folder in FOLDERS:
        if not (folder / "bad").is_dir():
            continue
        static, wanted = culprits(folder)
        if static not in hits:
            continue
        hit = any(wanted & lines for _, lines in findings(folder / "bad"))
        hits[static].append(hit)
        if not hit:
            missed.append(folder.name)
    for static, least in LEAST.items():
        share = sum(hits[static]) / len(hits[static])
        assert share >= least, f"{share:.0%} of the cases marked {static}; missed: {missed}"
