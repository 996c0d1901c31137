"""What is known of the line that raises: what hovering over it tells, and what the error proves on top of that.

The engine claims of a value only what holds on every way to it. An error says which way was taken: of a loss that is
without a graph in some calls, this one was, so what cuts it there is evidence here though it makes no finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..facts import INFERENCE, ON, Const, Cut, Leaf, Mode, Number, Object, Tensor, Union, Value
from ..findings import Place, Step
from ..flow import events
from ..flow.objects import is_module
from ..flow.trails import cut_note, mode_note
from ..insight import Insight, insight
from ..insight.observe import CUT, FROZEN, PLAIN, Seen, unregistered
from ..messages import say
from ..workspace import Workspace
from .errors import Error
from .places import Located

FACTS_LIMIT = 3
WORDS_LIMIT = 6

# What a line is about, by what stands behind it, or in front of it.
_BEHIND = re.compile(
    r"\.(?:backward|grad|numpy|requires_grad_?|register_hook|retain_grad|item|detach|\w+_)\b|\s*(?:[-+*/@]|\*\*|//)=(?!=)|\["
)
_BEFORE = re.compile(r"\b(?:backward|grad|deepcopy|step|unscale_|numpy|array|sum|mean)\(\s*\[?$")


class Evidence(NamedTuple):
    """What the error proves of the line: a sentence, and the places that it leads back to."""

    title: str
    trail: tuple[Step, ...]


class Line:
    """The line that raised, as the engine has seen it."""

    def __init__(self, workspace: Workspace, raising: Located) -> None:
        self.place = raising.place
        self._source = workspace.source(raising.path)
        self._begin = self._end = 0
        self._known: Insight | None = None
        if self._source is None:
            return
        self._begin = self._source.offset(raising.line, 0)
        self._end = self._begin + len(self._source.line_text(raising.line))
        try:
            self._known = insight(workspace.project, raising.path)
        except Exception:  # the engine breaks over this file: what is known without it must do
            self._known = None
        self._spans: dict[tuple[int, int], list[Seen]] = {}
        for span, looks in self._known.spans() if self._known is not None else ():
            if self._begin <= span[0] and span[1] <= self._end:
                self._spans[span] = looks
        marked = (self.place.start, self.place.end)
        self._subject = self._find_subject(*marked) or self._find_subject(self._begin, self._end)

    @property
    def subject(self) -> str:
        """What the line is about, as it is written there; "" if that can't be told."""
        if self._source is None:
            return ""
        if self._subject is not None:
            return self._text(self._subject)
        words = re.search(
            r"([A-Za-z_][\w.]*(?:\[[^\]]*\])?)\.(?:backward|grad)\b", self._source.text[self._begin : self._end]
        )
        return words[1] if words else ""

    def facts(self) -> tuple[str, ...]:
        """What hovering would tell, of what the line is about first; Markdown."""
        if self._known is None:
            return ()
        chosen = [self._subject] if self._subject is not None else []
        for span in sorted(self._spans, key=lambda one: (one[0], -one[1])):
            marked = self.place.start <= span[0] and span[1] <= self.place.end
            if marked and not any(a <= span[0] and span[1] <= b for a, b in chosen):
                chosen.append(span)
        told = dict.fromkeys(text for span in chosen if (text := self._known.description(*span)))
        return tuple(told)[:FACTS_LIMIT]

    def origins(self) -> tuple[Step, ...]:
        """Where what the line is about lost its graph, was switched off, or became None."""
        return self._origins(self._subject) if self._subject is not None else ()

    def evidence(self, error: Error) -> Evidence | None:
        """What the error proves here, if the entry says what to seek; None where nothing of the kind is known."""
        if self._known is None or not error.seek:
            return None
        seek = {
            "graph": self._dead,
            "inference": self._inference,
            "gradients": self._missing,
            "registration": self._unregistered,
        }
        return seek[error.seek]()

    # ------------------------------------------------------------ what an error can prove

    def _dead(self) -> Evidence | None:
        """What has no graph here, of what the line is about, then of the other names on it."""
        others = [span for span in self._spans if span != self._subject and re.fullmatch(r"[\w.]+", self._text(span))]
        for span in ([self._subject] if self._subject is not None else []) + sorted(others):
            looks = self._spans[span]
            states = {look.state for look in looks if look.state}
            name = self._text(span)
            if CUT in states:
                return Evidence(say("`{name}` has lost its graph on the way here", name=name), self._origins(span))
            if FROZEN in states:
                return Evidence(say("`{name}` is a leaf that does not ask for gradients", name=name), self._made(looks))
            if states == {PLAIN}:
                title = say("nothing that `{name}` was computed from requires grad", name=name)
                return Evidence(title, (*self._made(looks), *self._frozen()))
        return None

    def _frozen(self) -> tuple[Step, ...]:
        """Where the program switches `requires_grad` off."""
        assert self._known is not None
        places = dict.fromkeys(
            event.place
            for one in self._known.observed
            for flow in one.flows
            for event in flow.of(events.GradFlag)
            if event.value is False
        )
        return tuple(Step(place, say("this switches gradients off for what it is set on")) for place in places)

    def _unregistered(self) -> Evidence | None:
        """Layers in plain containers of a module on the line: they are none of its parameters."""
        assert self._known is not None
        for span in sorted(self._spans):
            for value in (value for look in self._spans[span] for value in look.values):
                if not isinstance(value, Object) or not is_module(value):
                    continue
                for name, kind in unregistered(value):
                    title = say(
                        "`{module}` keeps layers in the plain {kind} `{name}`: they are not registered, and are none of its "
                        "parameters", module=self._text(span), kind=kind, name=name,
                    )  # fmt: skip
                    steps = [Step(place, say("it is made here")) for place in self._assigned(value, name)]
                    return Evidence(title, tuple(steps))
        return None

    def _assigned(self, owner: Object, name: str) -> list[Place]:
        assert self._known is not None
        return list(dict.fromkeys(
            event.place
            for one in self._known.observed
            for flow in one.flows
            for event in flow.of(events.Attribute)
            if event.owner is owner and event.name == name
        ))  # fmt: skip

    def _inference(self) -> Evidence | None:
        for span in sorted(self._spans, key=lambda one: (one[1] - one[0], one[0])):
            for tensor in _tensors(self._spans[span]):
                switch = tensor.mode if tensor.inference else self._inference_at(tensor.made)
                if switch is None:
                    continue
                steps = [Step(switch, say("this turns inference mode on"))]
                if tensor.made is not None:
                    steps.insert(0, Step(tensor.made, say("it is made here")))
                trail = tuple(step for step in steps if step.place != self.place)
                return Evidence(say("`{name}` was made in inference mode", name=self._text(span)), trail)
        return None

    def _inference_at(self, made: Place | None) -> Place | None:
        """What had turned inference mode on where a tensor was made, if that is in this file."""
        if made is None or made.path != self.place.path or self._known is None:
            return None
        looks = self._known.looks(made.start, made.end)
        return next((look.mode.place for look in looks if look.mode.kind == INFERENCE), None)

    def _missing(self) -> Evidence | None:
        """Which of the parameters that the line asks about no backward of the program reaches."""
        assert self._known is not None
        backwards = [event for event in self._known.backwards() if not event.grad]
        if not backwards:
            return None
        reached = {leaf for event in backwards for leaf in event.reached}
        for span in sorted(self._spans):
            if not (self.place.start <= span[0] and span[1] <= self.place.end):
                continue
            asked = _leaves(self._spans[span])
            missing = [leaf for leaf in asked if leaf not in reached]
            if not missing or (len(missing) == len(asked) and any(event.opaque for event in backwards)):
                continue
            names = self._known.describer_of(backwards[0])
            title = say(
                "no backward of this program reaches {names}: `.grad` stays None there", names=names.short(missing)
            )
            there = [leaf for leaf in asked if leaf in reached]
            what = say("this reaches {names}", names=names.short(there)) if there else say("this reaches none of it")
            places = dict.fromkeys(event.place for event in backwards)
            return Evidence(title, tuple(Step(place, what) for place in places if place != self.place))
        return None

    # ------------------------------------------------------------ parts

    def _text(self, span: tuple[int, int]) -> str:
        assert self._source is not None
        return " ".join(self._source.text[span[0] : span[1]].split())

    def _find_subject(self, start: int, stop: int) -> tuple[int, int] | None:
        assert self._source is not None
        text = self._source.text
        inside = [span for span in self._spans if start <= span[0] and span[1] <= stop]
        for found in _BEHIND.finditer(text, start, min(stop + 1, self._end)):
            ends = [span for span in inside if span[1] == found.start()]
            if ends:
                return min(ends)  # the longest
        for span in sorted(inside):
            if _BEFORE.search(text[start : span[0]]):
                return max((one for one in inside if one[0] == span[0]), key=lambda one: one[1])
        return None

    def _made(self, looks: Sequence[Seen]) -> tuple[Step, ...]:
        places = dict.fromkeys(
            place
            for tensor in _tensors(looks)
            if (place := tensor.made or (tensor.leaf.place if tensor.leaf is not None else None)) is not None
        )
        return tuple(Step(place, say("it is made here")) for place in places if place != self.place)

    def _origins(self, span: tuple[int, int]) -> tuple[Step, ...]:
        steps: dict[Place, str] = {}
        for look in self._spans[span]:
            _switched(steps, look.mode)
            for value in look.values:
                for cut in _cuts(value):
                    if cut.mode is not None and cut.mode.place is not None:
                        steps.setdefault(cut.mode.place, mode_note(cut.mode))
                    elif cut.kind not in ("mode", "inference"):
                        steps.setdefault(cut.place, cut_note(cut))
                if isinstance(value, Const) and value.value is None and value.made is not None:
                    steps.setdefault(value.made, say("None comes from here"))
                if isinstance(value, Number) and value.source is not None and value.how:
                    steps.setdefault(
                        value.source, say("{how} makes a Python number of the tensor", how=f"`{value.how}`")
                    )
        return tuple(Step(place, note) for place, note in sorted(steps.items(), reverse=True) if place != self.place)


