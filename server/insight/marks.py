"""What the editor draws into a text: coloured words, regions of grad mode, hints behind values, lenses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .. import ir
from ..facts import (
    INFERENCE,
    MAYBE,
    OFF,
    ON,
    SCALAR,
    Array,
    Class,
    Const,
    Cut,
    External,
    Function,
    GradOf,
    Leaf,
    Mapping,
    Mode,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
)
from ..facts import Sequence as SequenceValue
from ..findings import Finding, Place
from ..flow import Flow, events
from ..flow.modules import leaves_of, library_class
from ..flow.naming import paths
from ..flow.objects import is_module
from ..messages import say, tell, told
from ..text import Source
from ..units import Unit
from ..words import Found, meanings
from .describe import listed
from .observe import CUT, Seen

if TYPE_CHECKING:
    from . import Insight


class Token(NamedTuple):
    """A word to colour. `kind` is "cut", "switch" or "flow"; `marks` are of "cut", "off" and "harmless"."""

    start: int
    end: int
    kind: str
    marks: tuple[str, ...] = ()


class Region(NamedTuple):
    """A span that runs with one grad mode ("on", "off", "inference", "unknown"), and who set it."""

    start: int
    end: int
    mode: str
    origin: Place | None = None
    note: str = ""


class Hint(NamedTuple):
    """Something to write behind a place. `origin` is where it leads; `is_cut`: it says that the line is cut here."""

    offset: int
    label: str
    tooltip: str = ""
    origin: Place | None = None
    is_cut: bool = True


class Lens(NamedTuple):
    """A line to write above a place; `places` are what it is about."""

    start: int
    end: int
    title: str
    places: tuple[Place, ...] = ()


def line_end(source: Source, line: int) -> int:
    """The offset behind the last character of a line that is no blank."""
    return source.offset(line, len(source.line_text(line).rstrip()))


COLOURED = frozenset({"cut", "switch", "flow"})
# Findings at a value that has lost its gradient, whose trails lead to where that was.
LOST = frozenset({"GL101", "GL102", "GL103"})
SWITCHED = "GL202"  # ... or to where gradients were turned off
# Findings whose trail ends where the damage was done. Others have their cause in their own place, and say with the
# trail what comes of it, or what it has to do with.
FROM_ELSEWHERE = LOST | {SWITCHED, "GL108", "GL507", "GL510", "GL518", "GL801", "GL805", "GL806"}
# ... and those whose trail has a switch in it, whatever it ends with.
GLARING = FROM_ELSEWHERE | {"GL104"}
NEAR = 3  # lines below a hint that need not say the same again
# Of the grad mode in a function that no program seen calls.
CALLERS = say("as torch starts; nothing seen here calls it")
# What pytest collects.
IS_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
IS_TEST = re.compile(r"\s*(async\s+)?def\s+test")
CUT_LABEL, MODE_LABEL = say("⊘ cut at"), say("⊘ grad off since")


# ---------------------------------------------------------------- words


def tokens(insight: Insight, findings: Sequence[Finding]) -> list[Token]:
    """The words of a file; a word glares where a finding, or the trail of one, is about it."""
    named = named_places(insight.path, findings)
    found = []
    for candidate in insight.words():
        word = candidate.word
        if word.kind not in COLOURED:
            continue
        made = token(candidate, named)
        if not made.marks and (
            (word.kind == "cut" and is_harmless(insight, candidate))
            or (word.kind == "switch" and _is_undone(insight, candidate))
        ):
            made = made._replace(marks=("harmless",))
        found.append(made)
    return found


def token(found: Found, named: Sequence[Place]) -> Token:
    """A word; it glares if one of the places named by findings is about it."""
    word, owner = found.word, found.owner
    glares = any(
        (place.start <= word.start and word.end <= place.end)
        or (word.kind == "flow" and owner == (place.start, place.end))
        for place in named
    )
    mark = "cut" if word.kind == "cut" else "off"
    return Token(word.start, word.end, word.kind, (mark,) if glares else ())


def named_places(path: str, findings: Sequence[Finding]) -> list[Place]:
    """The places in a file that failing findings are about, or the trails of those that come from elsewhere."""
    return [
        place
        for finding in findings
        if finding.severity is not None and finding.severity.fails
        for place in (finding.place, *(step.place for step in finding.trail if finding.code in GLARING))
        if place.path == path
    ]


def origin(finding: Finding) -> Place:
    """Where the cause of a finding is: the end of its trail, or its own place."""
    return finding.trail[-1].place if finding.trail and finding.code in FROM_ELSEWHERE else finding.place


def is_torchs(insight: Insight, found: Found) -> bool:
    """Whether a word is torch's, by what it is asked of; by its looks where no run passes it."""
    word = found.word
    of_torch = meanings()[word.name].of == "torch"
    if found.owner is None or of_torch:
        start = found.owner[0] if found.owner is not None else word.start
        looks = insight.looks(start, word.end)
        names = {v.name for seen in looks for v in seen.values if isinstance(v, External)}
        return any(name.startswith("torch") for name in names) if names else found.likely
    values = [v for seen in insight.looks(*found.owner) for v in seen.values]
    verdicts = {_can_have(value) for value in values}
    verdicts.discard(None)
    return (True in verdicts) if verdicts else found.likely


