"""Running the probe on small programs, for the tests beside this file."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gradline.probe
from gradline.probe import options, result, verdicts

PYTHON = os.environ.get("GRADLINE_PROBE_PYTHON", sys.executable)  # the program's interpreter; see matrix.py
needs_torch = pytest.mark.skipif(
    sys.executable == PYTHON and find_spec("torch") is None, reason="torch is not installed"
)
same_interpreter = pytest.mark.skipif(sys.executable != PYTHON, reason="gradline is not installed in that interpreter")
CALL = "import sys; from gradline.probe import main; sys.exit(main(sys.argv[1:]))"
MARK = re.compile(r"#\s*<-\s*([\w-]+)")


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
AGENT = Path(gradline.probe.__file__).parent / "agent"


@functools.lru_cache
def installed(module: str) -> bool:
    """Whether the program's interpreter has a module."""
    code = f"import sys, importlib.util; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return not subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode


def needs(*modules: str) -> None:
    """Skip the test, with a message, where the program's interpreter lacks one of these."""
    for module in modules:
        if not installed(module):
            pytest.skip(f"{module} is not installed in the program's interpreter")


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


@functools.lru_cache
def _forks() -> subprocess.Popen:
    """The process whose forks run programs; started when first needed, ended with us."""
    words = [PYTHON, str(Path(__file__).with_name("forked.py")), str(AGENT)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.kill)
    return process


def quick(folder: Path, *arguments: str, check: bool = False, **more: Any) -> dict[str, Any]:
    """The report of a program that runs under the agent in a fork: no supervisor, no isolation.

    `arguments` are those of `gradline probe`, `more` goes into the agent's options; `check` judges static findings, as
    the command does. `output` in the report is what the program printed, `counted` the number of findings that the
    command would exit with 1 for. The time limit is kept, by asking as the supervisor asks.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own = ["--cwd", str(folder), "--python", PYTHON]
    asked = options.parse([*arguments[:at], *own, *arguments[at:]])
    out = folder.parent / f"{folder.name}-{len(list(folder.parent.iterdir()))}"
    out.mkdir()
    job = {
        "folder": str(folder),
        "said": str(out / "said"),
        "options": {**asked.options, "report_dir": str(out), "roots": [str(folder)], **more},
    }
    claims = verdicts.with_callers(verdicts.static_findings(asked)[0] if check else [], verdicts.script_of(asked))
    job["options"]["claims"] = verdicts.lines_of(claims)
    process = _forks()
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps(job), file=process.stdin, flush=True)
    limit = threading.Timer(asked.options["timeout"], (out / "ask").write_text, ["the time limit"])
    limit.start()
    status = json.loads(process.stdout.readline())
    limit.cancel()
    text = (out / "said").read_text(encoding="utf-8")
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("report-*.json")]
    assert reports, text
    outcome = {"reports": reports, "status": status, "why": None, "seconds": 0.0, "isolation": {"kind": "none"}}
    report = result.merge(outcome, asked, "", "")
    verdicts.judge(report, claims)
    return {**report, "output": text, "counted": result.counts(report)}


def wait_until(true: Callable[[], object], seconds: float) -> bool:
    until = time.time() + seconds
    while not true() and time.time() < until:
        time.sleep(0.1)
    return bool(true())


def alive(marker: str) -> list[int]:
    """Processes whose command line holds the marker."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


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
