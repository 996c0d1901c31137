"""What happened while a program was interpreted: the facts that rules are made of.

Every event has the `place` of the source that did it and the `stack` of call sites above it. Events are recorded for
every pass over the code (a loop is passed twice, a function once for each call), so a rule may see the same place
several times, in different states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..facts import Cut, Frames, Leaf, Mode, Node, Object, Tensor, Value
from ..findings import Place

if TYPE_CHECKING:
    from .. import ir
    from .frames import Args, Loop
    from .interp import Interpreter
    from .training import Grad


@dataclass(eq=False, slots=True)
class Event:
    place: Place
    stack: Frames | None
    loops: tuple[Loop, ...] = field(default=(), init=False)  # those that are running, outermost first
    branches: int = field(default=0, init=False)  # unknown conditions that it depends on


@dataclass(eq=False, slots=True)
class Backward(Event):
    """`value.backward(...)`, `torch.autograd.backward(value)` or `torch.autograd.grad(value, ...)`."""

    value: Value
    value_place: Place  # the expression that is back-propagated
    mode: Mode
    gradient: bool  # a `gradient` argument was given
    retain: bool | None  # retain_graph or create_graph; None: not known
    reached: tuple[Leaf, ...] = ()  # leaves that get a gradient
    cuts: tuple[Cut, ...] = ()  # where the line was lost on the way
    opaque: bool = False  # the graph reaches things that are not known
    freed: tuple[tuple[Node, Place], ...] = ()  # nodes that an earlier backward freed, and where
    changed: tuple[tuple[Node, Place], ...] = ()  # saved tensors changed in place since, and where
    grad: bool = False  # it was autograd.grad
    stale: tuple[tuple[Leaf, Place], ...] = ()  # leaves that still hold a gradient which was already applied
    create: bool = False
    guards: tuple[Guard, ...] = ()
    zero: tuple[Node, ...] = ()  # operations on the way whose gradient is exactly zero
    nodes: tuple[Node, ...] = ()  # the graph that is surely walked
    guess: bool = False  # the value is one of several, and this event is for one of them
    always: bool = True  # no unknown condition decides whether it is reached
    bound: Place | None = None  # the statement that last gave the name that is back-propagated its value

    @property
    def how(self) -> str:
        """What goes backward, as a message names it."""
        return "`torch.autograd.grad`" if self.grad else "`backward()`"


@dataclass(eq=False, slots=True)
class Switch(Event):
    """Grad mode was changed by a call that no block undoes (or by entering a block: `persistent` false)."""

    mode: Mode
    before: Mode
    persistent: bool


@dataclass(eq=False, slots=True)
class BareContext(Event):
    """`torch.no_grad()` and the like as a statement that does nothing; `called` false: without parentheses."""

    how: str
    called: bool
    in_with: bool = False


@dataclass(eq=False, slots=True)
class Lost(Event):
    """An operation whose result has no graph although an input had one."""

    cut: Cut


@dataclass(eq=False, slots=True)
class GradFlag(Event):
    """`x.requires_grad = value`, `x.requires_grad_(value)`, `Variable(x, requires_grad=True)` on some value."""

    how: str
    target: Value
    value: bool | None
    before: Tensor | None = None
    source: object = None  # the expression that was assigned (IR), for rules that read intent from its words
    condition: object = None  # the condition of the `if` around it (IR), and which way this is


@dataclass(frozen=True, eq=False, slots=True)
class Autocast:
    """One stay in an autocast block that was made there."""

    place: Place


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition `... % every == ...` under which something is done once in so many iterations."""

    place: Place
    every: Value
    loops: int  # how many loops were running around the condition


