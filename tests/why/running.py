"""Runs programs on torch and gives what Python writes when they raise, many of them for one import of torch.

    texts = run([(folder, "main.py"), ...])

Each program runs in a fork of its own, as `python main.py` in its folder would run it; the text is its standard error.
With `together` they run one after the other in one fork, which is far quicker: for programs that leave nothing behind
but a grad mode, an anomaly mode and modules.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SECONDS = 200  # only a program that hangs makes a test wait that long


def run(programs: Iterable[tuple[Path, str]], together: bool = False) -> list[str]:
    wanted = json.dumps([together, [[str(folder), script] for folder, script in programs]])
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=wanted,
        capture_output=True,
        text=True,
        env=environ,
        timeout=SECONDS,
        check=True,
    )
    return json.loads(done.stdout)


def python(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A program of its own process, for what a fork can't do."""
    known = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **environ}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env=known, timeout=SECONDS
    )


def _program(folder: str, script: str) -> None:
    import runpy

    os.chdir(folder)
    path = os.path.join(folder, script)
    sys.argv, sys.path[0] = [script], folder
    try:
        runpy.run_path(path, run_name="__main__")
    except BaseException as error:
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename != path:
            tb = tb.tb_next
        sys.excepthook(type(error), error.with_traceback(tb), tb)
    sys.stderr.flush()


def _fork(programs: list[list[str]], written: Path) -> list[str]:
    """What each of the programs writes, all in one fork; `written` is a folder for it."""
    import torch

    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.alarm(SECONDS)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)
            os.dup2(nowhere, 1)
            for number, (folder, script) in enumerate(programs):
                os.dup2(os.open(written / str(number), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
                _program(folder, script)
                torch.set_grad_enabled(True)
                torch.autograd.set_detect_anomaly(False)
                for name, module in list(sys.modules.items()):
                    if str(getattr(module, "__file__", None) or "").startswith(folder):
                        del sys.modules[name]
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)  # workers that a program has left behind
    return [(written / str(number)).read_text() for number in range(len(programs))]


def _main() -> None:
    import torch

    # an optimizer's first step imports half of torch: once here, not in each fork
    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
    together, programs = json.load(sys.stdin)
    with tempfile.TemporaryDirectory() as written:
        groups = [programs] if together else [[program] for program in programs]
        json.dump([text for group in groups for text in _fork(group, Path(written))], sys.stdout)


if __name__ == "__main__":
    _main()
