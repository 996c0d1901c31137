"""What the editor shows besides findings: what is true at a place, coloured words, grad mode by line, hints, lenses.

    facts(project, path, offset)  ->  Fact(start, end, markdown) | None

All of it comes from the interpretation that findings come from, run once more with every expression watched, for one
file and the programs that run through it. That costs more than a check, so it is done when asked for and remembered
until something that was read changes.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from .. import ir
from ..facts import Cut
from ..findings import Finding, Place
from ..flow import events
from ..messages import listed, tell
from ..project import Project
from ..room import roomy
from ..text import Source
from ..units import Unit
from ..words import Found, candidates, meanings, words
from . import marks
from .describe import Describer
from .line import Line, Use
from .line import line as find_line
from .marks import Hint, Lens, Met, Region, Token, finding_hints, origin
from .observe import LOOKS_LIMIT, Looks, Names, Observed, Seen, entries, observe

# What is seen of a program is megabytes: the present text and the one before are remembered.
VERSIONS_KEPT = 2
# A longer expression is shown by its beginning.
NAME_LIMIT = 40


class Fact(NamedTuple):
    """What is true at a place: Markdown, the short answer first."""

    start: int
    end: int
    markdown: str


class Insight:
    """What is known of one file, seen from itself and from the programs that run through it."""

    def __init__(self, project: Project, path: str, source: Source, observed: Sequence[Observed]) -> None:
        self.path = path
        self.source = source
        self.observed = [one for one in observed if path in one.looks or one.entry == path]
        self._project = project

    # ------------------------------------------------------------ what was seen

    @functools.cached_property
    def _looks(self) -> dict[tuple[int, int], list[tuple[Seen, Observed]]]:
        """What each span of the file was seen to be; where whole programs pass it, what they saw."""
        found: dict[tuple[int, int], list[tuple[Seen, Observed]]] = {}
        for one in self.observed:
            spans: dict[int, Looks] = one.looks.get(self.path, {})
            for at, looks in spans.items():
                found.setdefault(ir.unpack(at), []).extend((seen, one) for seen in looks.values())
        for span, looks in found.items():
            whole = [item for item in looks if not item[0].alone]
            if whole and len(whole) < len(looks):
                found[span] = whole
        return found

    def looks(self, start: int, end: int) -> list[Seen]:
        return [seen for seen, _ in self._looks.get((start, end), ())]

    def spans(self) -> Iterator[tuple[tuple[int, int], list[Seen]]]:
        for span, looks in self._looks.items():
            yield span, [seen for seen, _ in looks]

    @functools.cached_property
    def met(self) -> Met:
        return Met([flow for one in self.observed for flow in one.flows])

    def backwards(self) -> Iterator[events.Backward]:
        """The backward calls in this file, as every program has them; those of lone functions if no program does."""
        whole: dict[Place, bool] = {}
        found = []
        for one in self.observed:
            for flow in one.flows:
                for event in flow.of(events.Backward):
                    if event.place.path == self.path:
                        whole[event.place] = whole.get(event.place, False) or flow.whole
                        found.append((flow.whole, event))
        return (event for is_whole, event in found if is_whole or not whole[event.place])

    @functools.cached_property
    def _cuts(self) -> dict[int, list[Cut]]:
        found: dict[int, list[Cut]] = {}
        text = self.source.text
        for one in self.observed:
            for flow in one.flows:
                for event in flow.of(events.Lost):
                    place = event.cut.place
                    if place.path == self.path:
                        name = text[place.start : place.end].rstrip("() \t\r\n\\")
                        found.setdefault(place.start + len(name), []).append(event.cut)
        return found

    def cuts_at(self, word_end: int) -> list[Cut]:
        """What was lost by the call whose name ends here: `x.item` of `x.item()`."""
        return self._cuts.get(word_end, [])

    @functools.cached_property
    def _describers(self) -> dict[str, Describer]:
        return {one.entry: Describer(one, self.where) for one in self.observed}

    def names(self) -> Names:
        """What the user calls parameters."""
        return next(iter(self._describers.values())).names

    def describer_of(self, event: events.Event) -> Describer:
        """The words of the program in which something happened."""
        for one in self.observed:
            if any(event in flow.events for flow in one.flows):
                return self._describers[one.entry]
        return next(iter(self._describers.values()))

    # ------------------------------------------------------------ the text

    def line_of(self, offset: int) -> int:
        return self.source.position(offset)[0]

    def line_end(self, line: int) -> int:
        return marks.line_end(self.source, line)

    def where(self, place: Place) -> str:
        """How a reader finds a place: "line 12", "cell 3, line 2", "utils/data.py:13"."""
        present = self._project.source(self.path) or self.source  # numbers of cells change with cells that are no code
        cells = present.cells if present.text == self.source.text else self.source.cells
        if place.path == self.path and cells is not None:
            cell, line, _ = cells.position(place.start)
            return tell("cell {cell}, line {n}", cell=cell + 1, n=line + 1)
        if place.path == self.path:
            return tell("line {n}", n=self.line_of(place.start) + 1)
        source = self._project.source(place.path)
        name = posixpath.relpath(place.path, posixpath.dirname(self.path))
        if name.startswith("../.."):
            name = posixpath.basename(place.path)
        return name if source is None else f"{name}:{source.position(place.start)[0] + 1}"

    @functools.cached_property
    def _words(self) -> list[Found]:
        module = self._project.module(self.path)
        if module is None or module.source.text != self.source.text:
            return []
        return [found for found in candidates(module) if marks.is_torchs(self, found)]

    def words(self) -> list[Found]:
        """The words that are torch's."""
        return self._words

    @functools.cached_property
    def _static(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
        """Bodies of functions; targets of assignments; headers of `with` and decorators."""
        bodies: list[tuple[int, int]] = []
        targets: list[tuple[int, int]] = []
        scoped: list[tuple[int, int]] = []
        module = self._project.module(self.path)
        for base, node in marks.nodes_of(module.units if module is not None else ()):

            def span(e: ir.Expr, base: int = base) -> tuple[int, int]:
                start, end = ir.unpack(e.at)
                return base + start, base + end

            if isinstance(node, ir.Def):
                bodies.append(span(node))  # type: ignore[arg-type]
                scoped += [span(e) for e in node.decorators]
            elif isinstance(node, ir.With):
                scoped += [span(e) for e, _ in node.items]
            elif isinstance(node, ir.Assign):
                targets += [span(t) for target in node.targets for t in marks.targets_in(target)]
            elif isinstance(node, (ir.AugAssign, ir.AnnAssign)):
                targets += [span(t) for t in marks.targets_in(node.target)]
        return bodies, targets, scoped

    def bodies(self) -> list[tuple[int, int]]:
        return self._static[0]

    def targets(self) -> list[tuple[int, int]]:
        return self._static[1]

    def scoped(self) -> list[tuple[int, int]]:
        return self._static[2]

    def units(self) -> Sequence[Unit]:
        module = self._project.module(self.path)
        return module.units if module is not None and module.source.text == self.source.text else ()

    # ------------------------------------------------------------ answers

    def settle(self) -> None:
        """Finds out all that is read from the text: it may have changed when that is asked for."""
        self.words()
        self.hints(())
        _ = self.lenses, self.trainings

    def line(self, offset: int) -> Line | None:
        """Where the value at an offset comes from, is used and ends."""
        return find_line(self, offset)

    @functools.cached_property
    def regions(self) -> list[Region]:
        return marks.regions(self)

    @functools.cached_property
    def lenses(self) -> list[Lens]:
        return marks.lenses(self)

    @functools.cached_property
    def trainings(self) -> list[int]:
        return marks.trainings(self)

    def tokens(self, findings: Sequence[Finding]) -> list[Token]:
        return marks.tokens(self, findings)

    def hints(self, findings: Sequence[Finding]) -> list[Hint]:
        return marks.hints(self, findings)

    def fact(self, offset: int) -> Fact | None:
        """What is true of the word or the expression at an offset."""
        found = next((f for f in self.words() if f.word.start <= offset <= f.word.end), None)
        if found is not None:
            return self._word_fact(found)
        around = [(start, end) for start, end in self._looks if start <= offset <= end]
        for start, end in sorted(around, key=lambda span: (span[1] - span[0], span[0])):
            markdown = self._describe(start, end)
            if markdown:
                return Fact(start, end, markdown)
            if offset < end:
                return None  # what encloses the expression under the pointer is another thing
        return None

    def _word_fact(self, found: Found) -> Fact:
        word = found.word
        parts = []
        if word.name == "step" and (other := self._other_step(found)):
            return Fact(word.start, word.end, other)
        if found.owner is not None and meanings()[word.name].of == "method":
            parts.append(self._describe(*found.owner))
            if word.kind == "cut" and marks.is_harmless(self, found):
                parts.append(tell("Harmless here: nothing that is back-propagated comes from it."))
        else:
            start = found.owner[0] if found.owner is not None else word.start
            looks = self._looks.get((start, word.end), [])
            if looks:
                mode = self._describers[looks[0][1].entry].mode([seen for seen, _ in looks])
                parts.append(tell("Here {mode}.", mode=mode) if mode else "")
        parts.append(meanings()[word.name].text)
        return Fact(word.start, word.end, "\n\n".join(part for part in parts if part))

    def _other_step(self, found: Found) -> str:
        """What a `step` does that is no optimizer's."""
        looks = self._looks.get(found.owner, []) if found.owner is not None else []
        if not looks or found.owner is None:
            return ""
        return self._describers[looks[0][1].entry].step([seen for seen, _ in looks], self.path, found.owner[0])

    def description(self, start: int, end: int) -> str:
        """What is true of exactly this expression, Markdown; "" if nothing is to be said."""
        return self._describe(start, end)

    def _describe(self, start: int, end: int) -> str:
        looks = self._looks.get((start, end), [])
        if not looks or len(looks) > LOOKS_LIMIT:
            return ""
        name = " ".join(self.source.text[start:end].split())
        if len(name) > NAME_LIMIT:
            name = name[: NAME_LIMIT - 1] + "…"
        programs = {one.entry for _, one in looks}
        describer = self._describers[looks[0][1].entry]
        text = describer.value(name.replace("`", "'"), [seen for seen, _ in looks])
        if text and self.path not in programs and not any(seen.alone for seen, _ in looks):
            names = listed([f"`{posixpath.basename(entry)}`" for entry in sorted(programs)])
            text += f"\n- {tell('as run by {programs}', programs=names)}"
        return text


# ---------------------------------------------------------------- the face


def plain_tokens(project: Project, path: str, findings: Sequence[Finding] = ()) -> list[Token]:
    """As `tokens`, by the looks of the words alone: what is harmless is not known. Costs next to nothing."""
    module = project.module(path)
    found = [f for f in candidates(module) if f.likely] if module is not None else []
    named = marks.named_places(path, findings)
    return [marks.token(f, named) for f in found if f.word.kind in marks.COLOURED]


def word_fact(project: Project, path: str, offset: int) -> Fact | None:
    """What the word at an offset does, wherever it stands."""
    module = project.module(path)
    for word in words(module) if module is not None else ():
        if word.start <= offset <= word.end:
            return Fact(word.start, word.end, meanings()[word.name].text)
    return None


@roomy
def insight(project: Project, path: str, cancelled: Callable[[], bool] | None = None) -> Insight | None:
    """What is known of a file; made anew only if something that was read has changed. Raises check.CancelledError."""
    module = project.module(path)
    if module is None:
        return None
    programs = entries(project, path)
    memo = project.memo("insight", VERSIONS_KEPT)
    return memo.get((path, programs), lambda: _make(project, path, programs, cancelled))


class _NotMadeError(Exception):
    pass


def ready(project: Project, path: str) -> Insight | None:
    """What is known of a file, if it was found out before and nothing that was read has changed since."""

    def make() -> tuple[Insight | None, frozenset[str]]:
        raise _NotMadeError

    if project.module(path) is None:
        return None
    try:
        return project.memo("insight", VERSIONS_KEPT).get((path, entries(project, path)), make)
    except _NotMadeError:
        return None


def forget(project: Project, kept: Collection[str]) -> None:
    """Forget what was seen of files other than these."""
    programs = {program for path in kept for program in entries(project, path)}
    project.memo("insight", VERSIONS_KEPT).keep(lambda key: isinstance(key, tuple) and key[0] in kept)
    project.memo("observed", VERSIONS_KEPT).keep(programs.__contains__)


def _make(
    project: Project, path: str, programs: Sequence[str], cancelled: Callable[[], bool] | None
) -> tuple[Insight, frozenset[str]]:
    observed = []
    for program in programs:
        module = project.module(program)
        if module is not None:
            observed.append(_observed(project, program, cancelled))
    module = project.module(path)
    assert module is not None
    read = frozenset({path}).union(*(one.read for one in observed))
    return Insight(project, path, module.source, observed), read


def _observed(project: Project, path: str, cancelled: Callable[[], bool] | None) -> Observed:
    def make() -> tuple[Observed, frozenset[str]]:
        module = project.module(path)
        assert module is not None
        found = observe(project, module, cancelled)
        return found, found.read

    return project.memo("observed", VERSIONS_KEPT).get(path, make)


def facts(project: Project, path: str, offset: int) -> Fact | None:
    """What is true here: of a word that does something to gradients, a tensor, a module, an optimizer, ..."""
    known = insight(project, path)
    return known.fact(offset) if known is not None else None


def tokens(project: Project, path: str, findings: Sequence[Finding] = ()) -> list[Token]:
    """The words that cut, switch and send gradients; `findings` are those that make a word glare."""
    known = insight(project, path)
    return known.tokens(findings) if known is not None else []


def regions(project: Project, path: str) -> list[Region]:
    """The lines of a file by the grad mode in which they run, and who set it."""
    known = insight(project, path)
    return known.regions if known is not None else []


def hints(project: Project, path: str, findings: Sequence[Finding] = ()) -> list[Hint]:
    """What to write behind values: where they were cut, that a loss has its gradient, who turned gradients off."""
    known = insight(project, path)
    return known.hints(findings) if known is not None else []


def lenses(project: Project, path: str) -> list[Lens]:
    """What reaches each loss that is back-propagated, and which parameters of each module class train."""
    known = insight(project, path)
    return known.lenses if known is not None else []


__all__ = [
    "Fact", "Hint", "Insight", "Lens", "Line", "Region", "Token", "Use", "facts", "finding_hints", "forget", "hints", "insight", "lenses",
    "origin", "plain_tokens", "ready", "regions", "tokens", "word_fact",
]  # fmt: skip