@dataclass(eq=False, slots=True)
class Step(Event):
    """An optimizer's step; `optimizer` holds `leaves`."""

    optimizer: Object
    leaves: tuple[Leaf, ...]
    empty: tuple[tuple[Leaf, Place], ...] = ()  # leaves whose gradient was cleared after the last backward, and where
    pending: int = 0  # leaves that hold a fresh gradient
    stale: tuple[tuple[Leaf, Place], ...] = ()  # gradients of earlier steps are still in it
    scaled: Place | None = None  # gradients are still scaled by a GradScaler
    again: Place | None = None  # an earlier step has applied the same gradients
    dropped: tuple[
        tuple[Leaf, Place, Place], ...
    ] = ()  # gradients of other batches were cleared: where, and made where
    guards: tuple[Guard, ...] = ()
    via: str = ""  # "scaler" when a GradScaler made the step
    closure: bool = False
    autocast: object = None  # the `Autocast` it runs in
    leftover: tuple[
        tuple[Leaf, Place, Place], ...
    ] = ()  # gradients of another loss are in it: made where, left by which step
    before: Place | None = None  # another step, if that one has applied the stale ones


@dataclass(eq=False, slots=True)
class Iterated(Event):
    """Somebody begins to iterate over a data loader."""

    loader: Object


@dataclass(eq=False, slots=True)
class GraphBreak(Event):
    """In code that runs compiled, a Python number is taken out of a tensor."""

    how: str
    compiled: Place  # the call of `torch.compile`


@dataclass(eq=False, slots=True)
class Unwrapped(Event):
    """`wrapper.module` was read of a DataParallel or DistributedDataParallel."""

    wrapper: Object


@dataclass(eq=False, slots=True)
class Clip(Event):
    """Gradients are clipped; `grads` is what each leaf holds then (`training.Grad`)."""

    leaves: tuple[Leaf, ...]
    grads: tuple[Grad, ...]
    limit: Value
    scaled: bool  # all fresh gradients are still scaled by a GradScaler


@dataclass(eq=False, slots=True)
class Scaling(Event):
    """A call of a GradScaler's method; `phase` is where it stood with the optimizer since its last update, `before` there."""

    scaler: Object
    name: str
    optimizer: Object | None
    phase: str | None
    before: Place | None
    unscaled: bool  # every gradient is surely there and was surely not scaled


@dataclass(eq=False, slots=True)
class Kept(Event):
    """In a loop, a tensor with its graph was added to a sum or put into a list.

    `freed` is the backward that has already gone through that graph, if one has; `carried`: the sum holds a term that
    was added there in an earlier iteration.
    """

    value: Tensor
    how: str  # "sum" or "list"
    container: Value
    freed: Place | None
    carried: bool = False


@dataclass(eq=False, slots=True)
class Zero(Event):
    """Gradients were cleared."""

    leaves: tuple[Leaf, ...]
    optimizer: Object | None = None
    guards: tuple[Guard, ...] = ()


@dataclass(eq=False, slots=True)
class OptimizerMade(Event):
    optimizer: Object
    leaves: tuple[Leaf, ...]
    exact: bool  # every parameter that it got is known
    used_up: Place | None = None  # the generator that it got was used up there
    arguments: tuple[Value, ...] = ()
    in_loop: bool = False
    argument_place: Place | None = None  # the expression that gave the parameters
    options: Args | None = None  # everything that it got


@dataclass(eq=False, slots=True)
class ParametersAdded(Event):
    """`optimizer.add_param_group(...)`"""

    optimizer: Object
    leaves: tuple[Leaf, ...]


@dataclass(eq=False, slots=True)
class Registered(Event):
    """A module got a child or a parameter other than by an attribute: `add_module`, `append`, `model[0] = ...`"""

    owner: Object
    value: Value


@dataclass(eq=False, slots=True)
class Attribute(Event):
    """`owner.name = value` on something that rules care about (a module, a parameter, a tensor)."""

    owner: Value
    name: str
    value: Value
    own: bool = False  # a method of the owner does it: `self.name = value`
    in_forward: Object | None = None
    value_place: Place | None = None
    straight: bool = False  # every way through the functions that run comes here


@dataclass(eq=False, slots=True)
class NotCalled(Event):
    """A bound method that stands as a statement of its own, without parentheses."""

    owner: Value
    name: str


