"""What gradline finds in the program that raised, in the order in which it is likely to be the cause.

All of it is the engine's: findings (those that rest on a guess too, said as such), and what hovering over the line that
raises would say. What this adds is the order: a traceback tells which lines ran, and the error which rules can be meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import check as engine
from ..facts import ON, Const, Cut, Mode, Number, Tensor, Union, Value
from ..findings import Finding, Place, Step
from ..flow.trails import cut_note, mode_note
from ..insight import Insight, insight
from ..workspace import Workspace
from .errors import Error
from .places import Located, lines_of

if TYPE_CHECKING:
    from ..edits import Fix

SURE, LIKELY, POSSIBLE = "sure", "likely", "possible"

MODULES_LIMIT = 300  # files of one program that are checked; those nearest to the entry come first
ANSWERS_LIMIT = 4  # a longer list helps nobody at midnight
FACTS_LIMIT = 3
WORDS_LIMIT = 6
FIXES_LIMIT = 3  # answers for which a fix is looked for: each costs two checks

# What a line is about, by what stands behind it, or in front of it.
_BEHIND = re.compile(
    r"\.(?:backward|grad|numpy|requires_grad_?|register_hook|retain_grad|item|detach|\w+_)\b|\s*(?:[-+*/@]|\*\*|//)=(?!=)|\["
)
_BEFORE = re.compile(r"\b(?:backward|grad|deepcopy|step|numpy|array|sum|mean)\(\s*\[?$")


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


class Seen(NamedTuple):
    """What is known of the line that raises: what it is about, facts in Markdown, and where its values come from."""

    subject: str
    facts: tuple[str, ...]
    trail: tuple[Step, ...]


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
    notes = []
    if finding.doubt:
        notes.append(
            f"this rests on a guess ({', '.join(sorted(finding.doubt))}), so `gradline check` does not show it"
        )
    elif finding in silenced:
        notes.append("a comment or the settings silence this, so `gradline check` does not show it")
    return "; ".join(notes)


def _lines(workspace: Workspace, places: Iterable[Place]) -> set[tuple[str, int]]:
    return {(place.path, line) for place in places for line in lines_of(workspace, place)}


# ---------------------------------------------------------------- the line that raises


def seen(workspace: Workspace, raising: Located) -> Seen:
    """What hovering over the line that raises would tell."""
    source = workspace.source(raising.path)
    if source is None:
        return Seen("", (), ())
    begin = source.offset(raising.line, 0)
    end = begin + len(source.line_text(raising.line))
    fallback = _subject_by_words(source.text[begin:end])
    try:
        known = insight(workspace.project, raising.path)
    except Exception:  # the engine breaks over this file: what is known without it must do
        known = None
    if known is None:
        return Seen(fallback, (), ())
    start, stop = raising.place.start, raising.place.end
    spans = sorted(span for span, _ in known.spans() if begin <= span[0] and span[1] <= end)
    about = _subject(source.text, spans, start, stop) or _subject(source.text, spans, begin, end)
    chosen = [about] if about is not None else []
    for span in sorted(spans, key=lambda one: (one[0], one[0] - one[1])):
        if start <= span[0] and span[1] <= stop and not any(a <= span[0] and span[1] <= b for a, b in chosen):
            chosen.append(span)
    facts: list[str] = []
    for span in chosen:
        text = known.description(*span)
        if text and text not in facts and len(facts) < FACTS_LIMIT:
            facts.append(text)
    subject = source.text[about[0] : about[1]] if about is not None else fallback
    return Seen(subject, tuple(facts), _origins(known, about) if about is not None else ())


def _subject(text: str, spans: Sequence[tuple[int, int]], start: int, stop: int) -> tuple[int, int] | None:
    """The expression in `[start, stop)` that the line is about."""
    inside = [span for span in spans if start <= span[0] and span[1] <= stop]
    for found in _BEHIND.finditer(text, start, stop):
        ends = [span for span in inside if span[1] == found.start()]
        if ends:
            return min(ends)  # the longest
    for span in inside:
        if _BEFORE.search(text[start : span[0]]):
            return max((one for one in inside if one[0] == span[0]), key=lambda one: one[1])
    return None


def _subject_by_words(line: str) -> str:
    found = re.search(r"([A-Za-z_][\w.]*(?:\[[^\]]*\])?)(?:\.(?:backward|grad)\b)", line)
    return found[1] if found else ""


def _origins(known: Insight, span: tuple[int, int]) -> tuple[Step, ...]:
    """Where what is seen at a span lost its graph, was switched off, or became None."""
    steps: dict[Place, str] = {}
    for look in known.looks(*span):
        _switched(steps, look.mode)
        for value in look.values:
            for cut in _cuts(value):
                if cut.mode is not None and cut.mode.place is not None:
                    steps.setdefault(cut.mode.place, mode_note(cut.mode))
                elif cut.kind not in ("mode", "inference"):
                    steps.setdefault(cut.place, cut_note(cut))
            if isinstance(value, Const) and value.value is None and value.made is not None:
                steps.setdefault(value.made, "None comes from here")
            if isinstance(value, Number) and value.source is not None:
                steps.setdefault(value.source, f"`{value.how}` makes a Python number of it")
    return tuple(Step(place, note) for place, note in sorted(steps.items(), reverse=True))


def _switched(steps: dict[Place, str], mode: Mode) -> None:
    if mode.kind != ON and mode.place is not None:
        steps.setdefault(mode.place, mode_note(mode))


def _cuts(value: Value) -> Iterable[Cut]:
    if isinstance(value, Union):
        for option in value.options:
            yield from _cuts(option)
    elif isinstance(value, Tensor):
        yield from value.cuts
    elif isinstance(value, Number) and value.cut is not None:
        yield value.cut


class Missing(NamedTuple):
    """Parameters that have no gradient where one is asked for: said in `note`, with the backward calls in `trail`."""

    note: str
    trail: tuple[Step, ...]


def without_gradient(workspace: Workspace, raising: Located) -> Missing | None:
    """Which of the parameters whose gradient a line asks for no backward of the program reaches; None if all, or unknown."""
    try:
        known = insight(workspace.project, raising.path)
    except Exception:  # see `seen`
        return None
    if known is None:
        return None
    for span, looks in known.spans():
        if not (raising.place.start <= span[0] and span[1] <= raising.place.end):
            continue
        asked = dict.fromkeys(leaf for look in looks for value in look.values for leaf in getattr(value, "leaves", ()))
        backwards = [event for event in known.backwards() if not event.grad]
        if not asked or not backwards:
            continue
        reached = {leaf for event in backwards for leaf in event.reached}
        missing = [leaf for leaf in asked if leaf not in reached]
        if not missing or len(missing) == len(asked):
            continue
        describer = known.describer_of(backwards[0])
        note = f"no backward of this program reaches {describer.short(missing)}: there `.grad` stays None"
        trail = dict.fromkeys(event.place for event in backwards)
        reached_too = describer.short([leaf for leaf in asked if leaf in reached])
        return Missing(note, tuple(Step(place, f"this reaches {reached_too}") for place in trail))
    return None


def suspects(workspace: Workspace, paths: Iterable[str], kinds: frozenset[str]) -> list[Step]:
    """Words in these files that can cut or switch, those known to be harmless left out: where to look, no more."""
    found: list[Step] = []
    for path in dict.fromkeys(paths):
        try:
            known = insight(workspace.project, path)
        except Exception:  # see `seen`
            continue
        source = workspace.source(path)
        for token in known.tokens(()) if known is not None and source is not None else ():
            if token.kind in kinds and "harmless" not in token.marks and len(found) < WORDS_LIMIT:
                word = source.text[token.start : token.end] if source is not None else ""
                what = "can cut the line" if token.kind == "cut" else "switches gradients"
                found.append(Step(Place(path, token.start, token.end), f"`{word}` {what}"))
    return found
