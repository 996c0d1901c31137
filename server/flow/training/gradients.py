"""What is in `.grad`: an abstract `AccumulateGrad` for every leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...facts import Leaf, Object, replace
from ...findings import Place
from .. import events
from ..frames import Args

if TYPE_CHECKING:
    from ..interp import Interpreter


@dataclass(frozen=True, eq=False)
class Grad:
    """What is in `.grad` of a leaf.

    `none` or `zero`: nothing; `fresh`: a gradient that no step has applied; `used`: one that a step has applied;
    `stale`: a fresh one added to a used one; `?`: not known. `place` is the backward (or the clearing) that made it so;
    `lost` where a fresh gradient was cleared, and `origin` the backward that had made it; `dropped` says (where
    cleared, where made) that the same backward's gradient of an earlier iteration was cleared unused; `by` is the step
    that applied a used one.
    """

    state: str = "none"
    place: Place | None = None
    lost: Place | None = None
    scaled: bool | None = False
    origin: Place | None = None
    dropped: tuple[Place, Place] | None = None
    by: Place | None = None
    crossed: Place | None = None  # a step of another optimizer that left a fresh one where it was
    leftover: tuple[Place, Place] | None = None  # what it was added to: made where, and left by which step
    zeros: bool = False  # of "none": it may hold zeros, and is not None
    hand: Place | None = None  # the update by hand that has applied what is in it
    again: Place | None = None  # the update by hand that has applied a part of it

    @property
    def all(self) -> tuple[object, ...]:
        """All of it, to be compared."""
        return (
            self.state, self.place, self.lost, self.scaled, self.origin, self.dropped, self.by, self.crossed,
            self.leftover, self.zeros, self.hand, self.again,
        )  # fmt: skip

    def join(self, other: Grad) -> Grad:
        if self.state != other.state:
            return Grad("?", scaled=None)
        return Grad(
            self.state, self.place or other.place, self.lost if other.lost else None,
            self.scaled if self.scaled == other.scaled else None, self.origin if other.origin else None,
            self.dropped if other.dropped else None, self.by if other.by else None,
            self.crossed if other.crossed else None, self.leftover if other.leftover else None, self.zeros or other.zeros,
            self.hand if self.hand == other.hand else None, self.again if self.again == other.again else None,
        )  # fmt: skip


NO_GRAD = Grad()


def grad_of(leaf: Leaf) -> Grad:
    grad = leaf.cells.get("grad", NO_GRAD)
    return grad if isinstance(grad, Grad) else Grad("?")


def clear(
    run: Interpreter,
    leaves: list[Leaf] | tuple[Leaf, ...],
    place: Place | None,
    optimizer: Object | None,
    zeros: bool = False,
) -> None:
    """Gradients are set to None, or (perhaps, with `zeros`) to zero."""
    put = run.state.set
    cleared: dict[Grad, Grad] = {}  # many leaves hold the same
    for leaf in leaves:
        old = grad_of(leaf)
        new = cleared.get(old)
        if new is None:
            lost, origin = (old.lost, old.origin) if old.state == "none" else (None, None)
            if old.state in ("fresh", "stale"):
                lost, origin = place, old.place
            new = cleared[old] = Grad("none", place, lost, origin=origin, zeros=zeros)
        put(leaf.cells, "grad", new)
    if place is not None:
        run.record(events.Zero(place, run.stack, tuple(leaves), optimizer, run.guards))


def keeps_zeros(run: Interpreter, args: Args) -> bool:
    """Whether a call of `zero_grad` may leave zeros: torch's default is None."""
    flag = args.get(0, "set_to_none", None)
    return flag is not None and run.truth(flag) is not True


def change_grad(run: Interpreter, leaves: tuple[Leaf, ...], decays: bool) -> None:
    """Gradients are changed by hand; `decays`: what earlier steps have applied may be let fade on purpose."""
    for leaf in leaves:
        grad = grad_of(leaf)
        run.state.put(leaf.cells, "grad-changed", True)
        state = "?" if decays and grad.state in ("used", "stale", "none") else grad.state
        run.state.set(leaf.cells, "grad", replace(grad, state=state, scaled=None, hand=None, again=None))


# The parts of the interpreter know each other: these come when this one is complete.
