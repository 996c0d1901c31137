"""`--watch`: checks again whenever a file that was looked at changes, comes or goes, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from . import OK

if TYPE_CHECKING:
    from ..workspace import Workspace
    from .check import Outcome

INTERVAL = 0.7  # seconds between looks: soon enough for a person, and next to no work
SLACK = 20_000_000  # nanoseconds by which the date of a file may lag behind the clock
SETTINGS = ("pyproject.toml", "gradline.toml", ".gradline.toml", ".gitignore", ".ignore")

Stamps = dict[str, tuple[int, int]]
UNKNOWN = (-1, -1)


def watch(workspace: Workspace, check: Callable[[], Outcome]) -> int:
    """Runs `check` now and after every change. Returns when it is interrupted."""
    from ..config import ConfigError

    files: set[str] = set()
    known: Stamps = {}  # as it was before anything is read: what changes during the check is seen after it
    try:
        while True:
            began = time.time_ns() - SLACK
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[2J\x1b[H")
            try:
                files = {*check().paths, *workspace.disk.seen}
            except ConfigError as error:
                print(f"gradline: {error}", file=sys.stderr)
            print("gradline: watching for changes (Ctrl-C ends it)", file=sys.stderr, flush=True)
            sys.stdout.flush()
            before: Stamps = {}
            for path, stamp in stamps(workspace, files).items():
                # of what was met only now nobody knows whether it changed before it was read or after
                before[path] = known.get(path) or (stamp if stamp[0] < began else UNKNOWN)
            while (now := stamps(workspace, files)) == before:
                time.sleep(INTERVAL)
            for path in before.keys() | now.keys():
                if before.get(path) != now.get(path):
                    workspace.project.update(path, None)
            known = now
            workspace.forget()
    except KeyboardInterrupt:
        return OK


def stamps(workspace: Workspace, files: Iterable[str]) -> Stamps:
    """When each thing that matters was changed and how long it is: the files, the folders of the project, the settings."""
    files = list(files)
    folders = {path.rpartition("/")[0] for path in files} | {*workspace.disk.roots, *workspace.disk.walked}
    settings = {f"{folder}/{name}" for folder in folders for name in SETTINGS}
    found: Stamps = {}
    for path in (*files, *folders, *settings):
        try:
            info = os.stat(path)
        except OSError:
            continue
        found[path] = (info.st_mtime_ns, info.st_size)
    return found
