"""`eval()` is not undone: the training that follows runs without dropout and with frozen batch statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import External, Leaf, Object, Switched, Tensor
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule

if TYPE_CHECKING:
    from ...flow import Flow

LAYERS = ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "BatchNorm", "SyncBatchNorm", "RReLU", "Transformer")


def check(flow: Flow) -> Iterable[Finding]:
    trained: dict[int, events.Backward] = {}
    stepped: set[Leaf] = set()  # whose gradients a step applies, seen from the end
    for event in reversed(flow.among(events.Step, events.Zero, events.Backward)):
        if isinstance(event, events.Step):
            stepped.update(event.leaves)
        elif isinstance(event, events.Zero):
            stepped.difference_update(event.leaves)
        elif isinstance(event, events.Backward) and not stepped.isdisjoint(event.reached):
            trained.update((id(node), event) for node in event.nodes)
    evaluated: set[Switched] = set()  # calls of `eval` under which something was only evaluated
    clean: dict[Place, set[Switched]] = {}  # where a layer was trained in training mode, and what had put it there
    for event in flow.of(events.Forward):
        if not _cares(event.module):
            continue
        modes = {mode for mode in event.modes if isinstance(mode, Switched)}
        evals = {mode for mode in modes if mode.kind == "eval"}
        result = event.result
        used = trained.get(id(result.node)) if isinstance(result, Tensor) and result.node is not None else None
        if used is None:
            evaluated |= evals
        elif not evals:
            if all(mode.kind in ("train", "new") for mode in modes):
                clean.setdefault(event.place, set()).update(modes)
        elif evals == modes <= evaluated and event.place not in clean and event.loops:
            yield from _advice(flow, evals, used)
        elif modes - evals <= clean.get(event.place, set()) and event.place in clean:
            for mode in evals & evaluated:
                if mode.place is not None:
                    yield Finding(
                        "", "", RULE.severity, mode.place,
                        say("{call} is not undone: the training that follows runs without dropout, with batch "
                            "statistics standing still", call=flow.code(mode.place)),
                        (Step(used.value_place,
                              say("this loss comes from the model in evaluation mode, which trained before")),),
                    )  # fmt: skip


def _advice(flow: Flow, evals: set[Switched], used: events.Backward) -> Iterable[Finding]:
    """Trained in evaluation mode from the start: some do so on purpose."""
    for mode in evals:
        if mode.place is not None:
            yield Finding(
                "", "", Severity.INFO, mode.place,
                say("{call} is still in force in the training that follows: no dropout, and batch statistics stand "
                    "still", call=flow.code(mode.place)),
                (Step(used.value_place, say("this loss comes from the model in evaluation mode")),),
            )  # fmt: skip


def _cares(module: Object) -> bool:
    return isinstance(module.cls, External) and module.cls.name.rpartition(".")[2].startswith(LAYERS)


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Switch back to training when the evaluation is over.

    Needs: the place is the whole call (`model.eval()`); the last step of the trail is the receiver of the `backward`
    that comes after it.
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    if call is None or not isinstance(call.func, cst.Attribute):
        return None
    statement = tree.statement(call)
    block = tree.block(statement)
    model = tree.code(call.func.value)
    back = f"{model}.train()"
    victim = tree.exactly(finding.trail[-1].place if finding.trail else None, cst.BaseExpression)
    start = tree.span(victim)[0] if victim is not None else 0
    after = [one for one in block if tree.span(one)[0] > tree.span(statement)[0]]
    trains = next((one for one in after if tree.span(one)[0] <= start < tree.span(one)[1]), None)
    if trains is not None:
        return Fix(
            say("Switch {model} back to training", model=model), Applicability.SAFE, (tree.insert_before(trains, back),)
        )
    returns = [node for node in tree.nodes(cst.Return) if tree.span(node)[0] > tree.span(statement)[1]]
    if not after or victim is not None or len(returns) > 1:
        return None
    last: Any = after[-1]
    if not returns:
        edit = tree.insert_after(last, back)
    elif tree.statement(returns[0]) is last and model not in tree.code(last):
        edit = tree.insert_before(last, back)
    else:
        return None
    return Fix(say("Switch {model} back to training", model=model), Applicability.SAFE, (edit,))


RULE = Rule(code="GL407", severity=Severity.WARNING, check=check)
