"""What the tools do: the engine's answers as text for an assistant to read, and as records for it to use."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..disk import ENVIRONMENTS, normal, root_above
from ..messages import ENGLISH
from ..report import Entry, Report, here
from ..report import full as full_report
from ..report.json import record
from ..text import Source
from ..workspace import Workspace

FINDINGS_LIMIT = 40  # of more, the first are told and the others counted: an assistant's memory is short
OUTPUT_LIMIT = 4000  # characters of a program's own output, of which the end is kept
WIDTH = 100
GRACE = 60  # seconds beyond a probe's own limit, in which it ends the program and writes its report


class Refused(Exception):
    """The tool cannot do what it was asked to; the message says why, and what would be possible."""


def check(paths: Sequence[str], doubtful: bool = False) -> tuple[str, list[dict[str, Any]]]:
    """The findings in these files and folders, as a report and as the records of `--output-format json`.

    Raises Refused if one of them does not exist or settings can't be used.
    """
    with _usable_settings():
        workspace = _workspace(paths)
        return _checked(workspace, workspace.disk.discover(list(paths)), doubtful)


def check_edited(paths: Sequence[str]) -> tuple[str, list[dict[str, Any]]]:
    """The same, of files that somebody has just edited: errors and warnings alone, and none where settings exclude it."""
    with _usable_settings():
        workspace = _workspace(paths)
        return _checked(workspace, workspace.disk.discover(list(paths), True), False, advice=False)


def check_text(text: str, filename: str, doubtful: bool = False) -> tuple[str, list[dict[str, Any]]]:
    """The same for a text that is, or is to be, the contents of the file `filename`, whatever that holds now."""
    path = normal(filename)
    with _usable_settings():
        workspace = _workspace([path])
        workspace.project.update(path, Source(text, path))
        return _checked(workspace, [path], doubtful)


@contextlib.contextmanager
def _usable_settings() -> Iterator[None]:
    from ..config import ConfigError

    try:
        yield
    except ConfigError as error:
        raise Refused(str(error)) from error


def _workspace(paths: Sequence[str]) -> Workspace:
    roots: list[str] = []
    for path in map(normal, (*paths, ".")):
        if not any(f"{path}/".startswith(f"{root.rstrip('/')}/") for root in roots):
            roots.append(root_above(path if os.path.isdir(path) else path.rpartition("/")[0] or "/"))
    return Workspace(roots)


def _checked(
    workspace: Workspace, paths: list[str], doubtful: bool, advice: bool = True
) -> tuple[str, list[dict[str, Any]]]:
    from ..config import catalog

    checked = workspace.check(paths, doubtful)
    problems = [f"{problem.path} {problem.message}" for problem in workspace.disk.problems]
    if any(problem.fatal for problem in workspace.disk.problems):
        raise Refused("; ".join(problems))
    found = [finding for path in paths for finding in checked.findings.get(path, ())]
    findings = [finding for finding in found if advice or finding.severity.fails]
    shown = findings[:FINDINGS_LIMIT]
    report = Report(
        entries=[Entry(finding, workspace.fix(finding)) for finding in shown],
        source=workspace.source,
        rules=catalog(),
        base=here(),
        checked=paths,
        width=WIDTH,
        notes=len(checked.notes),
    )
    stream = io.StringIO()
    full_report.write(report, stream)
    lines = [*(f"note: {problem}" for problem in problems), stream.getvalue().strip()]
    if len(findings) > len(shown):
        lines.append(f"{len(findings) - len(shown)} more findings are not listed: check fewer files at a time.")
    if not paths:
        lines = ["No Python files or notebooks were found there."]
    return "\n".join(lines), [record(report, entry) for entry in report.entries]


def explain(word: str) -> str:
    """The page of a rule, Markdown. Raises Refused if there is no such rule."""
    from ..config import find_rule, rule_words, suggestion
    from ..manual import page

    rule = find_rule(word)
    if rule is None:
        raise Refused(f"unknown rule '{word}'{suggestion(word, rule_words())}")
    return page(rule)


def why(traceback: str, folder: str | None) -> str:
    """What caused a traceback, by the code that it comes from, Markdown. Raises Refused if there is none."""
    from ..why import explain as explained_by
    from ..why import markdown

    if folder is not None and not os.path.isdir(folder):
        raise Refused(f"{folder}: there is no such folder")
    with _usable_settings():
        explained = explained_by(traceback, folder)
    if explained is None:
        raise Refused("there is no traceback in this text: give what the program wrote, from `Traceback` on")
    return markdown.write(explained, markdown.report(explained))


def probe_arguments(
    target: str, arguments: Sequence[str], folder: str | None, python: str | None, steps: int, timeout: float
) -> list[str]:
    """The arguments of `gradline probe` for this run."""
    given = [target, "--steps", str(steps), "--timeout", str(timeout)]
    given += ["--cwd", folder] if folder is not None else []
    python = python or _environments_python(folder or ".")
    given += ["--python", python] if python is not None else []
    return [*given, "--", *arguments]


def _environments_python(folder: str) -> str | None:
    """The interpreter of the virtual environment in a folder, as assistants start servers outside of any; None: no such."""
    if os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX"):
        return None  # the probe takes that one
    inner = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    paths = (os.path.abspath(os.path.join(folder, name, *inner)) for name in ENVIRONMENTS)
    return next((path for path in paths if os.path.isfile(path)), None)


def probe_command(given: Sequence[str]) -> tuple[str, str]:
    """The command that a probe with these arguments would run, and the folder. Raises Refused if there can be none."""
    from ..probe import options

    try:
        asked = options.parse(list(given))
    except options.UsageError as error:
        raise Refused(str(error)) from error
    except SystemExit as error:
        raise Refused("these are no arguments of `gradline probe`") from error
    return asked.command_line(), asked.cwd


def probe(given: Sequence[str], timeout: float) -> tuple[str, dict[str, Any]]:
    """Run `gradline probe` with these arguments, in a process of its own; its report as text and as it writes JSON.

    Raises Refused if the run could not be made.
    """
    from rich.console import Console

    from ..probe import terminal

    with tempfile.TemporaryDirectory(prefix="gradline-mcp-") as folder:
        file = Path(folder) / "report.json"
        end = list(given).index("--")
        command = [
            sys.executable,
            "-m",
            "gradline",
            "probe",
            *given[:end],
            "--quiet",
            "--json",
            str(file),
            *given[end:],
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout + GRACE,
                env={**os.environ, "GRADLINE_LANG": ENGLISH},
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise Refused(f"the run did not end {GRACE} seconds after its limit of {timeout:g}") from error
        output = done.stdout.decode("utf-8", "replace")[-OUTPUT_LIMIT:].strip()
        if not file.exists():
            raise Refused(output or f"the probe ended with status {done.returncode} and left no report")
        report = json.loads(file.read_text(encoding="utf-8"))
    stream = io.StringIO()
    terminal.show(report, Console(file=stream, width=WIDTH, highlight=False))
    text = stream.getvalue().strip()
    return (f"{text}\n\nThe program wrote:\n{output}" if output else text), report
