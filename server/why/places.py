"""From the frames of a traceback to places in files that are here: paths of another machine, edited files, cells."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..disk import normal, root_above
from ..findings import Place
from ..text import Source
from ..workspace import Workspace
from .tracebacks import Frame

# Code that came with Python or was installed, or watches the program (`gradline probe`): never the user's to change.
_LIBRARY = re.compile(
    r"[\\/]gradline[\\/]probe[\\/]agent[\\/]"
    r"|[\\/](?:site|dist)-packages[\\/]|[\\/]lib[\\/]python3(?:\.\d+)?[\\/]|^<(?!ipython)|[\\/]torch[\\/]_",
    re.I,
)
_CELL_FILE = re.compile(r"[\\/]ipykernel_\d+[\\/]\d+\.py$|^<ipython-input|^In \[")
FILES_LIMIT = 400  # notebooks and files that are looked through for a frame whose path leads nowhere


class Located(NamedTuple):
    """A frame whose file is here: `place` is the line (or what carets mark of it), `line` its number from 0 in the text.

    `moved`: the source line of the traceback is not where it says, so the file was changed since.
    """

    frame: Frame
    place: Place
    line: int
    moved: bool = False

    @property
    def path(self) -> str:
        return self.place.path

    @property
    def is_module(self) -> bool:
        return self.frame.function == "<module>"


def is_library(frame: Frame) -> bool:
    """Whether a frame is of code that was installed, by its path."""
    return _LIBRARY.search(frame.path) is not None and not _CELL_FILE.search(frame.path)


def folders_of(frames: Iterable[Frame], folder: str) -> list[str]:
    """The folders that hold the frames' files, and `folder`."""
    paths = (f"{folder.rstrip('/')}/_", *(_existing(frame, folder) or "" for frame in frames))
    return list(dict.fromkeys(above for path in paths if (above := path.rpartition("/")[0])))


def roots(folders: Iterable[str]) -> list[str]:
    """The projects that folders belong to."""
    found: list[str] = []
    for above in folders:
        if not any(f"{above}/".startswith(f"{root.rstrip('/')}/") for root in found):
            found.append(root_above(above))
    return found


def _existing(frame: Frame, folder: str) -> str | None:
    """The file that a frame's path names as it stands: absolute, or from `folder` or the current folder."""
    if is_library(frame) or frame.cell is not None or _CELL_FILE.search(frame.path):
        return None
    path = os.path.expanduser(frame.path)
    for base in ("", folder):
        full = os.path.join(base, path) if base else path
        if os.path.isfile(full):
            return normal(full)
    return None


class Locator:
    """Finds frames in the files of a workspace, below `folder` first."""

    def __init__(self, workspace: Workspace, folder: str) -> None:
        self._workspace = workspace
        self._folder = folder
        self._files: list[str] | None = None

    def files(self) -> list[str]:
        """The files below the folder that a check would look at."""
        if self._files is None:
            self._files = self._workspace.disk.discover([self._folder])[:FILES_LIMIT]
        return self._files

    def locate(self, frame: Frame) -> Located | None:
        """Where a frame is; None if it is not the user's code or not here."""
        if is_library(frame):
            return None
        if frame.cell is not None or _CELL_FILE.search(frame.path):
            return self._cell(frame)
        path = _existing(frame, self._folder)
        if path is None:
            path = self._elsewhere(frame)
        source = self._workspace.source(path) if path is not None else None
        if path is None or source is None or not self._workspace.disk.is_project(path):
            return None
        return located(frame, path, source, frame.line - 1)

    def _elsewhere(self, frame: Frame) -> str | None:
        """The file here whose path ends as the frame's does: the program ran on another machine, or in a container."""
        words = [word for word in re.split(r"[\\/]+", frame.path) if word]
        if not words:
            return None
        best: tuple[int, str] | None = None
        alike = 0
        for path in self.files():
            own = path.split("/")
            if own[-1] != words[-1]:
                continue
            same = 0
            while same < min(len(own), len(words)) and own[-1 - same] == words[-1 - same]:
                same += 1
            if frame.text:
                source = self._workspace.source(path)
                if source is None or not _lines_with(source, frame.text):
                    continue
            if best is None or same > best[0]:
                best, alike = (same, path), 1
            elif same == best[0]:
                alike += 1
        return best[1] if best is not None and alike == 1 else None

    def _cell(self, frame: Frame) -> Located | None:
        """The line of a notebook's cell, by its text: the numbers of executions change whenever a cell runs again."""
        if not frame.text:
            return None
        found: list[tuple[int, str, Source, int]] = []
        for path in self.files():
            if not path.endswith(".ipynb"):
                continue
            source = self._workspace.source(path)
            if source is None or source.cells is None:
                continue
            counts = _executions(source)
            for cell in source.cells.cells:
                text = Source(cell.text)
                for line in _lines_with(text, frame.text):
                    rank = 4 * (line == frame.line - 1) + 2 * (counts.get(cell.index) == frame.cell)
                    rank += sum(text.line_text(n - 1).strip() == shown.strip() for n, shown in frame.shown)
                    found.append((rank, path, source, source.position(cell.start)[0] + line))
        if not found:
            return None
        _, path, source, line = max(found, key=lambda one: one[0])
        return located(frame, path, source, line)


def _executions(source: Source) -> dict[int, int | None]:
    """The number of the last execution of each cell, as the notebook keeps it."""
    assert source.cells is not None
    try:
        cells = json.loads(source.cells.edited(()))["cells"]
        return {index: cell.get("execution_count") for index, cell in enumerate(cells)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def located(frame: Frame, path: str, source: Source, line: int) -> Located:
    """A frame at a line of a text (from 0), or at the nearest line that reads as the traceback shows it."""
    moved = False
    if frame.text and source.line_text(line).strip() != frame.text.strip():
        near = _lines_with(source, frame.text)
        if near:
            line = min(near, key=lambda other: abs(other - line))
        moved = True
    line = min(max(line, 0), len(source.line_starts) - 1)
    text = source.line_text(line)
    lead = len(text) - len(text.lstrip())
    begin, end = lead, len(text.rstrip())
    if frame.marked is not None and lead + frame.marked[1] <= end and not moved:
        begin, end = lead + frame.marked[0], lead + frame.marked[1]
    start = source.offset(line, 0)
    return Located(frame, Place(path, start + begin, start + max(end, begin)), line, moved)


def _lines_with(source: Source, text: str) -> list[int]:
    wanted = text.strip()
    if not wanted or wanted not in source.text:
        return []
    return [line for line in range(len(source.line_starts)) if source.line_text(line).strip() == wanted]


def lines_of(workspace: Workspace, place: Place) -> range:
    """The lines, from 0, that a place is on."""
    source = workspace.source(place.path)
    if source is None:
        return range(0)
    return range(source.position(place.start)[0], source.position(max(place.end - 1, place.start))[0] + 1)


def entry_of(command: Sequence[str], folder: str) -> str | None:
    """The script that a command runs: `python train.py`, `torchrun --nproc-per-node 2 train.py`, `python -m pkg.train`."""
    for index, word in enumerate(command):
        if word.endswith((".py", ".ipynb")) and os.path.isfile(os.path.join(folder, word)):
            return normal(os.path.join(folder, word))
        if word == "-m" and index + 1 < len(command):
            stem = os.path.join(folder, *command[index + 1].split("."))
            for path in (f"{stem}.py", os.path.join(stem, "__main__.py")):
                if os.path.isfile(path):
                    return normal(path)
    return None
