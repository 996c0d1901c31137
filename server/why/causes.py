"""What gradline finds in the program that raised, in the order in which it is likely to be the cause.

All of it is the engine's findings, those that rest on a guess among them, said as such. What this adds is the order: a
traceback tells which lines ran, and the error which rules can be meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import check as engine
from ..findings import Finding, Place, Step
from ..messages import joined, say
from ..workspace import Workspace
from .errors import Error
from .places import Located, lines_of

if TYPE_CHECKING:
    from ..edits import Fix

SURE, LIKELY, POSSIBLE = "sure", "likely", "possible"

MODULES_LIMIT = 300  # files of one program that are checked; those nearest to the entry come first
ANSWERS_LIMIT = 4  # a longer list helps nobody at midnight
FIXES_LIMIT = 3  # answers for which a fix is looked for: each costs two checks


class Answer(NamedTuple):
    """One possible cause: `title` says it, `place` and `trail` show it, `fix` mends it.

    `finding` is None where no rule spoke and only what is known of the line is told; `note` says what is to be known of
    the answer itself (that it rests on a guess, that a comment silences it).
    """

    title: str
    certainty: str
    place: Place | None
    trail: tuple[Step, ...] = ()
    finding: Finding | None = None
    fix: Fix | None = None
    facts: tuple[str, ...] = ()
    note: str = ""


def findings(workspace: Workspace, paths: Sequence[str]) -> tuple[list[Finding], frozenset[Finding], tuple[str, ...]]:
    """All findings of the programs in these files and of what they import; which of them are silenced; notes."""
    known = list(dict.fromkeys(paths))
    workspace.check(known, doubtful=True)
    for module in workspace.project.modules():
        if len(known) >= MODULES_LIMIT:
            break
        if module.path not in known and module.path.endswith((".py", ".ipynb")):
            known.append(module.path)
    settled = workspace.check(known, doubtful=True)
    shown = [finding for found in settled.findings.values() for finding in found]
    try:
        every = engine.check(workspace.project, known, doubtful=True).findings
    except Exception:  # a file over which the engine breaks: `workspace.check` has noted it and gone on without it
        return shown, frozenset(), settled.notes
    places = {(finding.code, finding.place) for finding in shown}
    silenced = [f for found in every.values() for f in found if (f.code, f.place) not in places]
    return [*shown, *silenced], frozenset(silenced), settled.notes


class Ranking:
    """Orders findings by how likely each is the cause of `error` in the chain of `frames` (outermost first)."""

    def __init__(
        self, workspace: Workspace, error: Error | None, frames: Sequence[Located], forward: Sequence[Located]
    ) -> None:
        self._workspace = workspace
        self._error = error
        self._raising = frames[-1] if frames else None
        self._others = frames[:-1]
        self._forward = forward

    def order(self, found: Iterable[Finding]) -> list[tuple[float, str, Finding]]:
        """The findings that can be meant, the likeliest first, each with its score and how sure it is."""
        ranked = [(*scored, finding) for finding in found if (scored := self._score(finding)) is not None]
        return sorted(ranked, key=lambda one: (-one[0], one[2].place, one[2].code))

    def _touches(self, finding: Finding, frames: Iterable[Located]) -> tuple[bool, bool]:
        """Whether a finding's own place, or its trail, is on the line of one of the frames."""
        lines = {(one.path, one.line) for one in frames}

        def on(place: Place) -> bool:
            return any((place.path, line) in lines for line in lines_of(self._workspace, place))

        return on(finding.place), any(on(step.place) for step in finding.trail)

    def _score(self, finding: Finding) -> tuple[float, str] | None:
        error = self._error
        here = error.here if error is not None else ()
        elsewhere = error.elsewhere if error is not None else ()
        raising = [self._raising] if self._raising is not None else []
        at, by_trail = self._touches(finding, raising)
        seen = at or by_trail
        if finding.name in here and (seen or finding.name not in elsewhere):
            score = 100.0 - 5 * here.index(finding.name)
        elif finding.name in elsewhere:
            score = 90.0 - 5 * elsewhere.index(finding.name)
        elif at and finding.severity.fails:
            score = 20.0
        else:
            return None
        certainty = POSSIBLE
        if at or by_trail:
            score += 60 if at else 45
            certainty = SURE if finding.name in here or finding.name in elsewhere else POSSIBLE
        elif any(self._touches(finding, self._forward)):
            score += 50
            certainty = SURE
        elif any(self._touches(finding, self._others)):
            score += 25
            certainty = LIKELY
        elif finding.name in elsewhere:
            certainty = LIKELY
        elif raising:
            score -= 60  # it speaks of another line than the one that raised
        if finding.doubt:
            score -= 20
            certainty = LIKELY if certainty == SURE else POSSIBLE
        if not finding.severity.fails:
            score -= 10
        if self._raising is not None and finding.place.path == self._raising.path:
            score += 3
        return score, certainty


def answers(
    workspace: Workspace, ranked: Sequence[tuple[float, str, Finding]], silenced: frozenset[Finding]
) -> list[Answer]:
    """The ranked findings as answers; one that only tells a part of another's trail is taken up in it."""
    kept: list[tuple[Finding, str, list[Finding]]] = []
    for _, certainty, finding in ranked:
        lines = _lines(workspace, [finding.place])
        for known, _, parts in kept:
            if lines & _lines(workspace, [known.place, *(step.place for step in known.trail)]):
                parts.append(finding)
                break
        else:
            if len(kept) < ANSWERS_LIMIT:
                kept.append((finding, certainty, []))
    if any(certainty == SURE for _, certainty, _ in kept):
        kept = [one for one in kept if one[1] != POSSIBLE]
    made = []
    for index, (finding, certainty, parts) in enumerate(kept):
        fix = None
        if index < FIXES_LIMIT:
            fix = next((found for one in (finding, *parts) if (found := workspace.fix(one)) is not None), None)
        made.append(
            Answer(finding.message, certainty, finding.place, finding.trail, finding, fix, (), _note(finding, silenced))
        )
    return made


def _note(finding: Finding, silenced: frozenset[Finding]) -> str:
    notes: list[str] = []
    if finding.doubt:
        notes.append(
            say(
                "this rests on a guess ({doubts}), so `gradline check` does not show it",
                doubts=", ".join(sorted(finding.doubt)),
            )
        )
    elif finding in silenced:
        notes.append(say("a comment or the settings silence this, so `gradline check` does not show it"))
    return joined(notes, "{first}; {rest}") if notes else ""


def _lines(workspace: Workspace, places: Iterable[Place]) -> set[tuple[str, int]]:
    return {(place.path, line) for place in places for line in lines_of(workspace, place)}