def _switched(steps: dict[Place, str], mode: Mode) -> None:
    if mode.kind != ON and mode.place is not None:
        steps.setdefault(mode.place, mode_note(mode))


def _leaves(looks: Iterable[Seen]) -> list[Leaf]:
    """The parameters that an expression stands for: a gradient's, an optimizer's, a module's."""
    found: dict[Leaf, None] = {}
    for look in looks:
        if look.members is not None:
            found.update((leaf, None) for leaf, flag in look.members.leaves if flag is not False)
        for value in look.values:
            found.update(dict.fromkeys(getattr(value, "leaves", ())))
    return list(found)


def _tensors(looks: Iterable[Seen]) -> Iterator[Tensor]:
    for look in looks:
        for value in look.values:
            for option in value.options if isinstance(value, Union) else (value,):
                if isinstance(option, Tensor):
                    yield option


def _cuts(value: Value) -> Iterator[Cut]:
    if isinstance(value, Union):
        for option in value.options:
            yield from _cuts(option)
    elif isinstance(value, Tensor):
        yield from value.cuts
    elif isinstance(value, Number) and value.cut is not None:
        yield value.cut


def suspects(workspace: Workspace, paths: Iterable[str], kinds: frozenset[str]) -> list[Step]:
    """Words in these files that can cut or switch, those known to be harmless left out: where to look, no more."""
    found: list[Step] = []
    for path in dict.fromkeys(paths):
        source = workspace.source(path)
        try:
            known = insight(workspace.project, path)
        except Exception:  # see `Line`
            continue
        if known is None or source is None:
            continue
        for token in known.tokens(()):
            if token.kind in kinds and "harmless" not in token.marks and len(found) < WORDS_LIMIT:
                word = source.text[token.start : token.end]
                note = say("`{word}` switches gradients", word=word)
                if token.kind == "cut":
                    note = say("`{word}` can cut the line", word=word)
                found.append(Step(Place(path, token.start, token.end), note))
    return found