def _can_have(value: Value) -> bool | None:
    """Whether a method of this value is torch's; None: not known."""
    if isinstance(value, (Tensor, ParameterOf, Parameters, GradOf)):
        return True
    if isinstance(value, Number):  # a number that a tensor's word is asked of: what a finding is about
        return True
    if isinstance(value, Unknown):
        return False if value.foreign else None
    if isinstance(value, Union):
        verdicts = {_can_have(option) for option in value.options}
        return True if True in verdicts else None if None in verdicts else False
    if isinstance(value, Object):
        if is_module(value) or library_class(value).startswith("torch."):
            return True
        return None if isinstance(value.cls, Class) and value.cls.open else False
    if isinstance(value, External):
        return value.name.startswith("torch")
    if isinstance(value, (Array, Const, Text, Mapping, SequenceValue, Function, Class)):
        return False
    return None


def is_harmless(insight: Insight, found: Found) -> bool:
    """Whether a word that cuts takes nothing from what is back-propagated.

    Either nothing was there to be cut, or the line that it leaves goes on to a backward, or, in whole programs, no
    backward has met this cut.
    """
    if found.owner is None:
        return False
    looks = insight.looks(*found.owner)
    values = [v for seen in looks for v in seen.values]
    if not values or not all(isinstance(v, (Tensor, GradOf)) for v in values):
        return False
    cuts = insight.cuts_at(found.word.end)
    if not cuts:
        return all(isinstance(v, GradOf) or v.dead for v in values if isinstance(v, (Tensor, GradOf)))
    met = insight.met
    if any(cut in met.cuts for cut in cuts):
        return False
    if all(cut.sources and all(node in met.nodes for node in cut.sources) for cut in cuts):
        return True
    return met.whole and not any(seen.alone for seen in looks)


def _is_undone(insight: Insight, found: Found) -> bool:
    """Whether a switch is one that a block or a function's end undoes."""
    return any(start <= found.word.start and found.word.end <= end for start, end in insight.scoped())


# ---------------------------------------------------------------- what backwards have met