@dataclass(eq=False, slots=True)
class Discarded(Event):
    """A call whose result matters and is thrown away: `x.detach()`, `h.zero_grad` ..."""

    owner: Value
    name: str


class _Given:
    """An event that keeps the arguments of a call: their places are made when a rule asks for them."""

    given: Args | None

    @property
    def arg_places(self) -> tuple[Place, ...]:
        """Where the positional arguments stand."""
        return tuple(self.given.places) if self.given is not None else ()


@dataclass(eq=False, slots=True)
class Called(_Given, Event):
    """A call of a library function or method that a rule asked to see (see `watch` in `interp.py`)."""

    name: str  # the qualified name, or `Class.method`
    args: tuple[Value, ...]
    keywords: dict[str, Value]
    result: Value
    owner: Value | None = None
    given: Args | None = None
    mode: Mode | None = None
    in_forward: Object | None = None
    in_loop: int = 0
    certain: bool = True
    training: object = None  # the mode of the module in whose forward it is: True, False, None = not known
    spread: bool = False  # there may be more arguments


def called_event(
    run: Interpreter, name: str, args: Args, e: ir.Call, result: Value, owner: Value | None = None
) -> None:
    """Record a call as `Called`."""
    instance = run.frame.instance
    run.record(
        Called(
            run.place(e.at), run.stack, name, tuple(args.positional), dict(args.keywords), result, owner,
            args, run.state.mode, instance, len(run.frame.loops), run.frame.branches == 0,
            instance.cells.get("training") if instance is not None else None, args.spread,
        )
    )  # fmt: skip


@dataclass(eq=False, slots=True)
class ClassMade(Event):
    """A class statement of the project was run."""

    cls: Value


@dataclass(eq=False, slots=True)
class Made(Event):
    """An instance was made; `init` tells whether `Module.__init__` ran before the first registration."""

    obj: Object
    in_forward: Object | None = None
    in_loop: int = 0
    certain: bool = True  # no unknown condition decides whether it is made
    training: object = None  # as in `Called`
    leaves: tuple[Leaf, ...] = ()  # the parameters that it came with, if it is made in a forward


@dataclass(eq=False, slots=True)
class Forward(_Given, Event):
    """A module was called; `modes` are the calls of `train` and `eval` that decide its mode (`facts.Switched`)."""

    module: Object
    training: object = None
    mode: Mode | None = None
    args: tuple[Value, ...] = ()
    result: Value | None = None
    modes: frozenset[object] = frozenset()
    inside: Object | None = None  # the module whose forward calls it
    unsynced: Place | None = None  # the `no_sync()` that it runs under, of a DistributedDataParallel
    given: Args | None = None
    autocast: object = None  # the `Autocast` it runs in


@dataclass(eq=False, slots=True)
class DeadTerm(Event):
    """`live + dead`: a scalar without a graph is added to one that has one; `node` is that of the sum."""

    cuts: tuple[Cut, ...]
    node: Node | None


@dataclass(eq=False, slots=True)
class Shared(Event):
    """A parameter got the memory of another one, and is not that one: `a.weight.data = b.weight.data`."""

    leaf: Leaf
    other: Leaf


@dataclass(eq=False, slots=True)
class NoneUsed(Event):
    """An attribute was read of a value that is None there; `leaves` have no gradient, where that is why."""

    name: str
    origin: Place | None
    why: str
    leaves: tuple[Leaf, ...] = ()


@dataclass(eq=False, slots=True)
class Raised(Event):
    """Something that surely raises, which no other event tells: `rule` is the name of the rule that says so."""

    rule: str
    message: str
    trail: tuple[tuple[Place, str], ...] = ()
    data: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Applied(Event):
    """An update by hand, `w -= rate * w.grad`, of a gradient that holds what the update has applied before; `backward`
    has added to it."""

    leaf: Leaf
    backward: Place


@dataclass(eq=False, slots=True)
class InPlace(Event):
    """A tensor was written in place."""

    target: Tensor
    how: str
    mode: Mode | None = None
    leaf: Leaf | None = None  # the leaf whose memory it is
