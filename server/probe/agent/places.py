"""Where in the user's own code are we: frames, and what counts as the user's."""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType
from typing import NamedTuple

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


class Place(NamedTuple):
    """A line that ran: absolute file, 1-based line, name of the function."""

    file: str
    line: int
    function: str


class Places:
    """Tells the user's frames from those of libraries, of torch and of the probe itself.

    `roots` are folders whose files are the user's even where a library would be expected (a checkout installed in
    editable mode below `site-packages`, say).
    """

    def __init__(self, roots: list[str]) -> None:
        self.roots = tuple(os.path.abspath(root).rstrip(os.sep) + os.sep for root in roots)
        self._files: dict[str, bool] = {}
        self._codes: dict[CodeType, bool] = {}

    def is_user(self, file: str) -> bool:
        known = self._files.get(file)
        if known is None:
            known = self._files[file] = self._is_user(file)
        return known

    def _is_user(self, file: str) -> bool:
        if file.startswith("<"):
            return file.startswith(("<ipython", "<stdin"))
        path = os.path.abspath(file)
        if path.startswith(OWN):
            return False
        for root in self.roots:
            if path.startswith(root):
                inner = path[len(root) :]
                return "site-packages" not in inner and "dist-packages" not in inner
        return not ("site-packages" in path or "dist-packages" in path or path.startswith(STDLIB))

    def near(self, frame: FrameType | None) -> Place | None:
        """The innermost frame of the user's at or above `frame`."""
        codes = self._codes
        while frame is not None:
            code = frame.f_code
            mine = codes.get(code)
            if mine is None:
                mine = codes[code] = self.is_user(code.co_filename)
            if mine:
                return Place(code.co_filename, frame.f_lineno, code.co_name)
            frame = frame.f_back
        return None

    def here(self) -> Place | None:
        return self.near(sys._getframe(1))

    def stack(self, frame: FrameType | None = None, limit: int = 5) -> list[Place]:
        """The user's frames from the inside out, `limit` at most."""
        frame = frame or sys._getframe(1)
        out: list[Place] = []
        while frame is not None and len(out) < limit:
            code = frame.f_code
            if self.is_user(code.co_filename):
                out.append(Place(code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return out


def show(stack: list[Place]) -> dict | None:
    """A place as the report writes it: the innermost frame, and who called it."""
    if not stack:
        return None
    first = stack[0]
    out = {"file": first.file, "line": first.line, "function": first.function}
    if len(stack) > 1:
        out["called_from"] = [{"file": p.file, "line": p.line, "function": p.function} for p in stack[1:]]
    return out


def one(place: Place | None) -> dict | None:
    return None if place is None else show([place])


def brief(place: Place | None) -> str:
    return "?" if place is None else f"{os.path.basename(place.file)}:{place.line}"
