"""Runs the programs of the rules' pages on real torch: one warm process that forks for each program.

`Runner().run(files, observe, trains)` is the face. Started as a script this file is that warm process: it reads one
request per line on stdin and answers one line, both JSON. torch is imported once; where there is no `os.fork`, each
program gets a process of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 60  # a program of a page takes milliseconds; one that hangs is a broken page


@dataclass
class Outcome:
    """`error` is the last line of the traceback ("" if the program ended well), `at` the innermost line of the
    program in it; `observe` is why the observation failed; `trains` says of each name why it does not train."""

    error: str = ""
    at: tuple[str, int] | None = None
    observe: str = ""
    trains: dict[str, str] = field(default_factory=dict)
    printed: str = ""


class Runner:
    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, files: dict[str, str], observe: str = "", trains: tuple[str, ...] = ()) -> Outcome:
        """Run main.py of these files in an empty folder of their own, then look: see Outcome."""
        request = json.dumps({"files": files, "observe": observe, "trains": trains})
        if not hasattr(os, "fork"):
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"error": "the runner died"}')
        if answer.get("at"):
            answer["at"] = tuple(answer["at"])
        return Outcome(**answer)

    def close(self) -> None:
        if self._process is not None:
            assert self._process.stdin and self._process.stdout
            self._process.stdin.close()
            self._process.wait(SECONDS)
            self._process.stdout.close()
            self._process = None


def _serve() -> None:
    import torch
    import torch._dynamo  # an optimizer's constructor imports it, which takes a second: once is enough
    import torch.utils.checkpoint

    torch.set_num_threads(1)
    for line in sys.stdin:
        print(_in_child(json.loads(line)) if hasattr(os, "fork") else json.dumps(_run(json.loads(line))), flush=True)


def _in_child(request: dict[str, Any]) -> str:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        import signal

        signal.alarm(SECONDS)  # ends the child: the pipe closes, the parent says so
        with os.fdopen(write, "w", encoding="utf-8") as answer:
            json.dump(_run(request), answer)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text or json.dumps({"error": f"no answer: the program died or ran for more than {SECONDS} seconds"})


def _run(request: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in request["files"].items():
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        os.chdir(folder)
        sys.path[0] = folder
        sys.argv = ["main.py"]
        warnings.simplefilter("ignore")
        first, graded = _watch_optimizers()
        sys.modules["torch"].manual_seed(0)
        # Keep the frame of main.py: its names are wanted after an error too.
        printed = io.StringIO()
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                names = runpy.run_path("main.py", run_name="__main__")
            except BaseException as error:
                outcome |= _error(error, folder)
                names = _main_names(error, folder)
        outcome["printed"] = printed.getvalue()[-2000:]
        names = {**names, "printed": printed.getvalue(), "torch": sys.modules["torch"]}
        if observe := request["observe"]:
            linecache.cache["observe"] = (len(observe), None, observe.splitlines(True), "observe")  # for the traceback
            try:
                exec(compile(observe, "observe", "exec"), names)
            except BaseException:
                outcome["observe"] = traceback.format_exc(limit=-1)
        outcome["trains"] = {name: why for name in request["trains"] if (why := _stays(name, names, first, graded))}
        os.chdir("/")
    return outcome


def _watch_optimizers() -> tuple[dict[int, Any], set[int]]:
    """What each parameter was before the first step that could move it, and which had a gradient that is not zero."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    first: dict[int, Any] = {}
    graded: set[int] = set()

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                first.setdefault(id(parameter), (parameter, parameter.detach().clone()))
                if parameter.grad is not None and bool(parameter.grad.ne(0).any()):
                    graded.add(id(parameter))

    register_optimizer_step_pre_hook(before)
    return first, graded


def _stays(name: str, names: dict[str, Any], first: dict[int, Any], graded: set[int]) -> str:
    """Why what `name` stands for does not train; "" if it does."""
    import torch

    try:
        value = eval(name, names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    parameters = list(value.parameters()) if isinstance(value, torch.nn.Module) else [value]
    if not parameters:
        return "it has no parameters"
    for parameter in parameters:
        if id(parameter) not in first:
            return "no optimizer that stepped holds it"
        if id(parameter) not in graded and parameter.grad is None:
            return "it never got a gradient"
        if id(parameter) not in graded:
            return "its gradient was always zero"
        if torch.equal(first[id(parameter)][1], parameter.detach()):
            return "it did not move"
    return ""


def _error(error: BaseException, folder: str) -> dict[str, Any]:
    last = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if _inside(frame.filename, folder)]
    at = (Path(folder, inside[-1].filename).relative_to(folder).as_posix(), inside[-1].lineno) if inside else None
    return {"error": last, "at": at}


def _inside(filename: str, folder: str) -> bool:
    return Path(folder, filename).is_relative_to(folder) and not filename.startswith("<")


def _main_names(error: BaseException, folder: str) -> dict[str, Any]:
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_name == "<module>" and step.tb_frame.f_code.co_filename.endswith("main.py"):
            return dict(step.tb_frame.f_globals)
        step = step.tb_next
    return {}


if __name__ == "__main__":
    _serve()
