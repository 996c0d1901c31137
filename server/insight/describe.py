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
from ..flow.objects import is_module
from ..flow.tensors import as_tensor, graph_of
from ..flow.training import is_optimizer, walk
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
        if mode and (kind in ("tensor", "number") or (kind != "context" and "**on**" not in mode)):
            lines = [*lines, mode]
        return f"`{name}`: {head}" + "".join(f"\n- {line}" for line in lines)

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
        modes = {(s.mode.kind, s.mode.place): s.mode for s in looks if not (s.alone and s.mode.place is None)}
        if not modes or (any(s.alone and s.mode.place is None for s in looks) and len(looks) > 1):
            return ""
        kinds = {kind for kind, _ in modes}
        first = next((m for m in modes.values() if m.kind != ON), next(iter(modes.values())))
        if kinds == {ON}:
            return f"grad mode is **on**{self._by(first) if len(modes) == 1 else ''}"
        if len(kinds) == 1 and first.kind != MAYBE:
            return f"grad mode is **{first.kind}**{self._by(first)}"
        if kinds == {MAYBE}:
            return f"grad mode is not the same on every way here{self._by(first)}"
        return f"grad mode is {'inference' if first.kind == INFERENCE else 'off'} in some calls{self._by(first)}"

    def _by(self, mode: Mode) -> str:
        return f", by `{mode.how}` ({self.where(mode.place)})" if mode.place is not None and mode.how else ""

    # ------------------------------------------------------------ kinds of values

    def _tensor(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        tensors = [(s.state or None, t) for s in looks for v in s.values for t in _tensors(v)]
        states = {state or (UNKNOWN if tensor.leaf is not None else state_of(tensor)) for state, tensor in tensors}
        ranks = {t.rank for _, t in tensors}
        noun = "tensor"
        if ranks == {SCALAR}:
            noun = "scalar tensor"
        lines: list[str] = []
        if states <= LIVE:
            head = f"**leaf** {noun} that asks for gradients" if states == {LEAF} else f"{noun}, **attached**"
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
                head = f"{noun}, **cut** from its graph" if states == {CUT} else f"{noun} without a graph"
                lines = self.cuts(cuts)
            elif states == {FROZEN}:
                head = f"{noun}, **frozen**: it asks for no gradient"
            else:
                head = f"{noun}, no gradient"
                if all(t.opaque for _, t in tensors):
                    head = "data, no gradient"
        elif UNKNOWN in states:
            known = states - {UNKNOWN}
            head = noun if ranks != {ANY_RANK} else ""
            if known and known <= LIVE:
                head = f"{noun}, attached in some calls"
            elif known and known <= DEAD:
                head = f"{noun}, without a graph in some calls"
        else:
            head = f"{noun}, attached in some calls, without a graph in others"
            lines = self.cuts({c.place: c for _, t in tensors if t.node is None for c in t.cuts}.values())
        if any(t.inference for _, t in tensors):
            lines = [*lines, "made in inference mode: it cannot be saved for backward"]
        return head, lines

    def _parameters(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        leaves = list(dict.fromkeys(leaf for s in looks for v in s.values for leaf in getattr(v, "leaves", ())))
        if not leaves:
            return "", []
        each = all(isinstance(v, ParameterOf) for s in looks for v in s.values)
        return f"each of {self.list(leaves)}" if each else f"the parameters {self.list(leaves)}", self._holders(leaves)

    def _number(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        values = [v for s in looks for v in s.values if isinstance(v, (Number, Array))]
        cuts = {v.cut.place: v.cut for v in values if v.cut is not None}
        arrays = {isinstance(v, Array) for v in values}
        if arrays == {True}:
            noun = "NumPy array"
        elif arrays == {False} and all(
            v.cut is not None or v.source is not None for v in values if isinstance(v, Number)
        ):
            noun = "Python number"
        else:
            return "", []
        sources = {v.source: v.how for v in values if isinstance(v, Number) and v.cut is None and v.source is not None}
        lines = self.cuts(cuts.values())
        lines += [
            f"taken out of a tensor by `{how}` ({self.where(place)})" for place, how in list(sources.items())[:1] if how
        ]
        return f"{noun}, no gradient", lines

    def _gradient(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        leaves = list(dict.fromkeys(leaf for s in looks for v in s.values for leaf in getattr(v, "leaves", ())))
        return (f"the gradient of {self.list(leaves)}" if leaves else ""), []

    def _context(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        contexts = [v for s in looks for v in s.values if isinstance(v, Context)]
        kinds = {c.mode.kind if c.mode is not None else "" for c in contexts}
        if len(kinds) != 1 or kinds <= {"", MAYBE}:
            return "", []
        kind = kinds.pop()
        if any(c.before is not None for c in contexts):
            return f"turns gradients **{kind}** at once; as a `with` it is undone at the end of the block", []
        if kind == INFERENCE:
            return "turns gradients **off** inside its block, and makes tensors that cannot be trained through", []
        return f"turns gradients **{kind}** inside its block", []

    def _module(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        objects = list(dict.fromkeys(v for s in looks for v in s.values if isinstance(v, Object)))
        classes = {_class(obj) for obj in objects}
        members = [s.members for s in looks if s.members is not None]
        if len(classes) != 1 or len(objects) != 1 or not members:
            return (f"module `{classes.pop()}`", []) if len(classes) == 1 else ("", [])
        flags: dict[Leaf, object] = {}
        for some in members:
            for leaf, flag in some.leaves:
                flags[leaf] = flag if flags.get(leaf, flag) == flag else None
        exact = all(some.exact for some in members)
        lines = self.training(flags, exact)
        lines += self._holders(list(flags))
        lines += [
            f"`{name}` is a plain {kind}: what is in it is not registered, `parameters()` does not see it"
            for name, kind in unregistered(objects[0])
        ]
        training = {some.training for some in members}
        if training <= {True, False} and len(training) == 1 and not any(s.alone for s in looks):
            lines.append("in training mode" if training == {True} else "in evaluation mode")
        return f"module `{classes.pop()}`", lines

    def _optimizer(self, looks: Sequence[Seen]) -> tuple[str, list[str]]:
        objects = list(dict.fromkeys(v for s in looks for v in s.values if isinstance(v, Object)))
        classes = {_class(obj) for obj in objects}
        head = f"optimizer `{classes.pop()}`" if len(classes) == 1 else "optimizer"
        lines: list[str] = []
        if len(objects) == 1:
            obj = objects[0]
            leaves, exact = self.held.get(obj, ({}, False))
            if leaves:
                lines.append(f"holds {'' if exact else 'at least '}{self.list(leaves)}")
            flow = next((f for f in self.observed.flows if obj in f.objects), None)
            steps = dict.fromkeys(e.place for f in self.observed.flows for e in f.of(events.Step) if e.optimizer is obj)
            if steps:
                lines.append("steps at " + ", ".join(self.where(place) for place in list(steps)[:3]))
            elif flow is not None and flow.whole and flow.complete and not obj.cells.get("escaped"):
                lines.append("no `step()` of it is reached")
        return head, lines

    # ------------------------------------------------------------ parts of an answer

    def reach(self, nodes: Iterable[object], complete: bool = True) -> list[str]:
        """Which parameters a graph reaches, and who holds them."""
        found = [walk(node) for node in nodes]  # type: ignore[arg-type]
        sure = list(dict.fromkeys(leaf for w in found for leaf in (*w.sure, *w.maybe)))
        opaque = any(w.opaque for w in found) or not complete
        if not sure:
            return []
        may = any(leaf not in w.sure for w in found for leaf in sure)
        more = ", and perhaps more" if opaque else ""
        return [f"{'may reach' if may else 'reaches'} {self.list(sure)}{more}", *self._holders(sure)]

    def training(self, flags: dict[Leaf, object], exact: bool) -> list[str]:
        """Which of a module's parameters ask for gradients."""
        on = [leaf for leaf, flag in flags.items() if flag is True]
        off = [leaf for leaf, flag in flags.items() if flag is False]
        if not flags:
            return []
        if exact and len(on) == len(flags):
            return [f"all of its parameters ask for gradients: {self.short(on)}"]
        if exact and len(off) == len(flags):
            return ["all of its parameters are frozen"]
        lines = [f"asks for gradients: {self.short(on)}"] if on else []
        return lines + ([f"frozen: {self.short(off)}"] if off else [])

    def _holders(self, leaves: Sequence[Leaf]) -> list[str]:
        lines = []
        for optimizer, (held, exact) in self.held.items():
            some = [leaf for leaf in leaves if leaf in held]
            if not some:
                continue
            name = self.observed.names.get(optimizer) or _class(optimizer)
            if len(some) == len(leaves):
                what = "it" if len(leaves) == 1 else "them all"
                lines.append(f"`{name}` holds {what}")  # of several optimizers of one name this is said once
            else:
                lines.append(f"`{name}` holds {'' if exact else 'at least '}{self.short(some)}")
        return list(dict.fromkeys(lines))[:3]

    def cuts(self, cuts: Iterable[Cut]) -> list[str]:
        behind: dict[str, dict[Leaf, None]] = {}
        partly: set[str] = set()  # of these it is not known what else was there
        for cut in cuts:
            mode = cut.mode
            if mode is not None and mode.place is not None:
                line = f"grad mode was off when it was computed, by `{mode.how}` ({self.where(mode.place)})"
            else:
                line = f"`{cut.how}` cut it ({self.where(cut.place)})"
            lost = (leaf for node in cut.sources for leaf in walk(node).sure)
            behind.setdefault(line, {}).update(dict.fromkeys(lost))
            if not cut.sources or any(walk(node).opaque or walk(node).maybe for node in cut.sources):
                partly.add(line)
        return [
            line + (f"; behind it: {'at least ' if line in partly else ''}{self.short(lost)}" if lost else "")
            for line, lost in behind.items()
        ][:3]

    def list(self, leaves: Iterable[Leaf]) -> str:
        """Parameters by their names, grouped by the outermost module."""
        parts = []
        for root, some, all_of_it in self.names.grouped(list(leaves)):
            if root and len(some) == len(all_of_it) and len(some) > 1:
                parts.append(f"all parameters of `{root}` ({self._without(root, some)})")
            elif root and len(some) > 1:
                parts.append(f"{len(some)} of {len(all_of_it)} in `{root}` ({self._without(root, some)})")
            else:
                parts.append(self.short(some))
        return ", ".join(parts)

    def _without(self, root: str, leaves: Sequence[Leaf]) -> str:
        names = [self.names.leaf(leaf).removeprefix(root).removeprefix(".") or root for leaf in leaves]
        return _quoted(names)

    def short(self, leaves: Iterable[Leaf]) -> str:
        return _quoted([self.names.leaf(leaf) for leaf in leaves])


def listed(names: Sequence[str]) -> str:
    """Some names, the others counted."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:NAMES_LIMIT]) + (
        f" and {len(names) - NAMES_LIMIT} more" if len(names) > NAMES_LIMIT else ""
    )


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
