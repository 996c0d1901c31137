"""What a rule's page claims, as five checks that raise AssertionError; `test_rules.py` makes the tests of them.

The analyzer is handed in, so that the checks themselves can be tested with one that is wrong on purpose.
"""

from __future__ import annotations

import sys
from typing import Protocol

from fixture import Mark, MemoryFiles, offset_of_line
from rule_page import Example, Program
from rule_run import Runner

from gradline.edits import Applicability, Fix, apply
from gradline.findings import Finding, Place, Severity

ROUNDS = 20  # a page's example holds a handful of findings; more rounds mean that a fix brings its finding back
# What Python itself says, where its oldest version says it otherwise than a page
OF_PYTHON_310 = {
    "TypeError: 'type' object does not support the context manager protocol": "AttributeError: __enter__",
}


class Analyzer(Protocol):
    def findings(self, files: dict[str, str]) -> list[Finding]: ...

    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None: ...


class Gradline:
    """The real analyzer, on files that are held in memory."""

    def findings(self, files: dict[str, str]) -> list[Finding]:
        from gradline.check import check
        from gradline.project import Project

        memory = MemoryFiles(files)
        result = check(Project(memory), memory.paths())
        return [memory.relative(finding) for found in result.findings.values() for finding in found]

    def fix(self, files: dict[str, str], finding: Finding) -> Fix | None:
        from gradline.check import fix
        from gradline.project import Project

        memory = MemoryFiles(files)
        found = fix(Project(memory), memory.absolute(finding))
        return found and found._replace(edits=tuple(memory.relative_edit(edit) for edit in found.edits))


def counts(finding: Finding, rule: str) -> bool:
    """Whether a page must speak of this finding: what fails a check, and whatever its own rule says."""
    return finding.severity.fails or finding.name == rule


def says_the_marks(program: Program, rule: str, analyzer: Analyzer) -> None:
    """1. Exactly the marked findings, with exactly the marked trails."""
    files = program.clean()
    marks = [mark for marked in program.marked().values() for mark in marked.marks]
    found = [finding for finding in analyzer.findings(files) if counts(finding, rule)]
    kinds = {severity.value for severity in Severity}
    wanted = [mark for mark in marks if mark.kind in kinds]
    missed = [mark for mark in wanted if not any(_is(finding, mark, files) for finding in found)]
    invented = [finding for finding in found if not any(_is(finding, mark, files) for mark in wanted)]
    begun = [mark for mark in marks if mark.kind == "missing" and any(_on(finding, mark, files) for finding in found)]
    steps = [step for finding in found for step in finding.trail]
    because = [mark for mark in marks if mark.kind == "because"]
    unsaid = [m for m in because if not any(_covers(s.place, m, files) and m.words in s.note for s in steps)]
    unmarked = [s for s in steps if not any(_covers(s.place, m, files) and m.words in s.note for m in because)]
    complaints = [
        *(f"missed    {mark}" for mark in missed),
        *(f"invented  {_show(finding, files)}" for finding in invented),
        *(f"unsaid    {mark}" for mark in unsaid),
        *(f"unmarked  {_where(step.place, files)}: because: {step.note}" for step in unmarked),
        *(f"no longer missing, take the mark away: {mark}" for mark in begun),
    ]
    assert not complaints, "\n".join(complaints)


def behaves_as_told(example: Example, runner: Runner) -> None:
    """2. The wrong program raises that error at a marked line, or shows what `observe` states."""
    outcome = runner.run(example.wrong.clean(), example.observe)
    if example.raises:
        raises = example.raises if sys.version_info >= (3, 11) else OF_PYTHON_310.get(example.raises, example.raises)
        assert outcome.error.startswith(raises), f"raises {outcome.error or 'nothing'!r}\n{outcome.printed}"
        marks = [mark for marked in example.wrong.marked().values() for mark in marked.marks]
        lines = {(mark.path, mark.line) for mark in marks if mark.kind == "raises"}
        lines = lines or {(mark.path, mark.line) for mark in marks if mark.rule}
        assert outcome.at in lines, f"raises at {outcome.at}, and the marks are at {sorted(lines)}"
    else:
        assert not outcome.error, f"raises {outcome.error} at {outcome.at}"
    assert not outcome.observe, outcome.observe


def is_mended(example: Example, rule: str, analyzer: Analyzer) -> None:
    """3. The fixes make *Right* of *Wrong*, character for character, and then there is nothing more to fix."""
    allowed = example.right.info.get("fix", "safe")
    files = example.wrong.clean()
    for _ in range(ROUNDS):
        fix = _next_fix(files, rule, analyzer)
        if fix is None:
            break
        assert allowed != "none", f"the page says that there is no fix, and gradline offers: {fix.message}"
        assert allowed == "unsafe" or fix.applicability is Applicability.SAFE, f"not safe: {fix.message}"
        for path in {edit.path for edit in fix.edits}:
            files[path] = apply(files[path], [edit for edit in fix.edits if edit.path == path])
    else:
        raise AssertionError(f"after {ROUNDS} rounds there is still something to fix")
    right = example.wrong.clean() if allowed == "none" else example.right_files()
    for path, text in right.items():
        assert files[path] == text, f"{path} is now\n{files[path]}\nand Right says\n{text}"


def _next_fix(files: dict[str, str], rule: str, analyzer: Analyzer) -> Fix | None:
    found = [finding for finding in analyzer.findings(files) if counts(finding, rule)]
    fixes = (analyzer.fix(files, finding) for finding in found)
    return next((fix for fix in fixes if fix and fix.applicability is not Applicability.DISPLAY), None)


def runs_and_trains(example: Example, runner: Runner) -> None:
    """4. The right program runs, and each weight under `trains` gets a gradient and moves."""
    outcome = runner.run(example.right_files(), trains=example.trains)
    assert not outcome.error, f"raises {outcome.error} at {outcome.at}\n{outcome.printed}"
    assert example.trains, "no trains fence"
    assert not outcome.trains, outcome.trains


def is_silent(files: dict[str, str], rule: str, analyzer: Analyzer) -> None:
    """5. Not a word about a correct program."""
    found = [finding for finding in analyzer.findings(files) if counts(finding, rule)]
    assert not found, "\n".join(_show(finding, files) for finding in found)


def _is(finding: Finding, mark: Mark, files: dict[str, str]) -> bool:
    same = finding.name == mark.rule and finding.severity.value == mark.kind
    return same and _covers(finding.place, mark, files)


def _on(finding: Finding, mark: Mark, files: dict[str, str]) -> bool:
    return finding.name == mark.rule and _covers(finding.place, mark, files)


def _covers(place: Place, mark: Mark, files: dict[str, str]) -> bool:
    if place.path != mark.path or place.path not in files:
        return False
    text = files[place.path]
    start = offset_of_line(text, mark.line)
    if not start <= place.start <= start + len(text[start:].split("\n", 1)[0]):
        return False
    return not mark.text or text[place.start : place.end].split("\n")[0] == mark.text


def _where(place: Place, files: dict[str, str]) -> str:
    text = files.get(place.path, "")
    return f'{place.path}:{text.count(chr(10), 0, place.start) + 1} at "{text[place.start : place.end]}"'


def _show(finding: Finding, files: dict[str, str]) -> str:
    return f"{_where(finding.place, files)}: {finding.severity.value}: [{finding.name}] {finding.message}"
