"""What a call of a learning rate scheduler is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...facts import External, Object, Value
from ...flow import events
from ...flow.frames import Args
from ...flow.training import is_optimizer

if TYPE_CHECKING:
    from ...flow import Flow


def optimizer_of(event: events.Called) -> tuple[Object | None, str]:
    """The optimizer whose rate `scheduler.step()` changes, and the scheduler's class; None where that is not known."""
    scheduler = event.owner
    if not isinstance(scheduler, Object) or scheduler.cells.get("escaped"):
        return None, ""
    args = scheduler.cells.get("args")
    name = scheduler.cls.name if isinstance(scheduler.cls, External) else ""
    optimizer = args.get(0, "optimizer", None) if isinstance(args, Args) else None
    return (optimizer if isinstance(optimizer, Object) and is_optimizer(optimizer) else None), name


def argument(event: events.Called, index: int, name: str, default: Value | None = None) -> Value | None:
    """What the scheduler of this call was made with."""
    args = event.owner.cells.get("args") if isinstance(event.owner, Object) else None
    return args.get(index, name, default) if isinstance(args, Args) else None


def creation(flow: Flow, event: events.Called) -> events.Called | None:
    """The call that made the scheduler."""
    return next((made for made in flow.of(events.Called) if made.result is event.owner), None)
