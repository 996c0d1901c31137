"""The sentences that all ways of writing an explanation have in common."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from ..messages import listed, tell, told
from ..report import Report
from . import LIKELY, POSSIBLE, SURE, Answer, Explanation

HEAD_LIMIT = 300  # characters of a message in a heading; the whole of it the user has before their eyes


def heading(explained: Explanation) -> str:
    """The error on one line."""
    raised = explained.raised
    said = raised.said if len(raised.said) <= HEAD_LIMIT else raised.said[: HEAD_LIMIT - 1] + "…"
    if raised.kind:
        return f"{raised.name}: {said}" if said else raised.name
    return said or tell("an error that the traceback does not show")


def where_raised(explained: Explanation, report: Report, code: Callable[[str], str] = str) -> str:
    """ "raised at train.py:31 in train, called from train.py:40"; "" if no frame is of the user's code.

    `code` marks what is quoted from the program.
    """
    if not explained.frames:
        return ""
    shown = []
    for one in reversed(explained.frames):
        location = report.location(one.place)
        cell = f"cell {location.cell}:" if location.cell else ""
        place = code(f"{report.shown(one.path)}:{cell}{location.row}")
        if one.frame.function not in ("", "<module>"):
            place = tell("{place} in {function}", place=place, function=code(one.frame.function))
        shown.append(place)
    said = tell("raised at {place}", place=shown[0])
    if explained.raised.rank:
        said = tell("raised (process {rank}) at {place}", rank=explained.raised.rank, place=shown[0])
    if len(shown) > 1:
        calls = told(listed([*shown[1:4], "…"] if len(shown) > 4 else shown[1:4]))
        said = tell("{raised}, called from {places}", raised=said, places=calls)
    return said


def certainty(answer: Answer) -> str:
    """How sure an answer is, to begin it with."""
    if answer.finding is None and answer.certainty == POSSIBLE:
        return tell("Not sure:")
    if answer.certainty == SURE:
        return tell("The cause:")
    return tell("Likely:") if answer.certainty == LIKELY else tell("Possible:")


def apply_command(explained: Explanation, answer: Answer, report: Report) -> str:
    """The command that applies the fix of an answer; "" if it has none that a command applies."""
    fix = answer.fix
    if fix is None or fix.applicability.value == "display-only":
        return ""
    paths = dict.fromkeys([*(one.path for one in explained.frames[:1]), *(edit.path for edit in fix.edits)])
    unsafe = " --unsafe-fixes" if fix.applicability.value == "unsafe" else ""
    return shlex.join(["gradline", "check", "--fix"]) + unsafe + " " + shlex.join(map(report.shown, paths))


def unknown(explained: Explanation) -> str:
    """What is to be said of an error that the table does not have."""
    if explained.error is not None:
        return ""
    return tell(
        "gradline does not know this error: it is none of autograd's that it has learned. What follows is what it finds on "
        "the lines that ran, which may have nothing to do with it."
    )


def repeats(explained: Explanation) -> list[str]:
    """That there is more in the text than was explained."""
    if not explained.others:
        return []
    if explained.others == 1:
        return [tell("the text has 1 more exception, which is not explained here")]
    return [tell("the text has {n} more exceptions, which are not explained here", n=explained.others)]
