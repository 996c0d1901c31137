"""What `gradline probe` does, from its arguments to its exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import launch, options, result, verdicts

EXIT_CLEAN, EXIT_FINDINGS, EXIT_ERROR = 0, 1, 2


def main(argv: list[str]) -> int:
    """Run the command line; messages about our own failures go to stderr, the program's output passes through."""
    try:
        asked = options.parse(argv)
    except options.UsageError as error:
        return _refuse(str(error))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else EXIT_ERROR
    if asked.show_command:
        print(asked.command_line())
        return EXIT_CLEAN
    try:
        python, torch = launch.check_versions(asked.python, asked.cwd)
        why = ""
        claims: list[verdicts.Claim] = []
        if asked.findings:
            claims = verdicts.load(Path(asked.findings))
        elif asked.check:
            claims, why = verdicts.static_findings(asked)
        claims = verdicts.with_callers(claims, verdicts.script_of(asked))
        outcome = launch.run(asked, verdicts.lines_of(claims))
    except (launch.InterpreterError, OSError, ValueError) as error:
        return _refuse(str(error))
    report = result.merge(outcome, asked, python, torch)
    if why:
        report["notes"].append(why)
    verdicts.judge(report, claims)
    if asked.json:
        text = json.dumps(report, indent=1)
        if asked.json == "-":
            print(text)
        else:
            Path(asked.json).write_text(text + "\n", encoding="utf-8")
    if asked.html:
        from . import page

        Path(asked.html).write_text(page.render(report), encoding="utf-8")
    if asked.output == "terminal":
        from . import terminal

        terminal.show(report)
    if not report["processes"]:
        return EXIT_ERROR
    failed = report.get("gradcheck", {}).get("ok") is False
    return EXIT_FINDINGS if failed or result.counts(report) else EXIT_CLEAN


def _refuse(message: str) -> int:
    print(f"gradline probe: {message}", file=sys.stderr)
    return EXIT_ERROR
