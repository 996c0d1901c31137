"""A `GradScaler` is used in part: scale, unscale_ (before clipping), step and update belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext
from ...facts import Object
from ...findings import Finding, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import followed, known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    reads_scale = any(event.name == "get_scale" for event in flow.of(events.Scaling))
    for event in flow.among(events.Scaling, events.Clip, events.Step):
        if isinstance(event, events.Scaling):
            yield from _call(flow, event)
        elif isinstance(event, events.Clip) and event.scaled and not reads_scale and followed(flow, event.leaves):
            yield from _clip(flow, event)
        elif isinstance(event, events.Step) and not event.via and not event.optimizer.cells.get("escaped"):
            yield from _step(flow, event)


def _call(flow: Flow, event: events.Scaling) -> Iterable[Finding]:
    """What torch refuses: `step` or `unscale_` twice without `update`, `step` without `scale`."""
    if event.scaler.cells.get("escaped"):
        return
    early = event.name == "update" and event.phase == "ready" and _scaled(flow, event.scaler)
    if early and all(step.scaled is None for step in flow.of(events.Step)):  # a step around the scaler is said already
        message = say(
            "`update()` comes before `scaler.step(optimizer)`, which raises: the scaler has seen no gradient yet"
        )
        yield Finding("", "", Severity.ERROR, event.place, message)
    if event.optimizer is None:
        return
    if event.name in ("step", "unscale_") and event.phase == "stepped" and event.before is not None:
        message = say(
            "`scaler.update()` is missing: the scaler has already stepped this optimizer, and a second time raises"
        )
        trail = (Step(event.before, say("it stepped here")),) if event.before != event.place else ()
        yield Finding("", "", Severity.ERROR, event.place, message, trail)
    elif event.name == "unscale_" and event.phase == "unscaled" and event.before is not None:
        message = say("`unscale_()` is called a second time since the last update, which raises")
        trail = (
            (Step(event.before, say("the gradients are unscaled here already")),) if event.before != event.place else ()
        )
        yield Finding("", "", Severity.ERROR, event.place, message, trail)
    elif event.name == "step" and event.unscaled and event.phase == "ready" and known(flow, event.optimizer):
        if _scaled(flow, event.scaler):
            return
        message = say("the loss was not scaled by this scaler: write `scaler.scale(loss).backward()`")
        yield Finding("", "", Severity.ERROR, event.place, message)


def _scaled(flow: Flow, scaler: Object) -> bool:
    """Whether some loss goes through this scaler."""
    return any(event.name == "scale" and event.scaler is scaler for event in flow.of(events.Scaling))


def _clip(flow: Flow, clip: events.Clip) -> Iterable[Finding]:
    after = flow.events[flow.events.index(clip) :]
    step = next((e for e in after if isinstance(e, events.Step) and set(e.leaves) & set(clip.leaves)), None)
    if step is not None and step.via:
        yield Finding(
            "", "", RULE.severity, clip.place,
            say("{clip} clips gradients that are still multiplied by the scale: call `scaler.unscale_(optimizer)` "
                "first", clip=flow.code(clip.place)),
            (Step(step.place, say("the scaler divides them by the scale here, after they were clipped")),),
        )  # fmt: skip


def _step(flow: Flow, step: events.Step) -> Iterable[Finding]:
    if step.scaled is not None:
        yield Finding(
            "", "", RULE.severity, step.place,
            say("{step} applies gradients that are still multiplied by the scale: `scaler.step(optimizer)` divides "
                "them first", step=flow.code(step.place)),
            (Step(step.scaled, say("they are gradients of a scaled loss")),),
        )  # fmt: skip
    elif step.again is not None:
        first = next((e for e in flow.of(events.Step) if e.place == step.again and e.via), None)
        if first is not None:
            yield Finding(
                "", "", RULE.severity, step.place,
                say("{step} steps a second time with the same gradients: `scaler.step(optimizer)` has stepped "
                    "already", step=flow.code(step.place)),
                (Step(first.place, say("this takes the step, unless a gradient is infinite")),),
            )  # fmt: skip


def fix(finding: Finding, context: FixContext) -> Fix | None:
    """Put in what is missing, or take out what is too much.

    Needs, by what is wrong:
      no update               place `scaler.step(optimizer)` or `scaler.unscale_(optimizer)`; trail ends at the
                              `scaler.step(optimizer)` before it, if that is another
      unscaled twice          place `scaler.unscale_(optimizer)`; trail ends at the one before it
      clipped while scaled    place the call that clips; trail ends at `scaler.step(optimizer)`
      stepped twice           place `optimizer.step()`; trail ends at `scaler.step(optimizer)`
      stepped around it       place `optimizer.step()`; trail ends at `scaler.scale(loss).backward()`
    """
    tree = context.scope_tree(finding.place)
    if tree is None:
        return None
    cst = tree.cst
    call: Any = tree.exactly(finding.place, cst.Call)
    if call is None or not isinstance(tree.parent(call), cst.Expr) or not tree.block(tree.statement(call)):
        return None
    statement = tree.statement(call)
    other: Any = tree.exactly(finding.trail[-1].place, cst.Call) if finding.trail else call
    if other is None or not isinstance(other.func, cst.Attribute):
        return None
    if other.func.attr.value == "backward" and isinstance(other.func.value, cst.Call):
        other = other.func.value  # scaler.scale(loss) of scaler.scale(loss).backward()
        if not isinstance(other.func, cst.Attribute):
            return None
    scaler = tree.code(other.func.value)
    done = other.func.attr.value
    if isinstance(call.func, cst.Attribute) and tree.code(call.func.value) == scaler:
        if done == "unscale_" and other is not call:
            return Fix(say("Unscale them once"), Applicability.SAFE, (tree.delete(tree.parent(call)),))
        if done != "step" or not tree.block(tree.statement(other)):
            return None
        edits = (tree.insert_after(tree.statement(other), f"{scaler}.update()"),)
        return Fix(say("Update {scaler} after the step", scaler=scaler), Applicability.SAFE, edits)
    stepped = isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" and not call.args
    if stepped and done == "step":
        return Fix(
            say("Leave the step to {scaler}", scaler=scaler), Applicability.SAFE, (tree.delete(tree.parent(call)),)
        )
    if stepped:
        edits = (tree.replace(call, f"{scaler}.step({tree.code(call.func.value)})"),)
        if f"{scaler}.update(" not in context.scope(finding.place).text:
            edits += (tree.insert_after(statement, f"{scaler}.update()"),)
        return Fix(say("Step through {scaler}", scaler=scaler), Applicability.SAFE, edits)
    if done != "step" or not other.args:
        return None
    edits = (tree.insert_before(statement, f"{scaler}.unscale_({tree.code(other.args[0].value)})"),)
    return Fix(say("Unscale the gradients before clipping"), Applicability.SAFE, edits)


RULE = Rule(code="GL405", severity=Severity.WARNING, check=check)
