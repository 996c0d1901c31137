"""Running the probe on small programs, for the tests beside this file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("GRADLINE_PROBE_PYTHON", sys.executable)  # the program's interpreter; see matrix.py
needs_torch = pytest.mark.skipif(
    sys.executable == PYTHON and find_spec("torch") is None, reason="torch is not installed"
)
same_interpreter = pytest.mark.skipif(sys.executable != PYTHON, reason="gradline is not installed in that interpreter")
CALL = "import sys; from gradline.probe import main; sys.exit(main(sys.argv[1:]))"
MARK = re.compile(r"#\s*<-\s*([\w-]+)")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", CALL, *arguments]


def probe(folder: Path, *arguments: str, timeout: float = 120, check: bool = False) -> dict[str, Any]:
    """The report of `gradline probe <arguments>` run in `folder`; `process` in it is the finished process."""
    out = folder.parent / f"{folder.name}-report.json"
    own = ["--python", PYTHON, "--json", str(out), "--quiet", *([] if check else ["--no-check"])]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    words = command(*arguments[:at], *own, *arguments[at:])
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
    assert out.exists(), done.stderr
    report = json.loads(out.read_text(encoding="utf-8"))
    out.unlink()
    report["process"] = done
    return report


def marks(folder: Path) -> set[tuple[str, str, int]]:
    """`(rule, file, line)` of each `# <- rule` comment in the folder's files."""
    found = set()
    for path in folder.rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found |= {(rule, path.name, number) for rule in MARK.findall(line)}
    return found


def said(report: dict[str, Any]) -> set[tuple[str, str, int]]:
    """The same of the report's findings above `possible`."""
    return {
        (f["rule"], Path(f["at"]["file"]).name if f["at"] else "", f["at"]["line"] if f["at"] else 0)
        for f in report["findings"]
        if f["confidence"] != "possible"
    }
