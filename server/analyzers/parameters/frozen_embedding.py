"""`Embedding.from_pretrained` freezes the table unless told otherwise, and the optimizer gets it all the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Edit, Fix, FixContext
from ...facts import Leaf, Object, ParameterOf, Tensor
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

NAMES = ("torch.nn.Embedding.from_pretrained", "torch.nn.EmbeddingBag.from_pretrained")


def check(flow: Flow) -> Iterable[Finding]:
    frozen: dict[Leaf, events.Called] = {}
    for event in flow.called(*NAMES):
        leaf = event.result.cells.get("leaf") if isinstance(event.result, Object) else None
        said = "freeze" in event.keywords or len(event.args) > 1 or event.spread
        if isinstance(leaf, Leaf) and not said and leaf.cells.get("requires_grad") is False:
            frozen[leaf] = event
    if not frozen:
        return
    for flag in flow.of(events.GradFlag):  # somebody has thought of it
        target = flag.target
        for leaf in (
            target.leaves if isinstance(target, ParameterOf) else (target.leaf,) if isinstance(target, Tensor) else ()
        ):
            if leaf is not None:
                frozen.pop(leaf, None)
    for made in flow.of(events.OptimizerMade):
        for leaf in made.leaves:
            if (event := frozen.get(leaf)) is not None:
                yield Finding(
                    "", "", RULE.severity, event.place,
                    say("{code} freezes the table unless `freeze=False` is said: the optimizer gets it and will "
                        "never move it", code=flow.code(event.place)),
                    (Step(made.place, say("this optimizer gets it")),),
                )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Say that it is to be trained.

    Needs: the place is the call of `from_pretrained`.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    call: Any = tree.exactly(finding.place, tree.cst.Call)
    if call is None or not call.args:
        return None
    end = tree.span(call.args[-1].value)[1]
    return Fix(say("Train the table"), Applicability.UNSAFE, (Edit(tree.path, end, end, ", freeze=False"),))


RULE = Rule(code="GL511", severity=Severity.WARNING, check=check)
