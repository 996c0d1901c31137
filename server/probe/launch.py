"""Starting the agent in the user's interpreter, and getting its result back, whatever happens to it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .agent import isolate
from .options import Asked

AGENT = Path(__file__).parent / "agent"


class InterpreterError(Exception):
    """The user's interpreter cannot run the agent; the message says why and what to do."""


def versions(python: str, cwd: str) -> tuple[str, str | None]:
    """Versions of Python and of torch (None: not installed) there, without importing torch."""
    code = (
        "import sys\n"
        "try:\n from importlib.metadata import version; torch = version('torch')\n"
        "except Exception: torch = ''\n"
        "print('%d.%d.%d' % sys.version_info[:3]); print(torch)"
    )
    try:
        done = subprocess.run([python, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InterpreterError(f"{python} does not run: {error}") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise InterpreterError(f"{python} does not run: {done.stderr.strip()[-300:]}")
    return lines[-2] if len(lines) > 1 else lines[-1], (lines[-1] or None) if len(lines) > 1 else None


def check_versions(python: str, cwd: str) -> tuple[str, str]:
    """Raises InterpreterError where the agent cannot work: Python before 3.9, no torch, or one before 1.13."""
    found, torch = versions(python, cwd)
    if tuple(int(part) for part in found.split(".")[:2]) < (3, 9):
        raise InterpreterError(f"{python} is Python {found}: the probe needs 3.9 or newer there")
    if torch is None:
        raise InterpreterError(
            f"torch is not installed in {python} (Python {found}): activate the program's environment, or name its "
            "interpreter with --python"
        )
    numbers = [part for part in torch.split("+")[0].split(".")[:2] if part.isdigit()]
    if tuple(int(part) for part in numbers) < (1, 13):
        raise InterpreterError(f"torch {torch} in {python} is too old: the probe needs 1.13 or newer")
    return found, torch


def folders(asked: Asked) -> list[str]:
    """The folders to keep as they are: the program's project, and the working directory's."""
    out = [isolate.project_of(asked.cwd)]
    path = asked.target.get("path")
    if path:
        out.append(isolate.project_of(os.path.join(asked.cwd, path)))
    return isolate.outermost(out)


def run(asked: Asked, claims: dict[str, list[int]]) -> dict[str, Any]:
    """Run the supervisor to its end and give its result: `status`, `why`, `seconds`, `isolation`, `reports`.

    `claims` are the lines that static findings name, by absolute file. Ctrl-C ends the run and still gives a result.
    """
    protect = [folder for folder in folders(asked) if isolate.protectable(folder)]
    parent = next(
        (p for p in isolate.scratch_parents() if os.path.isdir(p) and not _inside(os.path.realpath(p), protect)), None
    )
    folder = tempfile.mkdtemp(prefix="gradline-report-", dir=parent)
    config = os.path.join(folder, "config.json")
    options = {
        **asked.options,
        "report_dir": folder,
        "token": secrets.token_hex(12),
        "protect": protect,
        "roots": [*asked.roots, *folders(asked)],
        "claims": claims,
        "lifeline": True,
    }
    with open(config, "w", encoding="utf-8") as file:
        json.dump(options, file)
    command = [asked.python, "-S", str(AGENT / "start.py"), "supervise", config]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=asked.cwd)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InterpreterError(f"{asked.python} does not start: {error}") from error
    old = {}
    try:
        # a terminal's Ctrl-C reaches the supervisor too, which ends the program and writes its result
        old[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
        old[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    except ValueError:  # not in the main thread: whoever called us handles signals
        pass
    try:
        process.wait()
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    try:
        with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
            result = json.load(file)
    except (OSError, ValueError):
        result = {
            "status": process.returncode,
            "why": f"the supervisor ended without a result (exit status {process.returncode})",
            "seconds": None,
            "isolation": {"kind": "unknown", "folders": [], "kept_out": []},
            "reports": _left(folder),
        }
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _left(folder: str) -> list[dict]:
    """Reports that the program had written before its supervisor was lost."""
    out = []
    for path in sorted(Path(folder).glob("report-*.json")):
        try:
            out.append(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
    return out


def _inside(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)
