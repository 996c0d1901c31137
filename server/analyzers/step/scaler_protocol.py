"""A `GradScaler` is used in part: scale, unscale_ (before clipping), step and update belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ...edits import Applicability, Fix, FixContext, Tree
from ...facts import Object
from ...findings import Finding, Place, Severity, Step
from ...flow import events
from ...messages import say
from ...rule import Rule
from ._shared import followed, known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    reads_scale = any(event.name == "get_scale" for event in flow.of(events.Scaling))
    clipped: dict[Place, Place] = {}  # the step for which gradients are clipped -> where that is said first
    for event in flow.among(events.Scaling, events.Clip, events.Step):
        if isinstance(event, events.Scaling):
            yield from _call(flow, event)
        elif isinstance(event, events.Clip) and event.scaled and not reads_scale and followed(flow, event.leaves):
            yield from _clip(flow, event, clipped)
        elif isinstance(event, events.Step) and not event.via and not event.optimizer.cells.get("escaped"):
            yield from _step(flow, event, reads_scale)


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


def _clip(flow: Flow, clip: events.Clip, clipped: dict[Place, Place]) -> Iterable[Finding]:
    after = flow.events[flow.events.index(clip) :]
    step = next((e for e in after if isinstance(e, events.Step) and set(e.leaves) & set(clip.leaves)), None)
    if step is not None and step.via:
        yield Finding(
            "", "", RULE.severity, clip.place,
            say("{clip} clips gradients that are still multiplied by the scale: call `scaler.unscale_(optimizer)` "
                "first", clip=flow.code(clip.place)),
            (Step(step.place, say("the scaler divides them by the scale here, after they were clipped")),),
            data=(("again", clipped.setdefault(step.place, clip.place) != clip.place),),
        )  # fmt: skip


def _step(flow: Flow, step: events.Step, reads_scale: bool) -> Iterable[Finding]:
    if step.scaled is not None and not reads_scale:
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
        edits = (tree.insert_after(_last_step(tree, other, scaler), f"{scaler}.update()"),)
        return Fix(say("Update {scaler} after the step", scaler=scaler), Applicability.SAFE, edits)
    stepped = isinstance(call.func, cst.Attribute) and call.func.attr.value == "step" and not call.args
    if stepped and done == "step":
        return Fix(
            say("Leave the step to {scaler}", scaler=scaler), Applicability.SAFE, (tree.delete(tree.parent(call)),)
        )
    if stepped:
        edits = (tree.replace(call, f"{scaler}.step({tree.code(call.func.value)})"),)
        update = f"{scaler.rpartition('.')[2]}.update("
        # Where others step, too, it is not known which one is the last before the update.
        safety = Applicability.SAFE if _steps(tree, call) == 1 else Applicability.UNSAFE
        if f"{scaler}.update(" not in context.scope(finding.place).text:
            if update in context.source(finding.place.path).text:
                safety = Applicability.UNSAFE  # another function does it
            edits += (tree.insert_after(statement, f"{scaler}.update()"),)
        return Fix(say("Step through {scaler}", scaler=scaler), safety, edits)
    if done != "step" or not other.args or finding.get("again"):
        return None  # what is clipped before is unscaled there, and this with it
    edits = (tree.insert_before(statement, f"{scaler}.unscale_({tree.code(other.args[0].value)})"),)
    safety = Applicability.SAFE if _once(tree, statement, other) else Applicability.UNSAFE
    return Fix(say("Unscale the gradients before clipping"), safety, edits)


def _last_step(tree: Tree, step: Any, scaler: str) -> Any:
    """The statement after which every optimizer of this scaler has stepped: the last such step of the block, or the loop
    over the optimizers."""
    cst = tree.cst
    statement = tree.statement(step)
    for loop in tree.ancestors(step):
        if isinstance(loop, (cst.FunctionDef, cst.While)):
            break
        if isinstance(loop, cst.For) and step.args:
            given = {name.value for name in tree.names(step.args[0].value)}
            if given & {name.value for name in tree.names(loop.target)}:
                return loop
    block = list(tree.block(statement))
    return next((one for one in reversed(block) if tree.code(one).strip().startswith(f"{scaler}.step(")), statement)


def _steps(tree: Tree, call: Any) -> int:
    """How many optimizers step in the statements of this function."""
    cst = tree.cst
    own = tree.enclosing(call, cst.FunctionDef)
    return sum(
        isinstance(one.func, cst.Attribute)
        and one.func.attr.value == "step"
        and isinstance(tree.parent(one), cst.Expr)
        and tree.enclosing(one, cst.FunctionDef) is own
        for one in tree.nodes(cst.Call)
    )


def _once(tree: Tree, statement: Any, step: Any) -> bool:
    """Whether the scaler steps whenever this statement is reached, and as often: in the same block, or around it."""
    cst = tree.cst
    block = tree.parent(tree.statement(step))
    for outer in (statement, *tree.ancestors(statement)):
        if isinstance(outer, (cst.For, cst.While, cst.FunctionDef)):
            return False
        if tree.parent(outer) is block:
            return True
    return False


RULE = Rule(code="GL405", severity=Severity.WARNING, check=check)