class Met:
    """All that the backwards of some flows have met: nodes surely walked, and cuts."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self.nodes: set[Node] = set()
        self.cuts: set[Cut] = set()
        self.fatal: dict[Place, Cut] = {}  # cuts behind which nothing is left of what is back-propagated
        self.fails: list[tuple[Place, Place]] = []  # such a cut, and the backward that meets it
        self.whole = bool(flows)
        for flow in flows:
            if flow.whole:
                self.whole = self.whole and flow.complete
            for event in flow.of(events.Backward):
                self.nodes.update(event.nodes)
                value = event.value
                cuts = (*event.cuts, *((value.cut,) if isinstance(value, Number) and value.cut is not None else ()))
                self.cuts.update(cuts)
                if isinstance(value, Number) or (isinstance(value, Tensor) and value.dead and value.leaf is None):
                    for cut in cuts:
                        self.fatal.setdefault(cut.place, cut)
                        self.fails.append((cut.place, event.place))


# ---------------------------------------------------------------- regions


def regions(insight: Insight) -> list[Region]:
    """The lines of a file by the grad mode in which they run; lines that no run passes are in none."""
    source = insight.source
    # Of each line the expression that decides: the widest that begins there, a whole program's before a lone function's.
    widest: dict[int, tuple[int, int, list[Seen]]] = {}
    whole: dict[int, bool] = {}
    for (start, end), looks in insight.spans():
        line = source.position(start)[0]
        is_whole = not looks[0].alone
        if line not in widest or (is_whole, end) > (whole[line], widest[line][0]):
            widest[line], whole[line] = (end, start, looks), is_whole
    bodies = insight.bodies()
    left = _left_off(bodies, widest)
    found: list[Region] = []
    body_before: tuple[int, int] | None = None
    for line in sorted(widest):
        end, start, looks = widest[line]
        mode, origin, note = _mode_of(insight, looks)
        if left is not None and mode == ON and origin is None and not whole[line]:
            mode, origin, note = "unknown", left.place, tell("{how} may have turned it off", how=left.how)
        body = _innermost(bodies, start)
        start = source.line_starts[line]
        last = source.position(max(end - 1, start))[0]
        stop = source.offset(last, len(source.line_text(last)))
        before = found[-1] if found else None
        if body is None and mode in (OFF, INFERENCE):
            imported = _imported_at(insight, looks, start)
            start = imported if before is None or before.end <= imported else start
        if before is not None and before[2:] == (mode, origin, note) and body == body_before:
            found[-1] = before._replace(end=max(stop, before.end))
        elif before is None or stop > before.end:
            if before is not None and before.end > start:
                found[-1] = before._replace(end=max(before.start, start - 1))
            found.append(Region(start, stop, mode, origin, note))
        body_before = body
    return found


def _left_off(bodies: Sequence[tuple[int, int]], widest: dict[int, tuple[int, int, list[Seen]]]) -> Mode | None:
    """The grad mode in which the top level of a file ends, if that leaves gradients off for what is called later."""
    for line in sorted(widest, reverse=True):
        _, start, looks = widest[line]
        if not looks[0].alone and _innermost(bodies, start) is None:
            is_off = all(seen.mode.kind in (OFF, INFERENCE) and seen.mode.persistent for seen in looks)
            return looks[0].mode if is_off else None
    return None


def _innermost(bodies: Sequence[tuple[int, int]], offset: int) -> tuple[int, int] | None:
    around = [body for body in bodies if body[0] <= offset < body[1]]
    return min(around, key=lambda body: body[1] - body[0]) if around else None


def _imported_at(insight: Insight, looks: Sequence[Seen], start: int) -> int:
    """The start of the line whose import has set the mode of a line of the top level, if one has."""
    frames = looks[0].mode.stack
    while frames is not None:
        if frames.kind == "import" and frames.place.path == insight.path and frames.place.start < start:
            return insight.source.line_starts[insight.line_of(frames.place.start)]
        frames = frames.up
    return start


def _mode_of(insight: Insight, looks: Sequence[Seen]) -> tuple[str, Place | None, str]:
    by_kind: dict[str, Mode] = {}
    for seen in looks:
        by_kind.setdefault(seen.mode.kind, seen.mode)
    if len(by_kind) == 1:
        kind, mode = next(iter(by_kind.items()))
        if kind in (OFF, INFERENCE):
            return kind, mode.place, f"{mode.how} ({insight.where(mode.place)})" if mode.place is not None else mode.how
        if kind == ON:
            return ON, mode.place, told(CALLERS) if mode.place is None and all(seen.alone for seen in looks) else ""
        note = tell("{how} may have turned it off", how=mode.how) if mode.how else ""
        return "unknown", mode.place, note
    mode = next((m for k, m in by_kind.items() if k in (OFF, INFERENCE)), by_kind.get(MAYBE))
    assert mode is not None
    where = f" ({insight.where(mode.place)})" if mode.place is not None else ""
    return "unknown", mode.place, tell("off in some calls: {how}{where}", how=mode.how, where=where)


# ---------------------------------------------------------------- hints


def finding_hints(path: str, findings: Sequence[Finding], source: Source) -> list[Hint]:
    """Behind the line of a finding about a lost gradient, where it was lost, if that is on another line."""
    found = []
    for finding in findings:
        if finding.place.path != path or finding.severity is None or not finding.severity.fails or not finding.trail:
            continue
        label = CUT_LABEL if finding.code in LOST else MODE_LABEL if finding.code == SWITCHED else ""
        origin = finding.trail[-1].place
        line = source.position(finding.place.end)[0]
        if label and (origin.path != path or source.position(origin.start)[0] != line):
            found.append(Hint(line_end(source, line), told(label), told(finding.message), origin))
    return found


def hints(insight: Insight, findings: Sequence[Finding]) -> list[Hint]:
    """Where findings say that a gradient was lost, names that carry it on, losses, regions that another file sets."""
    line_of = insight.line_of
    found = finding_hints(insight.path, findings, insight.source)
    taken = {line_of(hint.offset) for hint in found}
    last: dict[Place, int] = {}  # where in this file the last backward stands that fails for a cut
    for place, at in insight.met.fails:
        if at.path == insight.path:
            last[place] = max(at.start, last.get(place, 0))
    for start, end in insight.targets():
        for cut in _fatal_cuts(insight, insight.looks(start, end)):
            mode = cut.mode
            if mode is not None and mode.persistent:
                continue  # the region says so
            if start > last.get(cut.place, start):
                continue  # what is made of it later is not back-propagated
            origin = mode.place if mode is not None and mode.place is not None else cut.place
            if line_of(end) in taken or (origin.path == insight.path and line_of(origin.start) == line_of(start)):
                continue
            if any(hint.origin == origin and 0 < line_of(hint.offset) - line_of(end) <= NEAR for hint in found):
                continue
            taken.add(line_of(end))
            found.append(
                Hint(insight.line_end(line_of(end)), told(CUT_LABEL if origin is cut.place else MODE_LABEL), "", origin)
            )
    found += _losses(insight, taken)
    heads: set[object] = set()
    for region in insight.regions:
        if region.mode in (OFF, INFERENCE) and region.origin is not None and region.origin.path != insight.path:
            line = line_of(region.start)
            text = insight.source.line_text(line)
            body = _innermost(insight.bodies(), region.start + len(text) - len(text.lstrip()))
            if line not in taken and (body, region.origin) not in heads:
                heads.add((body, region.origin))
                found.append(Hint(insight.line_end(line), told(MODE_LABEL), region.note, region.origin))
    return sorted(found, key=lambda hint: hint.offset)


def _fatal_cuts(insight: Insight, looks: Sequence[Seen]) -> Iterator[Cut]:
    """The cut in a value that every pass has, if a backward fails for it."""
    if not looks or not all(seen.state == CUT or isinstance(seen.values[0], Number) for seen in looks):
        return
    for seen in looks:
        for value in seen.values:
            cuts = value.cuts if isinstance(value, Tensor) else ()
            if isinstance(value, Number) and value.cut is not None:
                cuts = (value.cut,)
            for cut in cuts:
                if cut.place in insight.met.fatal:
                    yield cut
                    return


def _losses(insight: Insight, taken: set[int]) -> Iterator[Hint]:
    by_place: dict[Place, list[events.Backward]] = {}
    for event in insight.backwards():
        if not event.grad:
            by_place.setdefault(event.place, []).append(event)
    for place, passes in by_place.items():
        first = passes[0]
        live = [e.value for e in passes if isinstance(e.value, Tensor) and e.value.live and e.value.leaf is None]
        if len(live) != len(passes):
            continue
        bound = first.bound if first.bound is not None and first.bound.path == insight.path else None
        end = bound.end if bound is not None and all(e.bound == bound for e in passes) else place.end
        label = tell("grad · scalar") if all(value.rank == SCALAR for value in live) else tell("grad")
        if insight.line_of(end) not in taken:
            yield Hint(insight.line_end(insight.line_of(end)), label, is_cut=False)


# ---------------------------------------------------------------- lenses


def lenses(insight: Insight) -> list[Lens]:
    """Over each backward: what reaches the loss. Over each class of modules: what trains."""
    return [*_reach_lenses(insight), *_class_lenses(insight)]


def trainings(insight: Insight) -> list[int]:
    """Where what trains begins: of each backward the function's `def`, or its own line at module level; the `def` of each
    test that leads to a backward."""
    found: set[int] = set()
    for candidate in insight.words():
        word = candidate.word
        if word.name == "backward" and candidate.owner is not None:
            body = _innermost(insight.bodies(), word.start)
            at = body[0] if body is not None else word.start
            found.add(insight.source.line_starts[insight.line_of(at)])
    if IS_TEST_FILE.search(insight.path):
        found.update(_tests(insight))
    return sorted(found)


def _tests(insight: Insight) -> Iterator[int]:
    """The lines of the tests, as pytest names them, that call what calls a backward."""
    for one in insight.observed:
        for flow in one.flows:
            for event in flow.of(events.Backward):
                frames = event.stack
                while frames is not None:
                    body = (
                        _innermost(insight.bodies(), frames.place.start) if frames.place.path == insight.path else None
                    )
                    if body is not None:
                        line = insight.line_of(body[0])
                        if IS_TEST.match(insight.source.line_text(line)):
                            yield insight.source.line_starts[line]
                    frames = frames.up


def _reach_lenses(insight: Insight) -> Iterator[Lens]:
    by_place: dict[Place, list[events.Backward]] = {}
    for event in insight.backwards():
        if not event.guess:
            by_place.setdefault(event.place, []).append(event)
    for place, passes in by_place.items():
        if any(not isinstance(e.value, (Tensor, Number)) for e in passes):
            continue
        certain = all(isinstance(e.value, Number) or (isinstance(e.value, Tensor) and e.value.certain) for e in passes)
        leaves = list(dict.fromkeys(leaf for e in passes for leaf in e.reached))
        opaque = any(e.opaque for e in passes) or not certain
        if not leaves:
            if certain and not opaque:
                yield Lens(place.start, place.end, tell("reaches no parameter"))
            continue
        title = tell("reaches {names}", names=insight.describer_of(passes[0]).reached(leaves, opaque))
        places = tuple(dict.fromkeys(leaf.place for leaf in leaves if leaf.place is not None))
        yield Lens(place.start, place.end, title.replace("`", ""), places)


def _class_lenses(insight: Insight) -> Iterator[Lens]:
    seen: set[Place] = set()
    for observed in insight.observed:
        for flow in observed.flows:
            if flow.run is None:
                continue
            for obj in flow.objects:
                cls = obj.cls
                if (
                    not isinstance(cls, Class)
                    or cls.place.path != insight.path
                    or cls.place in seen
                    or not is_module(obj)
                ):
                    continue
                leaves, exact = leaves_of(flow.run, obj)
                if obj.cells.get("closed") or not leaves:
                    continue
                seen.add(cls.place)
                title = _trains(obj, leaves, exact)
                places = tuple(dict.fromkeys(leaf.place for leaf in leaves if leaf.place is not None))
                if title:
                    yield Lens(cls.place.start, cls.place.end, title, places)


def _trains(obj: Object, leaves: Sequence[Leaf], exact: bool) -> str:
    names = dict(paths(obj))
    flags = {leaf: leaf.cells.get("requires_grad") for leaf in leaves}
    on = [names.get(leaf, leaf.label).removeprefix(".") for leaf, flag in flags.items() if flag is True]
    off = [names.get(leaf, leaf.label).removeprefix(".") for leaf, flag in flags.items() if flag is False]
    parts = []
    if on and exact and len(on) == len(leaves):
        parts.append(tell("all trainable: {names}", names=listed(on)))
    elif on:
        parts.append(tell("trainable: {names}", names=listed(on)))
    if off and exact and len(off) == len(leaves):
        parts.append(tell("all frozen: {names}", names=listed(off)))
    elif off:
        parts.append(tell("frozen: {names}", names=listed(off)))
    return " · ".join(parts)


# ---------------------------------------------------------------- what a text says of itself


def nodes_of(units: Sequence[Unit]) -> Iterator[tuple[int, tuple]]:
    """Every node of the IR of some units, children included, with the offset that it counts from."""
    for unit in units:
        yield from ((unit.start, node) for node in ir.nodes(unit.ir))
        yield from nodes_of(unit.children)


def targets_in(node: ir.Expr) -> Iterator[ir.Expr]:
    if isinstance(node, (ir.Name, ir.Attr)):
        yield node
    elif isinstance(node, (ir.Tuple, ir.List)):
        for item in node.items:
            yield from targets_in(item)


__all__ = ["Hint", "Lens", "Region", "Token", "hints", "lenses", "regions", "tokens"]
