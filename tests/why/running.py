"""Runs programs on torch and gives what Python writes when they raise, many of them for one import of torch.

    texts = run([(folder, "main.py"), ...])

Each program runs in a fork of its own, as `python main.py` in its folder would run it; the text is its standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SECONDS = 240  # for all of them; only a program that hangs makes a test wait that long


def run(programs: Iterable[tuple[Path, str]]) -> list[str]:
    wanted = json.dumps([[str(folder), script] for folder, script in programs])
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


def _child(folder: str, script: str) -> None:
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


def _main() -> None:
    import torch  # noqa: F401

    texts = []
    for folder, script in json.load(sys.stdin):
        with tempfile.TemporaryFile() as written:
            child = os.fork()
            if child == 0:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, 0)
                os.dup2(nowhere, 1)
                os.dup2(written.fileno(), 2)
                try:
                    _child(folder, script)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
            written.seek(0)
            texts.append(written.read().decode())
    json.dump(texts, sys.stdout)


if __name__ == "__main__":
    _main()
