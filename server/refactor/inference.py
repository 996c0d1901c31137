"""`no_grad` made `inference_mode`, where it is seen that no tensor made under it is there afterwards.

A tensor made in inference mode is one for ever: saved for a backward, or changed in place outside, it raises. So this
is offered only where a whole program runs through the region, what it calls is known, and a run with the change sees
numbers alone leave it: by names that are used below, by what is returned, by what is put into lists and objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .. import ir
from ..check import CancelledError
from ..edits import Applicability, Edit, Fix, apply
from ..facts import INFERENCE, Const, Number, Text, Union, Unknown, Value
from ..insight.marks import nodes_of
from ..insight.observe import Observed, Seen, entries, observe
from ..messages import say
from ..project import Project
from .here import Here, Offer, Statement, within

INFERENCE_MODE = "inference-mode"
WORD, NEW = "no_grad", "inference_mode"
# What changes tensors that were there before, or turns gradients on again: such regions are left alone.
TOUCHY = re.compile(r"\w_\(|enable_grad|set_grad_enabled|requires_grad|backward|\.data\b|\.grad\b|\byield\b|\bawait\b|\bdel\b"
                    r"|\bglobal\b|\bnonlocal\b|\blambda\b")  # fmt: skip
KEEPING = frozenset({"append", "extend", "insert", "appendleft", "setdefault", "put", "push", "register_buffer"})


def offers(here: Here) -> Iterator[Offer]:
    found = _word(here)
    if found is not None and here.is_readable and _is_right(here, *found):
        yield Offer(INFERENCE_MODE, say("Use `inference_mode`: nothing made here is needed for training"), True)


def make(here: Here, name: str) -> Fix | None:
    found = _word(here) if name == INFERENCE_MODE else None
    offer = next(offers(here), None) if found is not None else None
    if found is None or offer is None:
        return None
    return Fix(offer.title, Applicability.SAFE, (_edit(here, found[0]),))


def _edit(here: Here, word: tuple[int, int]) -> Edit:
    return Edit(here.path, *word, NEW)


def _word(here: Here) -> tuple[tuple[int, int], Statement] | None:
    """Where `no_grad` stands, as a decorator or in a `with` at the cursor, and the statement that it is of."""
    statement, node = here.statement, here.statement.node
    if type(node) is ir.Def and not node.is_async and not node.is_generator:
        expressions = list(node.decorators)
    elif type(node) is ir.With and len(node.items) == 1 and node.items[0][1] is None:
        expressions = [node.items[0][0]]
    else:
        return None
    for expression in expressions:
        function = expression.func if type(expression) is ir.Call and not expression.args else expression
        if type(function) is ir.Attr and here.dotted(function) in (f"torch.{WORD}", f"torch.autograd.{WORD}"):
            if here.dotted(function) != f"torch.{WORD}":
                continue  # torch.autograd.inference_mode is newer than torch.inference_mode
            end = statement.span(function)[1]
            return (end - len(WORD), end), statement
    return None


def _is_right(here: Here, word: tuple[int, int], statement: Statement) -> bool:
    node = statement.node
    bodies = [statement.span(one) for one in node.body if type(one) is not ir.Part]
    if not bodies or len(bodies) != len(node.body):
        return False
    start, end = bodies[0][0], bodies[-1][1]
    if TOUCHY.search(here.text, start, end):
        return False
    by = len(NEW) - len(WORD)
    region = Region(here, statement, start + by, end + by)
    project = here.project
    with project.trial({here.path: apply(here.text, [_edit(here, word)])}):
        passed = False
        for entry in entries(project, here.path):
            module = project.module(entry)
            if module is None:
                return False
            try:
                observed = observe(project, module, here.cancelled)
            except CancelledError:
                return False  # asked again, it is found out
            looks = Looks(project, observed)
            if not (looks.are_complete and region.keeps_to_itself(looks) and not looks.keep_tensors()):
                return False
            passed = passed or region.is_passed(looks)
    return passed


class Looks:
    """What one run has seen, by file and span."""

    def __init__(self, project: Project, observed: Observed) -> None:
        self._project = project
        self._observed = observed
        self.are_complete = all(flow.complete for flow in observed.flows if flow.whole)

    def of(self, path: str, span: tuple[int, int]) -> list[Seen]:
        return list(self._observed.looks.get(path, {}).get(ir.pack(*span), {}).values())

    def keep_tensors(self) -> bool:
        """Whether code that runs in the mode, of whatever file, puts what may be a tensor where it stays."""
        for path, spans in self._observed.looks.items():
            module = self._project.module(path)
            if module is None or not any(s.mode.kind == INFERENCE for looks in spans.values() for s in looks.values()):
                continue
            for base, node in nodes_of(module.units):
                for value in _put(node):
                    start, end = ir.unpack(value.at)
                    seen = [s for s in self.of(path, (base + start, base + end)) if s.mode.kind == INFERENCE]
                    if any(_may_be_tensor(value) for s in seen for value in s.values):
                        return True
        return False


@dataclass(frozen=True)
class Region:
    """What stands under `no_grad`, at its place in the changed text."""

    here: Here
    statement: Statement
    start: int
    end: int

    def _span(self, node: Any) -> tuple[int, int]:
        start, end = self.statement.span(node)
        by = self.start - self.statement.span(self.statement.node.body[0])[0]
        return start + by, end + by

    def _nodes(self) -> Iterator[Any]:
        return (node for body in self.statement.node.body for node in ir.nodes(body))

    def is_passed(self, looks: Looks) -> bool:
        """Whether a program, and not a function that nobody calls, runs through it."""
        return any(
            not seen.alone
            for node in self._nodes()
            if type(node) is ir.Call
            for seen in looks.of(self.here.path, self._span(node))
        )

    def keeps_to_itself(self, looks: Looks) -> bool:
        """Whether only numbers leave it, and what is called in it is known."""
        path, leaving = self.here.path, self._leaving()
        for node in self._nodes():
            kind = type(node)
            if kind is ir.Call:
                if any(_is_unknown(value) for seen in looks.of(path, self._span(node)) for value in seen.values):
                    return False
            elif kind in (ir.Def, ir.Class, ir.Lambda):
                return False
            elif (kind is ir.Return and node.value is not None) or (kind is ir.Name and node.id in leaving):
                value = node.value if kind is ir.Return else node
                if self._may_be_tensor(looks, value):
                    return False
        return True

    def _may_be_tensor(self, looks: Looks, node: Any) -> bool:
        return any(
            _may_be_tensor(value) for seen in looks.of(self.here.path, self._span(node)) for value in seen.values
        )

    def _leaving(self) -> set[str]:
        """The names bound in it that stand elsewhere in the function, or, at module level, in the project, too."""
        if type(self.statement.node) is ir.Def:
            return set()  # its names are its own; `global` was looked for
        bound = set()
        for node in self._nodes():
            targets = ()
            if type(node) is ir.Assign:
                targets = node.targets
            elif type(node) in (ir.AugAssign, ir.AnnAssign, ir.For, ir.Walrus):
                targets = (node.target,)
            elif type(node) is ir.With:
                targets = tuple(target for _, target in node.items if target is not None)
            bound |= {one.id for target in targets for one in ir.nodes(target) if type(one) is ir.Name}
        function = self.here.function
        inside = {id(node) for node in self._nodes()}
        if function is not None:
            others = (node for node in within(function) if id(node) not in inside)
            return bound & {node.id for node in others if type(node) is ir.Name}
        others = (node for _, node in nodes_of(self.here.module.units) if id(node) not in inside)
        used = {node.id for node in others if type(node) is ir.Name}
        name = self.here.module.name
        if any(name in other.source.text for other in self.here.project.modules() if other is not self.here.module):
            return bound  # they may be imported
        return bound & used


def _put(node: Any) -> Iterator[Any]:
    """What is put by this node where it stays: into an attribute, a container, or a list by one of its methods."""
    kind: Any = type(node)
    if kind is ir.Assign:
        targets = node.targets
    elif kind in (ir.AugAssign, ir.AnnAssign):
        targets = (node.target,)
    else:
        targets = ()
    if targets and node.value is not None and any(type(target) in (ir.Attr, ir.Sub) for target in targets):
        yield node.value
    if kind is ir.Call and type(node.func) is ir.Attr and node.func.name in KEEPING:
        yield from node.args


def _is_unknown(value: Value) -> bool:
    if isinstance(value, Union):
        return any(_is_unknown(option) for option in value.options)
    return isinstance(value, Unknown) and not value.foreign


def _may_be_tensor(value: Value) -> bool:
    """Whether it is, holds, or may be, a tensor."""
    if isinstance(value, Union):
        return any(_may_be_tensor(option) for option in value.options)
    return not isinstance(value, (Number, Const, Text))
