"""Which of the lines that static findings name did run."""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

from .run import Run

TOOL = 4  # a free id of sys.monitoring: 0, 1, 2 and 5 are taken by debuggers, coverage, profilers and optimizers


def watch(run: Run, wanted: dict[str, list[int]]) -> None:
    """From Python 3.12 each line reports once and is then free; before, a tracer that ends itself."""
    todo = {os.path.abspath(file): set(lines) for file, lines in wanted.items() if lines}
    if not todo:
        return
    if sys.version_info >= (3, 12):
        _monitor(run, todo)
    else:
        _trace(run, todo)


def _monitor(run: Run, todo: dict[str, set[int]]) -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    try:
        monitoring.use_tool_id(TOOL, "gradline")
    except ValueError:
        run.note("which lines ran is not known: another tool uses sys.monitoring")
        return

    def line(code: CodeType, number: int) -> Any:
        if run.done:  # Python may be ending, and the modules that this needs have gone
            return monitoring.DISABLE
        file = os.path.abspath(code.co_filename)
        if number in todo.get(file, ()):
            run.executed.add((file, number))
        return monitoring.DISABLE

    monitoring.register_callback(TOOL, monitoring.events.LINE, line)
    monitoring.set_events(TOOL, monitoring.events.LINE)

    def undo() -> None:
        monitoring.set_events(TOOL, 0)
        monitoring.free_tool_id(TOOL)

    run.undo.append(undo)


def _trace(run: Run, todo: dict[str, set[int]]) -> None:
    codes: dict[CodeType, Any] = {}

    def in_frame(frame: FrameType, event: str, argument: Any) -> Any:
        if run.done:
            return None
        entry = codes[frame.f_code]
        if not entry:
            return None
        file, lines = entry
        if event == "line" and frame.f_lineno in lines:
            run.executed.add((file, frame.f_lineno))
            lines.discard(frame.f_lineno)
            todo[file].discard(frame.f_lineno)
            if not any(todo.values()):
                stop()
            if not lines:
                codes[frame.f_code] = None
                return None
        return in_frame

    def into(frame: FrameType, event: str, argument: Any) -> Any:
        if run.done:  # Python may be ending, and the modules that this needs have gone
            return None
        code = frame.f_code
        if code not in codes:
            file = os.path.abspath(code.co_filename)
            mine = _lines(code) & todo.get(file, set()) if file in todo else set()
            codes[code] = (file, mine) if mine else None
        return in_frame if codes[code] else None

    def stop() -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    if sys.gettrace() is not None:
        run.note("which lines ran is not known: a debugger or coverage traces this process")
        return
    sys.settrace(into)
    threading.settrace(into)
    run.undo.append(stop)


def _lines(code: CodeType) -> set[int]:
    if hasattr(code, "co_lines"):
        return {line for _, _, line in code.co_lines() if line}
    import dis

    return {line for _, line in dis.findlinestarts(code)}
