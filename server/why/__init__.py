"""`gradline why`: from a traceback to its cause in the code that is here.

    explained = explain(text, folder)    # Explanation | None: there is no traceback in the text

The traceback is read (`tracebacks.py`), its error looked up (`errors.md`), its frames found in the user's files
(`places.py`), and what the engine finds in that program put in the order in which it is likely to be the cause
(`causes.py`). `markdown.py`, `terminal.py` and `json.py` write it down. Nothing is run, and torch is not needed.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..findings import Place, Step
from ..messages import say
from ..workspace import Workspace
from .causes import LIKELY, POSSIBLE, SURE, Answer, Ranking, answers, findings
from .errors import Error, errors, find, find_in
from .line import Line, suspects
from .places import Located, Locator, entry_of, folders_of, is_library, roots
from .tracebacks import Frame, Raised, read

TEXT_LIMIT = 64_000_000  # characters; a longer log should be cut by who has it

Opened = Callable[[list[str]], Workspace]  # a workspace of these folders


@dataclass(frozen=True)
class Explanation:
    """What is to be said of a traceback.

    `error` is the entry of the table, None if it is not known. `frames` are those of the user's code that is here,
    outermost first; the last one is where it was raised. `answers` are the likely causes, the likeliest first. `check` is
    code that shows, before the line that raised, what is the matter; `probe` the command that would tell more. `others`
    counts the exceptions of the text that were not explained.
    """

    raised: Raised
    error: Error | None
    frames: tuple[Located, ...]
    answers: tuple[Answer, ...]
    check: str
    probe: str
    notes: tuple[str, ...]
    others: int
    workspace: Workspace

    @property
    def raising(self) -> Located | None:
        return self.frames[-1] if self.frames else None

    @property
    def found(self) -> bool:
        """Whether a cause was found, and not only the place where it shows."""
        known = self.error is not None
        return known and any(one.finding is not None or one.certainty != POSSIBLE for one in self.answers)

    @property
    def sure(self) -> bool:
        return bool(self.answers) and self.answers[0].certainty == SURE


def explain(
    text: str,
    folder: str | None = None,
    open_workspace: Opened | None = None,
    command: Sequence[str] = (),
    near: Workspace | None = None,
) -> Explanation | None:
    """Explains the error in a text that a program wrote; None if there is none in it.

    `folder` (default: the current one) is where relative paths begin and where files of another machine are looked for;
    `command` is what was run, if that is known; `near` is a workspace to be used if the files are in it. Raises ConfigError where a project's settings can't be used.
    """
    folder = os.path.abspath(folder or ".").replace(os.sep, "/")
    raised, error, others = chosen(text[-TEXT_LIMIT:])
    if raised is None:
        return None
    folders = folders_of((*raised.frames, *raised.forward), folder)
    if near is not None and all(near.disk.is_project(f"{one}/_") for one in folders):
        workspace = near
    else:
        workspace = (open_workspace or Workspace)(roots(folders))
    locator = Locator(workspace, folder)
    frames = [one for frame in raised.frames if (one := locator.locate(frame)) is not None]
    forward = [one for frame in raised.forward if (one := locator.locate(frame)) is not None]
    script = entry_of(command, folder)
    paths = [one.path for one in (*frames, *forward)]
    if script is not None:
        paths.insert(0, script)
    if script is None and not any(one.is_module for one in frames):
        paths += locator.files()  # the program that ran is not known: any of those here may be it
    found, silenced, engine_notes = findings(workspace, paths)
    ranked = Ranking(workspace, error, frames, forward).order(found)
    made = answers(workspace, ranked, silenced)
    line = Line(workspace, frames[-1]) if frames else None
    if line is not None:
        made = _with_line(made, error, line, forward)
    made = _with_suspects(made, workspace, error, frames)
    return Explanation(
        raised,
        error,
        tuple(frames),
        tuple(made),
        _check(error, line.subject if line is not None else ""),
        _probe(error, script or (frames[0].path if frames and frames[0].is_module else None), command, folder),
        (*_notes(raised, frames, folder), *engine_notes),
        others,
        workspace,
    )


def chosen(text: str) -> tuple[Raised | None, Error | None, int]:
    """The exception of a text that is to be explained, its entry, and how many others there are.

    Of those whose error is known the last chain of exceptions counts, and in it the first exception: those after it were
    raised because of it. Launchers repeat a worker's error in their own words; what they raise is not known here.
    """
    every = read(text)
    if not every:
        found = find_in(text)
        return (Raised("", found[1]), found[0], 0) if found is not None else (None, None, 0)
    chains: list[list[Raised]] = [[]]
    for raised in every:
        chains[-1].append(raised)
        if not raised.link:
            chains.append([])
    for chain in reversed(chains):
        for raised in chain:
            entry = find(raised) if raised.kind else None
            if entry is not None:
                return raised, entry, len(every) - 1
    own = [raised for raised in every if any(not is_library(frame) for frame in raised.frames)]
    return (own or every)[-1], None, len(every) - 1


def _with_line(made: list[Answer], error: Error | None, line: Line, forward: Sequence[Located]) -> list[Answer]:
    """What is known of the line that raised: with the first answer if that is a good one, else as an answer of its own."""
    facts = line.facts()
    if made and made[0].certainty in (SURE, LIKELY):
        return [made[0]._replace(facts=facts[:1]), *made[1:]]
    if forward:
        calls = [Step(one.place, say("this calls it")) for one in reversed(forward[:-1])]
        trail = (*calls, Step(line.place, say("backward is called here")))
        title = say("anomaly mode saw this forward operation, whose backward is at fault")
        return [Answer(title, LIKELY, forward[-1].place, trail, None, None, facts), *made]
    evidence = line.evidence(error) if error is not None else None
    if evidence is not None:
        return [Answer(evidence.title, LIKELY, line.place, evidence.trail, None, None, facts), *made]
    if error is not None and error.line:
        return [Answer(error.line, LIKELY, line.place, (), None, None, facts), *made]
    steps = line.origins()
    subject = f"`{line.subject}`" if line.subject else say("this line")
    if steps:
        title = say("no rule is sure of the cause; what is known of {subject} leads here", subject=subject)
    elif facts:
        title = say("no rule is sure of the cause; this is what is known of {subject}", subject=subject)
    elif error is not None:
        title = say("it is raised here; no rule finds the cause in the code around it")
    else:
        title = say("it is raised here")
    return [Answer(title, POSSIBLE, line.place, steps, None, None, facts), *made]


def _with_suspects(
    made: list[Answer], workspace: Workspace, error: Error | None, frames: Sequence[Located]
) -> list[Answer]:
    """Where nothing was found: the words on the way that could be the cause, to be looked at."""
    if error is None or not error.words or any(one.certainty != POSSIBLE or one.finding or one.trail for one in made):
        return made
    paths = [one.path for one in reversed(frames)]
    steps = suspects(workspace, paths, error.words)
    if not steps:
        return made
    title = say("places in the files of the traceback that can do this, and were not seen to be harmless")
    return [*made, Answer(title, POSSIBLE, steps[0].place, tuple(steps[1:]))]


def _check(error: Error | None, subject: str) -> str:
    if error is None or not error.check or ("{it}" in error.check and not subject):
        return ""
    return error.check.replace("{it}", subject)


def _probe(error: Error | None, script: str | None, command: Sequence[str], folder: str) -> str:
    """The command that watches the gradients of the program that failed."""
    if error is None or not error.probe or script is None:
        return ""
    name = os.path.relpath(script, folder).replace(os.sep, "/")
    if command and os.path.basename(command[0]) in ("torchrun", "accelerate", "deepspeed", "srun", "mpirun"):
        return f"gradline probe --wrap -- {shlex.join(command)}"
    rest: list[str] = []
    for index, word in enumerate(command):
        if word.endswith((".py", ".ipynb")):
            rest = list(command[index + 1 :])
            break
    return f"gradline probe {shlex.quote(name)}" + (f" -- {shlex.join(rest)}" if rest else "")


def _notes(raised: Raised, frames: Sequence[Located], folder: str) -> list[str]:
    notes: list[str] = []
    if not raised.kind and raised.frames:
        notes.append(say("the traceback ends before its last line, so the error is not known"))
    if raised.frames and not frames:
        notes.append(
            say("none of the traceback's own files is here; they were looked for below {folder}", folder=folder)
        )
    moved = [one for one in frames if one.moved]
    if moved:
        file, line = os.path.basename(moved[-1].path), moved[-1].frame.line
        notes.append(say("{file} has changed since: line {line} reads otherwise now", file=file, line=line))
    return notes


__all__ = [
    "LIKELY", "POSSIBLE", "SURE", "TEXT_LIMIT", "Answer", "Error", "Explanation", "Frame", "Located", "Place", "Raised",
    "Step", "chosen", "errors", "explain", "read",
]  # fmt: skip
