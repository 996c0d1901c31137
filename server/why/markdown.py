"""An explanation as Markdown, for editors and chats; places are written `file.py:12`."""

from __future__ import annotations

import difflib
import re

from ..findings import Place
from ..messages import tell, told
from ..report import Report, here
from ..report.changes import parts
from . import Answer, Explanation
from .words import certainty, heading, repeats, unknown, where_raised

DIFF_LINES = 24
_MEANS = re.compile(r"[\\`*\[\]<>&~|#]|(?<![^\W_])_|_(?![^\W_])")


def literal(text: str) -> str:
    """Text that somebody else has written, as it is: `__init__` is no emphasis, `<class 'int'>` no HTML."""
    return _MEANS.sub(r"\\\g<0>", text)


def _code(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def report(explained: Explanation) -> Report:
    """What is needed to name the places of an explanation."""
    return Report((), explained.workspace.source, {}, here())


def write(explained: Explanation, report: Report) -> str:
    """The whole of it."""
    said = [f"### {literal(heading(explained))}"]
    if raised := where_raised(explained, report, code=_code):
        said.append(raised)
    said.append(told(explained.error.meaning) if explained.error is not None else unknown(explained))
    for number, one in enumerate(explained.answers, 1):
        said.append(f"**{number}. {certainty(one)}** {answer(one, report)}")
    said += advice(explained)
    said += [f"*{told(note)}*" for note in (*explained.notes, *repeats(explained))]
    return "\n\n".join(said)


def answer(one: Answer, report: Report) -> str:
    """One answer: what, where, the trail, the fix, what is known of the line."""
    lines = [told(one.title)]
    if one.place is not None:
        lines.append(f"- {_where(report, one.place)}")
    lines += [f"- {_where(report, step.place)}: {told(step.note)}" for step in one.trail]
    said = ["\n".join(lines)]
    if one.fix is not None:
        said.append(f"{told(one.fix.message)} ({one.fix.applicability.value}):\n\n```diff\n{_diff(one, report)}\n```")
    said += list(one.facts)
    if one.note:
        said.append(f"*{told(one.note)}*")
    return "\n\n".join(said)


def advice(explained: Explanation) -> list[str]:
    """What to look at and what would tell, where the first answer is not sure."""
    said = []
    if explained.error is not None and explained.error.look and not explained.found:
        said.append(tell("**Look at** {place}", place=told(explained.error.look)))
    if explained.sure:
        return said
    if explained.check:
        said.append(
            f"{tell('**To see it there**, put before the line that raises:')}\n\n```python\n{explained.check}\n```"
        )
    if explained.probe:
        said.append(tell("**To watch a run**: `{command}`", command=explained.probe))
    return said


def _where(report: Report, place: Place) -> str:
    location = report.location(place)
    cell = f"cell {location.cell}:" if location.cell else ""
    return f"`{report.shown(place.path)}:{cell}{location.row}`"


def _diff(one: Answer, report: Report) -> str:
    """What the fix changes, without context: `-` and `+` lines under the name of each file, cell by cell in a notebook."""
    assert one.fix is not None
    out: list[str] = []
    for path in dict.fromkeys(edit.path for edit in one.fix.edits):
        source = report.source(path)
        if source is None:
            continue
        out.append(f"# {report.shown(path)}")
        edits = sorted((edit for edit in one.fix.edits if edit.path == path), key=lambda edit: edit.start, reverse=True)
        for part in parts(source):
            old = new = part.source.text
            for edit in edits:
                if part.start <= edit.start and edit.end <= part.start + len(old):
                    new = new[: edit.start - part.start] + edit.content + new[edit.end - part.start :]
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
            out += [line for line in lines if not line.startswith(("---", "+++"))]
    if len(out) > DIFF_LINES:
        out = [*out[:DIFF_LINES], f"# … {len(out) - DIFF_LINES} more lines"]
    return "\n".join(out)
