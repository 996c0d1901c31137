"""`--watch`: checks again whenever a file that was looked at changes, comes or goes, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import OK

if TYPE_CHECKING:
    from ..workspace import Workspace
    from .check import Outcome

INTERVAL = 0.7  # seconds between looks: soon enough for a person, and next to no work

Stamps = dict[str, tuple[int, int]]


def watch(workspace: Workspace, check: Callable[[], Outcome]) -> int:
    """Runs `check` now and after every change. Returns when it is interrupted."""
    from ..config import ConfigError

    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write("\x1b[2J\x1b[H")
            try:
                paths = check().paths
            except ConfigError as error:
                print(f"gradline: {error}", file=sys.stderr)
                paths = ()
            print("gradline: watching for changes (Ctrl-C ends it)", file=sys.stderr, flush=True)
            sys.stdout.flush()
            before = stamps(workspace, paths)
            while (now := stamps(workspace, paths)) == before:
                time.sleep(INTERVAL)
            for path in before.keys() | now.keys():
                if before.get(path) != now.get(path):
                    workspace.project.update(path, None)
            workspace.disk.forget()
            workspace.configuration.forget()
    except KeyboardInterrupt:
        return OK


def stamps(workspace: Workspace, paths: tuple[str, ...]) -> Stamps:
    """When each file that matters was changed and how long it is: the checked ones, their folders, the settings."""
    folders = {path.rpartition("/")[0] for path in paths} | set(workspace.disk.roots)
    settings = {f"{folder}/{name}" for folder in folders for name in ("pyproject.toml", "gradline.toml")}
    found: dict[str, tuple[int, int]] = {}
    for path in (*paths, *workspace.disk.seen, *folders, *settings):
        try:
            info = os.stat(path)
        except OSError:
            continue
        found[path] = (info.st_mtime_ns, info.st_size)
    return found
