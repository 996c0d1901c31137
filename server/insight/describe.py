"""What is true at a place, in words: Markdown, the short answer first.

Nothing is said that another call of the same code could contradict: what passes do not agree on is said to be so "in
some calls", and of what is not known nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..facts import (
    ANY_RANK,
    INFERENCE,
    MAYBE,
    OFF,
    ON,
    SCALAR,
    Array,
    Class,
    Const,
    Context,
    Cut,
    External,
    GradOf,
    Leaf,
    Mode,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Tensor,
    Union,
    Value,
)
from ..findings import Place
from ..flow import events
from ..flow.modules import library_class
from ..flow.naming import shown_code
from ..flow.objects import is_module
from ..flow.operations import as_tensor, graph_of
from ..flow.training import SCALERS, is_optimizer, walk
from ..messages import listed as separated
from ..messages import say, tell, told
from .observe import (
    CUT,
    DEAD,
    FROZEN,
    LEAF,
    LIVE,
    UNKNOWN,
    Names,
    Observed,
    Seen,
    holders,
    state_of,
    unregistered,
)

# So many names are listed; the others are counted.
NAMES_LIMIT = 6

MODES = {ON: say("on"), OFF: say("off"), INFERENCE: say("inference")}

Where = Callable[[Place], str]  # how a reader finds a place: "line 12", "utils/data.py:13"


class Describer:
    """Puts what was seen of one file into words; `where` says how to name a place."""

    def __init__(self, observed: Observed, where: Where) -> None:
        self.observed = observed
        self.where = where
        self.names = Names(observed)
        self.held = holders(observed)

    # ------------------------------------------------------------ the whole answer

    def value(self, name: str, looks: Sequence[Seen]) -> str:
        """What is to be said of an expression, or "" for nothing."""
        kinds = {self._kind(value) for seen in looks for value in seen.values}
        kinds.discard("none")
        if len(kinds) != 1:
            return ""
        kind = kinds.pop()
        head, lines = getattr(self, f"_{kind}")(looks) if kind else ("", [])
        if not head:
            return ""
        mode = self.mode(looks)
        if mode and (kind in ("tensor", "number") or (kind != "context" and not self._is_on(looks))):
            lines = [*lines, mode]
        return f"`{name}`: {head}" + "".join(f"\n- {line}" for line in lines)

    def step(self, looks: Sequence[Seen], path: str, start: int) -> str:
        """What `step` of a GradScaler or a scheduler does, in a call that starts there; "" if it is neither's."""
        owners = {library_class(v) if isinstance(v, Object) else "" for s in looks for v in s.values}
        if owners and all(name.startswith("torch.optim.lr_scheduler.") for name in owners):
            return tell("`.step()` of a scheduler sets the learning rates of its optimizer. It changes no parameter.")
        if not owners or not owners <= SCALERS:
            return ""
        here = [
            e for f in self.observed.flows for e in f.of(events.Step) if (e.place.path, e.place.start) == (path, start)
        ]
        stepped = list(dict.fromkeys(e.optimizer for e in here))
        if any(e.via != "scaler" for e in here):
            return tell("`.step()` of a GradScaler that is not enabled is that of the optimizer.")
        if not stepped:
            return tell(
                "`.step()` of a GradScaler divides the gradients of the optimizer by the scale, unless `unscale_` has, "
                "and lets it step. If one is infinite or NaN, it does not step."
            )
        said = tell(
            "`.step()` divides the gradients of {optimizers} by the scale, unless `unscale_` has, and changes the "
            "parameters by them. If one is infinite or NaN, nothing is changed.",
            optimizers=listed([f"`{self.observed.names.get(one) or _class(one)}`" for one in stepped]),
        )
        return said + "".join(f"\n- {line}" for line in (self._held_by(stepped[0]) if len(stepped) == 1 else ()))

    def _kind(self, value: Value) -> str:
        if isinstance(value, Union):
            kinds = {self._kind(option) for option in value.options} - {"none"}
            return kinds.pop() if len(kinds) == 1 else ""
        if isinstance(value, Const) and value.value is None:
            return "none"
        if isinstance(value, Tensor):
            return "tensor"
        if isinstance(value, (ParameterOf, Parameters)):
            return "parameters"
        if isinstance(value, (Number, Array)):
            return "number"
        if isinstance(value, Context):
            return "context"
        if isinstance(value, GradOf):
            return "gradient"
        if isinstance(value, Object):
            return "module" if is_module(value) else "optimizer" if is_optimizer(value) else ""
        return ""

    def mode(self, looks: Sequence[Seen]) -> str:
        """Grad mode here and who set it; "" where that is up to callers that are not known."""
        modes = _modes(looks)
        if not modes or (any(s.alone and s.mode.place is None for s in looks) and len(looks) > 1):
            return ""
        kinds = {kind for kind, _ in modes}
        first = next((m for m in modes.values() if m.kind != ON), next(iter(modes.values())))
        if kinds == {ON}:
            return tell("grad mode is **on**{by}", by=self._by(first) if len(modes) == 1 else "")
        if len(kinds) == 1 and first.kind != MAYBE:
            return tell("grad mode is **{mode}**{by}", mode=MODES[first.kind], by=self._by(first))
        if kinds == {MAYBE}:
            return tell("grad mode is not the same on every way here{by}", by=self._by(first))
        mode = MODES[INFERENCE if first.kind == INFERENCE else OFF]
        return tell("grad mode is {mode} in some calls{by}", mode=mode, by=self._by(first))

    def _is_on(self, looks: Sequence[Seen]) -> bool:
        return {kind for kind, _ in _modes(looks)} == {ON}

    def _by(self, mode: Mode) -> str:
        if mode.place is None or not mode.how:
            return ""
        return tell(", by {how} ({where})", how=shown_code(mode.how), where=self.where(mode.place))

    # ------------------------------------------------------------ kinds of values

    def _tensor(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        tensors = [(s.state or None, t) for s in looks for v in s.values for t in _tensors(v)]
        states = {state or (UNKNOWN if tensor.leaf is not None else state_of(tensor)) for state, tensor in tensors}
        ranks = {t.rank for _, t in tensors}
        noun = say("scalar tensor") if ranks == {SCALAR} else say("tensor")
        lines: list[str] = []
        if states <= LIVE:
            head = say("{tensor}, **attached**", tensor=noun)
            if states == {LEAF}:
                head = say("**leaf** {tensor} that asks for gradients", tensor=noun)
            nodes = [node for _, t in tensors if (node := graph_of(t)[0] or t.node) is not None]
            complete = not any(s.more for s in looks)
            if states == {LEAF}:
                lines = self._holders([t.leaf for _, t in tensors if t.leaf])
                lines += self.cuts({c.place: c for _, t in tensors for c in t.cuts}.values())
            else:
                lines = self.reach(nodes, complete)
        elif states <= DEAD:
            cuts = list({c.place: c for _, t in tensors for c in t.cuts}.values())
            if CUT in states:
                head = say("{tensor}, **cut** from its graph", tensor=noun)
                if states != {CUT}:
                    head = say("{tensor} without a graph", tensor=noun)
                lines = self.cuts(cuts)
            elif states == {FROZEN}:
                head = say("{tensor}, **frozen**: it asks for no gradient", tensor=noun)
            else:
                head = say("{tensor}, no gradient", tensor=noun)
                if all(t.opaque for _, t in tensors):
                    head = say("data, no gradient")
        elif UNKNOWN in states:
            known = states - {UNKNOWN}
            head: str = noun if ranks != {ANY_RANK} else ""
            if known and known <= LIVE:
                head = say("{tensor}, attached in some calls", tensor=noun)
            elif known and known <= DEAD:
                head = say("{tensor}, without a graph in some calls", tensor=noun)
        else:
            head = say("{tensor}, attached in some calls, without a graph in others", tensor=noun)
            lines = self.cuts({c.place: c for _, t in tensors if t.node is None for c in t.cuts}.values())
        if any(t.inference for _, t in tensors):
            lines = [*lines, tell("made in inference mode: it cannot be saved for backward")]
        return told(head), lines

    def _parameters(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        leaves = list(dict.fromkeys(leaf for s in looks for v in s.values for leaf in getattr(v, "leaves", ())))
        if not leaves:
            return "", []
        each = all(isinstance(v, ParameterOf) for s in looks for v in s.values)
        names = self.list(leaves)
        head = tell("each of {names}", names=names) if each else tell("the parameters {names}", names=names)
        return head, self._holders(leaves)

    def _number(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        values = [v for s in looks for v in s.values if isinstance(v, (Number, Array))]
        cuts = {v.cut.place: v.cut for v in values if v.cut is not None}
        arrays = {isinstance(v, Array) for v in values}
        if arrays == {True}:
            noun = say("NumPy array")
        elif arrays == {False} and all(
            v.cut is not None or v.source is not None for v in values if isinstance(v, Number)
        ):
            noun = say("Python number")
        else:
            return "", []
        sources = {v.source: v.how for v in values if isinstance(v, Number) and v.cut is None and v.source is not None}
        lines = self.cuts(cuts.values())
        lines += [
            tell("taken out of a tensor by `{how}` ({where})", how=how, where=self.where(place))
            for place, how in list(sources.items())[:1]
            if how
        ]
        return tell("{tensor}, no gradient", tensor=noun), lines

    def _gradient(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        leaves = list(dict.fromkeys(leaf for s in looks for v in s.values for leaf in getattr(v, "leaves", ())))
        return (tell("the gradient of {names}", names=self.list(leaves)) if leaves else ""), []

    def _context(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        contexts = [v for s in looks for v in s.values if isinstance(v, Context)]
        kinds = {c.mode.kind if c.mode is not None else "" for c in contexts}
        if len(kinds) != 1 or kinds <= {"", MAYBE}:
            return "", []
        kind = kinds.pop()
        if any(c.before is not None for c in contexts):
            said = say("turns gradients **off** at once; as a `with` it is undone at the end of the block")
            if kind == ON:
                said = say("turns gradients **on** at once; as a `with` it is undone at the end of the block")
        elif kind == INFERENCE:
            said = say("turns gradients **off** inside its block, and makes tensors that cannot be trained through")
        elif kind == ON:
            said = say("turns gradients **on** inside its block")
        else:
            said = say("turns gradients **off** inside its block")
        return told(said), []

    def _module(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        objects = list(dict.fromkeys(v for s in looks for v in s.values if isinstance(v, Object)))
        classes = {_class(obj) for obj in objects}
        members = [s.members for s in looks if s.members is not None]
        if len(classes) != 1 or len(objects) != 1 or not members:
            return (tell("module `{name}`", name=classes.pop()), []) if len(classes) == 1 else ("", [])
        flags: dict[Leaf, object] = {}
        for some in members:
            for leaf, flag in some.leaves:
                flags[leaf] = flag if flags.get(leaf, flag) == flag else None
        exact = all(some.exact for some in members)
        lines = self.training(flags, exact)
        lines += self._holders(list(flags))
        lines += [
            tell(
                "`{name}` is a plain {kind}: what is in it is not registered, `parameters()` does not see it",
                name=name,
                kind=kind,
            )
            for name, kind in unregistered(objects[0])
        ]
        training = {some.training for some in members}
        if training <= {True, False} and len(training) == 1 and not any(s.alone for s in looks):
            lines.append(tell("in training mode") if training == {True} else tell("in evaluation mode"))
        return tell("module `{name}`", name=classes.pop()), lines

    def _optimizer(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        objects = list(dict.fromkeys(v for s in looks for v in s.values if isinstance(v, Object)))
        classes = {_class(obj) for obj in objects}
        head = tell("optimizer `{name}`", name=classes.pop()) if len(classes) == 1 else tell("optimizer")
        return head, self._held_by(objects[0]) if len(objects) == 1 else []

    def _held_by(self, obj: Object) -> list[str]:
        """What an optimizer holds, and where it steps."""
        lines: list[str] = []
        leaves, exact = self.held.get(obj, ({}, False))
        if leaves:
            names = self.list(leaves)
            lines.append(tell("holds {names}", names=names) if exact else tell("holds at least {names}", names=names))
        flow = next((f for f in self.observed.flows if obj in f.objects), None)
        steps = dict.fromkeys(e.place for f in self.observed.flows for e in f.of(events.Step) if e.optimizer is obj)
        if steps:
            places = told(separated([self.where(place) for place in list(steps)[:3]]))
            lines.append(tell("steps at {places}", places=places))
        elif flow is not None and flow.whole and flow.complete and not obj.cells.get("escaped"):
            lines.append(tell("no `step()` of it is reached"))
        return lines

    # ------------------------------------------------------------ parts of an answer

    def reach(self, nodes: Iterable[object], complete: bool = True) -> list[str]:
        """Which parameters a graph reaches, and who holds them."""
        found = [walk(node) for node in nodes]  # type: ignore[arg-type]
        sure = list(dict.fromkeys(leaf for w in found for leaf in (*w.sure, *w.maybe)))
        opaque = any(w.opaque for w in found) or not complete
        if not sure:
            return []
        may = any(leaf not in w.sure for w in found for leaf in sure)
        names = self.reached(sure, opaque)
        said = tell("may reach {names}", names=names) if may else tell("reaches {names}", names=names)
        return [said, *self._holders(sure)]

    def reached(self, leaves: Iterable[Leaf], opaque: bool) -> str:
        """Parameters by their names; `opaque`: there may be others."""
        names = self.list(leaves)
        return tell("{names}, and perhaps more", names=names) if opaque else names

    def training(self, flags: dict[Leaf, object], exact: bool) -> list[str]:
        """Which of a module's parameters ask for gradients."""
        on = [leaf for leaf, flag in flags.items() if flag is True]
        off = [leaf for leaf, flag in flags.items() if flag is False]
        if not flags:
            return []
        if exact and len(on) == len(flags):
            return [tell("all of its parameters ask for gradients: {names}", names=self.short(on))]
        if exact and len(off) == len(flags):
            return [tell("all of its parameters are frozen")]
        lines = [tell("asks for gradients: {names}", names=self.short(on))] if on else []
        return lines + ([tell("frozen: {names}", names=self.short(off))] if off else [])

    def _holders(self, leaves: Sequence[Leaf]) -> list[str]:
        lines = []
        for optimizer, (held, exact) in self.held.items():
            some = [leaf for leaf in leaves if leaf in held]
            if not some:
                continue
            name = self.observed.names.get(optimizer) or _class(optimizer)
            if len(some) == len(leaves):
                whole = say("`{name}` holds it", name=name)
                if len(leaves) > 1:
                    whole = say("`{name}` holds them all", name=name)
                lines.append(told(whole))  # of several optimizers of one name this is said once
            elif exact:
                lines.append(tell("`{name}` holds {names}", name=name, names=self.short(some)))
            else:
                lines.append(tell("`{name}` holds at least {names}", name=name, names=self.short(some)))
        return list(dict.fromkeys(lines))[:3]

    def cuts(self, cuts: Iterable[Cut]) -> list[str]:
        behind: dict[str, dict[Leaf, None]] = {}
        partly: set[str] = set()  # of these it is not known what else was there
        for cut in cuts:
            mode = cut.mode
            if mode is not None and mode.place is not None:
                how, where = shown_code(mode.how), self.where(mode.place)
                line = tell("grad mode was off when it was computed, by {how} ({where})", how=how, where=where)
            else:
                line = tell("`{how}` cut it ({where})", how=cut.how, where=self.where(cut.place))
            lost = (leaf for node in cut.sources for leaf in walk(node).sure)
            behind.setdefault(line, {}).update(dict.fromkeys(lost))
            if not cut.sources or any(walk(node).opaque or walk(node).maybe for node in cut.sources):
                partly.add(line)
        lines: list[str] = []
        for line, lost in behind.items():
            if lost and line in partly:
                lines.append(tell("{cut}; behind it: at least {names}", cut=line, names=self.short(lost)))
            elif lost:
                lines.append(tell("{cut}; behind it: {names}", cut=line, names=self.short(lost)))
            else:
                lines.append(line)
        return lines[:3]

    def list(self, leaves: Iterable[Leaf]) -> str:
        """Parameters by their names, grouped by the outermost module."""
        parts = []
        for root, some, all_of_it in self.names.grouped(list(leaves)):
            if root and len(some) == len(all_of_it) and len(some) > 1:
                names = self._without(root, some)
                parts.append(tell("all parameters of `{module}` ({names})", module=root, names=names))
            elif root and len(some) > 1:
                names = self._without(root, some)
                counts = {"some": len(some), "all": len(all_of_it)}
                parts.append(tell("{some} of {all} in `{module}` ({names})", module=root, names=names, **counts))
            else:
                parts.append(self.short(some))
        return told(separated(parts))

    def _without(self, root: str, leaves: Sequence[Leaf]) -> str:
        names = [self.names.leaf(leaf).removeprefix(root).removeprefix(".") or root for leaf in leaves]
        return _quoted(names)

    def short(self, leaves: Iterable[Leaf]) -> str:
        return _quoted([self.names.leaf(leaf) for leaf in leaves])


def _modes(looks: Sequence[Seen]) -> dict[tuple[str, Place | None], Mode]:
    """The grad modes of some passes by their kind and place, but for those that are up to callers that are not known."""
    return {(s.mode.kind, s.mode.place): s.mode for s in looks if not (s.alone and s.mode.place is None)}


def listed(names: Sequence[str]) -> str:
    """Some names, the others counted."""
    names = list(dict.fromkeys(names))
    shown = told(separated(names[:NAMES_LIMIT]))
    more = len(names) - NAMES_LIMIT
    return tell("{names} and {n} more", names=shown, n=more) if more > 0 else shown


def _quoted(names: Iterable[str]) -> str:
    return listed([f"`{name}`" for name in names])


def _class(obj: Object) -> str:
    if isinstance(obj.cls, Class):
        return obj.cls.name
    if isinstance(obj.cls, External):
        return obj.cls.name.rpartition(".")[2]
    return library_class(obj).rpartition(".")[2]


def _tensors(value: Value) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, ParameterOf):
        return [as_tensor(value)]
    if isinstance(value, Union):
        return [t for option in value.options for t in _tensors(option)]
    return []


__all__ = ["Describer", "listed"]
