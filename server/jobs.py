"""Several processes for one check: each analyses some of the files, and what it finds out is recalled here.

A worker is gradline in a Python of its own (`-I`: nothing of the environment or of the current folder is loaded), which
is asked and answers in `marshal` over pipes. The findings are the same, in the same order, as one process makes: an
analysis depends on files alone. What a worker that breaks leaves over is analysed here.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from .disk import Problem
from .plain import of_analysis, to_analysis

if TYPE_CHECKING:
    from .workspace import Workspace

WORTH = 150  # files for each process: fewer are done before another Python has started
CHUNK = 48  # files asked for at a time: neighbours, which read the same others
BOOT = "import sys; sys.path[:] = {path!r}; from gradline.jobs import serve; serve()"


def processors() -> int:
    """How many processes can run at a time here."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def analyse(workspace: Workspace, paths: Sequence[str], processes: int | None = None) -> None:
    """Have the files analysed by so many processes (None: as many as are worth while), if that is more than one.

    What they find out is `recalled` by the workspace's project. Files that were changed in memory are not for this.
    """
    count = min(processes or processors(), -(-len(paths) // (WORTH if processes is None else 1)))
    if count < 2:
        return
    size = min(CHUNK, -(-len(paths) // count))
    left = iter([list(paths[start : start + size]) for start in range(0, len(paths), size)])
    lock = threading.Lock()
    workers = [_Worker(workspace) for _ in range(count)]
    threads = [threading.Thread(target=worker.work, args=(left, lock), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """One of the processes, seen from here."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        code = BOOT.format(path=[folder for folder in sys.path if folder])
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def work(self, chunks: Iterator[list[str]], lock: threading.Lock) -> None:
        asks, answers = self._process.stdin, self._process.stdout
        assert asks is not None and answers is not None
        workspace = self._workspace
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError):
            _send(asks, (workspace.disk.roots, *workspace.configuration.given))
            while True:
                with lock:
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                _send(asks, chunk)
                found: Any = marshal.load(answers)
                with lock:
                    self._learn(*found)

    def _learn(self, analyses: dict[str, Any], seen: Any, folders: Any, effects: Any, problems: Any) -> None:
        project, disk = self._workspace.project, self._workspace.disk
        project.recalled.update((path, to_analysis(plain)) for path, plain in analyses.items())
        project.known_effects.update(effects)
        disk.visited(seen, folders)
        for plain in problems:
            problem = Problem(*plain)
            if problem not in disk.problems:
                disk.problems.append(problem)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _send(stream: IO[bytes], values: Any) -> None:
    stream.write(marshal.dumps(values))
    stream.flush()


def serve() -> None:
    """What a worker does: analyses what it is asked about until it is asked no more."""
    import gc

    from . import check
    from .config import Configuration
    from .workspace import Workspace

    answers = sys.stdout.buffer
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    sys.stdout = sys.stderr
    gc.disable()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    try:
        roots, file, isolated = asked.get()
        workspace = Workspace(roots, Configuration(file, None, isolated))
        project, disk = workspace.project, workspace.disk
        told: set[str] = set()
        while True:
            chunk: list[str] = asked.get()
            disk.ask_for(chunk)
            analyses: dict[str, Any] = {}
            for path in chunk:
                with contextlib.suppress(Exception):  # the other side analyses it again, and says what is wrong
                    analyses[path] = of_analysis(check.analyse(project, path))
            effects = {path: effect for path, effect in project.effects().items() if path not in told}
            told.update(effects)
            _send(answers, (analyses, disk.seen, disk.listed(), effects, [tuple(each) for each in disk.problems]))
    except (OSError, KeyboardInterrupt):
        return


def _listen(asked: queue.SimpleQueue[Any]) -> None:
    """Takes what is asked; when nobody is there to ask any more, this process ends, whatever it is doing."""
    try:
        while True:
            asked.put(marshal.load(sys.stdin.buffer))
    finally:
        os._exit(0)
