"""Two parameters share one memory and are not the same Parameter: each is trained on its own, and both move it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    if not any(flow.of(events.Shared)):
        return
    shared: list[events.Shared] = []
    together: dict[int, events.Backward] = {}
    for event in flow.among(events.Shared, events.Backward, events.Step):
        if isinstance(event, events.Shared):
            shared.append(event)
        elif isinstance(event, events.Backward) and not event.grad and not event.opaque:
            for index, pair in enumerate(shared):
                if pair.leaf in event.reached and pair.other in event.reached:
                    together.setdefault(index, event)
        elif isinstance(event, events.Step):
            for index, backward in list(together.items()):
                pair = shared[index]
                if pair.leaf in event.leaves and pair.other in event.leaves:
                    del together[index]
                    if any(
                        leaf.cells.get(why) for leaf in (pair.leaf, pair.other) for why in ("escaped", "taken-apart")
                    ):
                        continue
                    yield Finding(
                        "", "", RULE.severity, pair.place,
                        say("{code} makes two parameters of one memory: the step moves it twice, with each one's gradient, "
                            "and moving the model parts them; assign the Parameter itself", code=flow.code(pair.place)),
                        (Step(event.place, say("this step holds both")),
                         Step(backward.value_place, say("both are used for this loss"))),
                    )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Assign the Parameter.

    Needs: the place is the target of `a.weight.data = b.weight.data`, or the call of `nn.Parameter(b.weight)`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    made: Any = tree.exactly(finding.place, cst.Call)
    if made is not None:
        return Fix(
            say("Assign the Parameter itself"),
            Applicability.SAFE,
            (tree.replace(made, _whole(tree, made.args[0].value)),),
        )
    target: Any = tree.exactly(finding.place, cst.Attribute)
    holder: Any = target and tree.parent(target)
    assign: Any = holder and tree.parent(holder)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or target.attr.value != "data":
        return None
    edits = (
        tree.replace(target, tree.code(target.value)),
        tree.replace(assign.value, _whole(tree, assign.value)),
    )
    return Fix(say("Assign the Parameter itself"), Applicability.SAFE, edits)


def _whole(tree: Any, value: Any) -> str:
    """`b.weight` of `b.weight.data`"""
    if isinstance(value, tree.cst.Attribute) and value.attr.value == "data":
        value = value.value
    return tree.code(value)


RULE = Rule(code="GL516", severity=Severity.WARNING, check=check)
