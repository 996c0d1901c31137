"""`state_dict()` was kept as if it were a copy: it holds the weights themselves, which go on changing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Mapping, Object, StateOf, Value, alternatives
from ...findings import Finding, Severity, Step
from ...flow import events
from ...flow.modules import leaves_of
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not any(flow.called("Module.state_dict")):
        return
    taken: dict[StateOf, tuple[int, events.Called]] = {}
    stepped: list[tuple[int, events.Step]] = []
    for index, event in enumerate(flow.events):
        if isinstance(event, events.Step):
            stepped.append((index, event))
        if not isinstance(event, events.Called) or (not event.args and event.name != "Module.state_dict"):
            continue
        if event.name == "Module.state_dict":
            for state, _ in _states(event.result):
                taken[state] = (index, event)
        elif event.name in ("Module.load_state_dict", "torch.save"):
            for state, copied in _states(event.args[0]):
                start, origin = taken.get(state, (index, event))
                if copied and not origin.branches:
                    continue  # what the training begins with, until something better is copied
                if event.name == "Module.load_state_dict" and state.module is not event.owner:
                    continue  # another module: it may be meant to follow
                if event.name == "torch.save" and not origin.branches:
                    continue  # made once, to be saved as it is then
                moved = _moved(flow, state.module, [step for at, step in stepped if at > start])
                if moved is not None:
                    what = say("the last weights are saved")
                    if event.name != "torch.save":
                        what = say("loading it changes nothing")
                    yield Finding(
                        "", "", RULE.severity, state.place,
                        say("`state_dict()` is no copy: it holds the weights themselves, which every later step "
                            "changes"),
                        (Step(event.place, what), Step(moved.place, say("this step changes what was kept"))),
                    )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Copy it.

    Needs: the place is the whole call of `state_dict`.
    """
    tree = context.tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if call is None:
        return None
    copied = f"{{key: value.clone() for key, value in {tree.code(call)}.items()}}"
    return Fix(say("Copy the weights"), Applicability.SAFE, (tree.replace(call, copied),))


def _states(value: Value, depth: int = 3) -> Iterator[tuple[StateOf, bool]]:
    """The states that are in a value, directly or in a dict; and whether it may be a copy instead."""
    for option in alternatives(value):
        if isinstance(option, Mapping):
            of = option.cells.get("of")
            if isinstance(of, frozenset):
                yield from ((state, option.cells.get("copied") is True) for state in of)
            elif depth:
                for item in option.cells.values():
                    if isinstance(item, Value):
                        yield from _states(item, depth - 1)


def _moved(flow: Flow, module: Object, steps: list[events.Step]) -> events.Step | None:
    if flow.run is None:
        return None
    leaves = set(leaves_of(flow.run, module)[0])
    return next((step for step in steps if leaves & set(step.leaves)), None)


RULE = Rule(code="GL412", severity=Severity.WARNING, check=check)
