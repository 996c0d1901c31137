"""Which files the program writes: noted, so that the report can say what was touched."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
from typing import Any

from .places import show
from .run import Run

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ONE_PATH = {"os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree", "os.link", "os.symlink"}
TWO_PATHS = {"os.rename", "shutil.move"}
MAX_WRITES = 500


def watch(run: Run) -> None:
    """An audit hook sees what Python opens; what C++ opens (`torch.save`'s zip files) needs `torch_saves`."""
    temporary = os.path.realpath(tempfile.gettempdir()) + os.sep
    ignored = ("/dev/", "/proc/", temporary, os.path.expanduser("~/.cache") + os.sep)
    inside = threading.local()
    writing, one_path, two_paths = WRITING, ONE_PATH, TWO_PATHS  # a hook outlives its module's names

    def note(event: str, path: Any) -> None:
        path = os.path.abspath(os.fsdecode(path))
        if "__pycache__" in path or (path.startswith(ignored) and not path.startswith(run.places.roots)):
            return
        entry = run.writes.get((event, path))
        if entry is None:
            if len(run.writes) >= MAX_WRITES:
                return
            entry = run.writes[(event, path)] = {
                "event": event,
                "path": path,
                "count": 0,
                "at": show(run.places.stack(None, 2)),
            }
        entry["count"] += 1

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, mode, flags = arguments
            if isinstance(mode, str):
                if not any(letter in mode for letter in "wax+"):
                    return
            elif not (isinstance(flags, int) and flags & writing):
                return
            paths: tuple = (path,)
        elif event in one_path:
            paths = arguments[:1]
        elif event in two_paths:
            paths = arguments[:2]
        else:
            return
        if run.done or getattr(inside, "here", False):
            return
        inside.here = True
        try:
            for path in paths:
                if not isinstance(path, int) and path is not None:
                    note(event, path)
        except Exception as error:
            run.note(f"probe: a write could not be noted: {error}")
        finally:
            inside.here = False

    sys.addaudithook(hook)


def torch_saves(run: Run) -> None:
    """`torch.save` opens its files in C++, which no audit hook sees."""
    original = run.torch.save

    @functools.wraps(original)
    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if not run.done and isinstance(f, (str, os.PathLike)):
            path = os.path.abspath(os.fsdecode(f))
            at = show(run.places.stack(sys._getframe(1), 2))
            run.writes.setdefault(("torch.save", path), {"event": "torch.save", "path": path, "count": 1, "at": at})
        return original(obj, f, *args, **kwargs)

    run.torch.save = save
    run.undo.append(lambda: setattr(run.torch, "save", original))
