"""A `GradScaler` is used in part: scale, unscale_ (before clipping), step and update belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...findings import Finding, Severity, Step
from ...flow import events
from ...rule import Rule
from ._shared import followed, known

if TYPE_CHECKING:
    from ...flow import Flow


def check(flow: Flow) -> Iterable[Finding]:
    reads_scale = any(event.name == "get_scale" for event in flow.of(events.Scaling))
    for event in flow.events:
        if isinstance(event, events.Scaling):
            yield from _call(flow, event)
        elif isinstance(event, events.Clip) and event.scaled and not reads_scale and followed(flow, event.leaves):
            yield from _clip(flow, event)
        elif isinstance(event, events.Step) and not event.via and not event.optimizer.cells.get("escaped"):
            yield from _step(flow, event)


def _call(flow: Flow, event: events.Scaling) -> Iterable[Finding]:
    """What torch refuses: `step` or `unscale_` twice without `update`, `step` without `scale`."""
    if event.scaler.cells.get("escaped") or event.optimizer is None:
        return
    if event.name in ("step", "unscale_") and event.phase == "stepped" and event.before is not None:
        message = "`scaler.update()` is missing: the scaler has already stepped this optimizer, and a second time raises"
        trail = (Step(event.before, "it stepped here"),) if event.before != event.place else ()
        yield Finding("", "", Severity.ERROR, event.place, message, trail)
    elif event.name == "unscale_" and event.phase == "unscaled" and event.before is not None:
        message = "`unscale_()` is called a second time since the last update, which raises"
        trail = (Step(event.before, "the gradients are unscaled here already"),) if event.before != event.place else ()
        yield Finding("", "", Severity.ERROR, event.place, message, trail)
    elif event.name == "step" and event.unscaled and event.phase == "ready" and known(flow, event.optimizer):
        if not any(e.name == "scale" and e.scaler is event.scaler for e in flow.of(events.Scaling)):
            message = "the loss was not scaled by this scaler: write `scaler.scale(loss).backward()`"
            yield Finding("", "", Severity.ERROR, event.place, message)


def _clip(flow: Flow, clip: events.Clip) -> Iterable[Finding]:
    after = flow.events[flow.events.index(clip) :]
    step = next((e for e in after if isinstance(e, events.Step) and set(e.leaves) & set(clip.leaves)), None)
    if step is not None and step.via:
        yield Finding(
            "", "", RULE.severity, clip.place,
            "clips gradients that are still multiplied by the scale: call `scaler.unscale_(optimizer)` first",
            (Step(step.place, "the scaler divides them by the scale here, after they were clipped"),),
        )  # fmt: skip


def _step(flow: Flow, step: events.Step) -> Iterable[Finding]:
    if step.scaled is not None:
        yield Finding(
            "", "", RULE.severity, step.place,
            "steps with gradients that are still multiplied by the scale: `scaler.step(optimizer)` divides them first",
            (Step(step.scaled, "they are gradients of a scaled loss"),),
        )  # fmt: skip
    elif step.again is not None:
        first = next((e for e in flow.of(events.Step) if e.place == step.again and e.via), None)
        if first is not None:
            yield Finding(
                "", "", RULE.severity, step.place,
                "steps a second time with the same gradients: `scaler.step(optimizer)` has stepped already",
                (Step(first.place, "this takes the step, unless a gradient is infinite"),),
            )  # fmt: skip


RULE = Rule(code="GL405", severity=Severity.WARNING, check=check)
