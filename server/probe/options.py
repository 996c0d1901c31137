"""The command line of `gradline probe`, and what it asks for."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from typing import Any

DESCRIPTION = """\
Run a real program, unmodified, through its first optimizer steps, and report how its gradients flowed.

  gradline probe train.py -- --epochs 1             a script with its arguments
  gradline probe -m pkg.train -- --config a.yaml    a module
  gradline probe tests/test_train.py::test_step     a pytest test
  gradline probe study.ipynb --until 12             a notebook, all cells or up to this one (the first is 1)
  gradline probe pkg.mod:make_step                  a function that gives a step, or (model, batch, loss)
  gradline probe pkg.mod:Net --input 8x3x224x224    a module class and an example input
  gradline probe --wrap -- torchrun --nproc-per-node 2 train.py    any launcher, every rank
"""


class UsageError(Exception):
    """What was asked for makes no sense; the message says why."""


@dataclass
class Asked:
    """What the command line asks for; `config` is what the agent gets."""

    target: dict[str, Any]
    python: str
    cwd: str
    options: dict[str, Any]
    json: str | None = None
    html: str | None = None
    output: str = "terminal"
    findings: str | None = None
    check: bool = True
    show_command: bool = False
    roots: list[str] = field(default_factory=list)

    def command_line(self) -> str:
        """The command that the program is started as, for people to read before it runs."""
        target = self.target
        arguments = list(target.get("arguments") or ())
        if target["kind"] == "wrap":
            words = target["command"]
        elif target["kind"] == "script":
            words = [self.python, target["path"], *arguments]
        elif target["kind"] == "module":
            words = [self.python, "-m", target["name"], *arguments]
        elif target["kind"] == "pytest":
            words = [self.python, "-m", "pytest", *target["nodes"], *arguments]
        elif target["kind"] == "notebook":
            words = [self.python, f"<cells of {target['path']}>", *arguments]
        else:
            words = [self.python, f"<{target['name']}>"]
        return shlex.join(words)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="gradline probe", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("target", nargs="?", help="script, test, notebook, pkg.mod:function or pkg.mod:Class")
    p.add_argument("-m", "--module", metavar="NAME", help="run a module, as python -m does")
    p.add_argument("--wrap", action="store_true", help="probe every Python process of the command after --")
    p.add_argument("--until", type=int, metavar="CELL", help="notebook: the last cell to run (1 is the first cell)")
    p.add_argument(
        "--input", action="append", default=[], metavar="SHAPE", help="8x3x224x224, 8x16:int64<1000, pkg.mod:make"
    )
    p.add_argument("--gradcheck", action="store_true", help="compare analytical and numerical gradients of the target")
    p.add_argument("--steps", type=int, default=2, help="optimizer steps to watch (default 2)")
    p.add_argument(
        "--timeout", type=float, default=600, metavar="S", help="seconds until the run is ended (default 600)"
    )
    p.add_argument(
        "--max-backward", type=int, default=64, metavar="N", help="stop after N backward calls without a step"
    )
    p.add_argument(
        "--max-memory", type=float, metavar="GiB", help="end the run above this (default 90%% of the machine's)"
    )
    p.add_argument(
        "--gpu-fraction", type=float, metavar="F", help="share of each GPU's memory that the program may take"
    )
    p.add_argument("--device", metavar="DEVICE", help="cpu, cuda, cuda:1: what the program may see")
    p.add_argument("--python", metavar="PATH", help="the interpreter (default: the active environment's)")
    p.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="set in the program's environment")
    p.add_argument("--cwd", metavar="DIR", help="the program's working directory")
    p.add_argument("--root", action="append", default=[], metavar="DIR", help="a folder whose files are yours")
    p.add_argument("--level", choices=("light", "full"), default="full", help="light: no look at single operations")
    p.add_argument("--keep-compile", action="store_true", help="leave torch.compile on (light level)")
    p.add_argument(
        "--isolation",
        choices=("auto", "overlay", "copy", "none"),
        default="auto",
        help="how files are kept as they are",
    )
    p.add_argument("--allow-writes", action="store_true", help="let the program write, and its trackers send")
    p.add_argument("--findings", metavar="FILE", help="judge these findings (gradline check --output-format json)")
    p.add_argument("--no-check", action="store_true", help="do not look for static findings to judge")
    p.add_argument("--json", metavar="FILE", help="write the report as JSON (- for the terminal)")
    p.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    p.add_argument("--quiet", action="store_true", help="no report on the terminal")
    p.add_argument("--show-command", action="store_true", help="print the command that would run, and stop")
    return p


def parse(argv: list[str]) -> Asked:
    """Raises UsageError for what cannot be meant, SystemExit as argparse does."""
    own, rest = (argv[: argv.index("--")], argv[argv.index("--") + 1 :]) if "--" in argv else (argv, [])
    given = parser().parse_args(own)
    cwd = os.path.abspath(given.cwd or os.getcwd())
    if not os.path.isdir(cwd):
        raise UsageError(f"{cwd} is no folder")
    target = _target(given, rest, cwd)
    python = interpreter(given.python)
    environment = {}
    for pair in given.env:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--env needs NAME=VALUE, not {pair!r}")
        environment[name] = value
    if given.steps < 1 or given.timeout <= 0:
        raise UsageError("--steps and --timeout must be positive")
    if given.gradcheck and target["kind"] != "object":
        raise UsageError("--gradcheck needs a function or class: pkg.mod:MyFunction")
    options = {
        "steps": given.steps,
        "timeout": given.timeout,
        "max_backward": given.max_backward,
        "max_memory": int(given.max_memory * (1 << 30)) if given.max_memory else _most_memory(),
        "gpu_fraction": given.gpu_fraction,
        "device": given.device,
        "env": environment,
        "cwd": cwd,
        "level": "light" if given.keep_compile else given.level,
        "keep_compile": given.keep_compile,
        "isolation": given.isolation,
        "allow_writes": given.allow_writes,
        "inputs": given.input,
        "gradcheck": given.gradcheck,
        "target": target,
        "stop": True,
    }
    roots = [os.path.abspath(os.path.join(cwd, root)) for root in given.root]
    return Asked(
        target=target,
        python=python,
        cwd=cwd,
        options=options,
        json=given.json,
        html=given.html,
        output="none" if given.quiet or given.json == "-" else "terminal",
        findings=given.findings,
        check=not given.no_check,
        show_command=given.show_command,
        roots=roots,
    )


def _target(given: argparse.Namespace, rest: list[str], cwd: str) -> dict[str, Any]:
    if given.until is not None and (given.wrap or given.module or not (given.target or "").endswith(".ipynb")):
        raise UsageError("--until is for a notebook: gradline probe study.ipynb --until 3")
    if given.wrap:
        if given.target or given.module or not rest:
            raise UsageError("--wrap takes the whole command after --: gradline probe --wrap -- torchrun train.py")
        return {"kind": "wrap", "command": rest}
    if bool(given.target) == bool(given.module):
        raise UsageError("one target is needed: a script, -m MODULE, a test, a notebook, pkg.mod:name, or --wrap")
    if given.module:
        return {"kind": "module", "name": given.module, "arguments": rest}
    text: str = given.target
    if "::" in text:
        file = text.partition("::")[0]
        _must_exist(file, cwd)
        return {"kind": "pytest", "nodes": [text], "path": file, "arguments": rest}
    if text.endswith(".ipynb"):
        _must_exist(text, cwd)
        return {"kind": "notebook", "path": text, "until": _last_cell(text, cwd, given.until), "arguments": rest}
    if os.path.isfile(os.path.join(cwd, text)):
        return {"kind": "script", "path": text, "arguments": rest}
    module, sign, name = text.rpartition(":")
    if (
        sign
        and name.replace(".", "").isidentifier()
        and (module.endswith(".py") or module.replace(".", "").isidentifier())
    ):
        return {"kind": "object", "name": text}
    _must_exist(text, cwd)
    return {"kind": "script", "path": text, "arguments": rest}


def _last_cell(path: str, cwd: str, until: int | None) -> int | None:
    """The index of the last cell to run, from its number as people count them: from 1, over all cells."""
    if until is None:
        return None
    try:
        with open(os.path.join(cwd, path), encoding="utf-8") as file:
            count = len(json.load(file)["cells"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} can't be read as a notebook: {error}") from None
    if not 1 <= until <= count:
        raise UsageError(f"--until {until}: {path} has the cells 1 to {count}" if count else f"{path} has no cells")
    return until - 1


def _must_exist(path: str, cwd: str) -> None:
    if not os.path.isfile(os.path.join(cwd, path)):
        raise UsageError(f"{path}: no such file in {cwd}")


def interpreter(wanted: str | None) -> str:
    """The user's Python: the one asked for, the active environment's, ours if torch is there, or the one on the path."""
    if wanted:
        found = shutil.which(os.path.expanduser(wanted))
        if found is None:
            raise UsageError(f"--python {wanted}: no such program")
        return os.path.abspath(found) if os.sep in wanted else found
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(name)
        if folder:
            for inner in ("bin/python", "Scripts/python.exe", "python.exe"):
                path = os.path.join(folder, inner)
                if os.path.exists(path):
                    return path
    if importlib.util.find_spec("torch") is not None:  # looked for, not imported
        return sys.executable
    return shutil.which("python3") or shutil.which("python") or sys.executable


def _most_memory() -> int | None:
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.9)
    except (ValueError, OSError, AttributeError):
        return None
