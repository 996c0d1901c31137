"""The training step: backward, optimizers, gradients, scalers; an abstract `AccumulateGrad` for every leaf."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import ir, torchlib
from ..facts import (
    DATA,
    FLOAT,
    INFERENCE,
    NONE,
    ON,
    UNKNOWN,
    WALK_LIMIT,
    Const,
    Cut,
    External,
    Function,
    GradOf,
    Leaf,
    Mapping,
    Method,
    Mode,
    Node,
    Number,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Storage,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
    Writes,
    element,
    replace,
)
from ..findings import Place
from . import events, shapes
from .frames import Args
from .operations import Inputs, as_tensor, bump, graph_of, lost_here, possible_leaves, recorded
from .python import iterate

if TYPE_CHECKING:
    from .interp import Interpreter


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


@dataclass(frozen=True, eq=False)
class Phases:
    """Where a GradScaler stands with each optimizer since its last `update`: "unscaled" or "stepped", None: not known."""

    of: tuple[tuple[Object, str | None, Place | None], ...] = ()

    def get(self, optimizer: Object) -> tuple[str | None, Place | None]:
        return next(((phase, place) for known, phase, place in self.of if known is optimizer), ("ready", None))

    def put(self, optimizer: Object, phase: str, place: Place) -> Phases:
        return Phases((*(entry for entry in self.of if entry[0] is not optimizer), (optimizer, phase, place)))

    def join(self, other: Phases) -> Phases:
        joined = []
        for optimizer in dict.fromkeys(o for o, _, _ in (*self.of, *other.of)):
            one, two = self.get(optimizer), other.get(optimizer)
            joined.append((optimizer, one[0] if one[0] == two[0] else None, one[1] or two[1]))
        return Phases(tuple(joined))


NO_GRAD = Grad()


class Held(tuple[Leaf, ...]):
    """The leaves that an optimizer holds; after a branch that added some, those that it may hold."""

    def join(self, other: Held) -> Held:
        return Held(dict.fromkeys((*self, *other)))


def grad_of(leaf: Leaf) -> Grad:
    grad = leaf.cells.get("grad", NO_GRAD)
    return grad if isinstance(grad, Grad) else Grad("?")


# ---------------------------------------------------------------- walking the graph


@dataclass
class Walk:
    """What a backward from some node meets."""

    sure: list[Leaf]
    maybe: list[Leaf]
    nodes: list[Node]  # surely met, in order from the loss
    cuts: list[Cut]
    opaque: bool
    zero: list[Node]
    errors: list[Node]


def walk(start: Node | None, limit: int = WALK_LIMIT) -> Walk:
    """The graph below a node. Behind a `phi` nothing is sure; behind a `zero` node gradients are exactly zero."""
    found = Walk([], [], [], [], False, [], [])
    if start is None:
        return found
    seen: dict[int, bool] = {}
    todo: list[tuple[Node, bool]] = [(start, True)]
    while todo:
        node, sure = todo.pop()
        before = seen.get(id(node))
        if before is True or before is sure:
            continue
        if len(seen) > limit:
            found.opaque = True
            break
        seen[id(node)] = sure
        found.opaque = found.opaque or node.opaque
        if node.leaf is not None:
            (found.sure if sure else found.maybe).append(node.leaf)
            continue
        if before is None:
            found.cuts.extend(node.cuts)
        if node.zero:
            found.zero.append(node)
            continue
        if sure:
            found.nodes.append(node)
            if node.error:
                found.errors.append(node)
        inner = sure and not node.phi
        todo.extend((n, inner) for n in node.inputs)
    found.maybe = [leaf for leaf in found.maybe if leaf not in found.sure]
    return found


# ---------------------------------------------------------------- backward


BACKWARD_KEYWORDS = frozenset(
    {"gradient", "grad_tensors", "retain_graph", "create_graph", "inputs", "outputs", "grad_outputs", "tensors"}
    | {"only_inputs", "allow_unused", "is_grads_batched", "materialize_grads"}
)


def backward(
    run: Interpreter, value: Value, args: Args, e: ir.Call | None, value_place: Place | None = None, grad: bool = False
) -> Value:
    """`value.backward(...)`; with `grad`, `torch.autograd.grad(value, inputs)`, which leaves `.grad` alone."""
    if e is None:
        return NONE
    place = run.place(e.at)
    if value_place is None:
        inner = e.func.value if isinstance(e.func, ir.Attr) else e.func
        value_place = run.place(inner.at)
    shift = 0 if not grad else 1
    gradient = args.get(0 if not grad else 2, "gradient" if not grad else "grad_outputs", None)
    given = gradient is not None and not (isinstance(gradient, Const) and gradient.value is None)
    retain = _flag(run, args.get(1 + 2 * shift, "retain_graph", None))
    create = _flag(run, args.get(2 + 2 * shift, "create_graph", None))
    keeps = True if create or retain else None if create is None or retain is None else False
    if keeps is False and not args.keywords.keys() <= BACKWARD_KEYWORDS:
        keeps = None  # `retain_variables=True` of old versions
    tensor = as_tensor(value) if isinstance(value, ParameterOf) else value
    event = events.Backward(
        place, run.stack, tensor, value_place, run.state.mode, given, keeps, grad=grad, create=bool(create)
    )
    event.always = run.certain_now()
    event.guess = run.guesses > 0
    event.guards = run.guards
    event.bound = _binding(run, e)
    run.record(event)
    nothing = Const(None, place) if not grad else NONE
    if not isinstance(tensor, Tensor):
        unknown_backward(run)
        return nothing
    event.cuts = tensor.cuts
    node, sure = graph_of(tensor)
    event.opaque = not sure
    found = walk(node)
    if not sure_graph(tensor) and not grad:
        taint_all(run, besides=found.sure if sure else ())
    if node is None:
        if sure and not tensor.opaque and not grad:
            _failed(run)
        return nothing
    event.nodes = tuple(found.nodes)
    event.cuts = tuple(dict.fromkeys((*found.cuts, *tensor.cuts)))
    event.zero = tuple(found.zero)
    event.opaque = found.opaque or not sure
    event.reached = tuple(leaf for leaf in (*found.sure, *found.maybe) if leaf.cells.get("requires_grad") is not False)
    if found.errors:
        first = found.errors[0]
        run.record(
            events.Raised(
                place, run.stack, "no-derivative", first.error, ((first.place, first.op),) if first.place else ()
            )
        )
    freed: dict[Node, Place] = run.notes.setdefault("freed", {})  # type: ignore[assignment]
    own = _own(found, node, run.notes.get("drawn")) if sure else ()
    event.freed = tuple((n, freed[n]) for n in own if n.saves and isinstance(freed.get(n), Place))
    event.changed = (_changed(own) or _queued(run, found, own)) if not event.freed else ()
    if keeps is False:
        for n in found.nodes:
            run.state.set(freed, n, place)  # type: ignore[arg-type]
    elif keeps is None:
        for n in found.nodes:
            run.state.set(freed, n, None)  # type: ignore[arg-type]
    if grad:
        return NONE
    inputs = args.get(3, "inputs", None)
    if inputs is not None:
        return NONE
    scaled = any(n.op == "scale" for n in found.nodes)
    stale = []
    unsure = Grad("?")
    for leaf in found.sure:
        if leaf.cells.get("requires_grad") is not True:
            continue
        old = grad_of(leaf)
        if not sure:
            run.state.set(leaf.cells, "grad", unsure)
        elif old.state in ("none", "fresh"):
            dropped = old.dropped
            if old.lost is not None and old.origin == place and not leaf.cells.get("grad-read"):
                dropped = (old.lost, place)
            leftover = old.leftover
            if old.crossed is not None and old.place is not None and old.place != place:
                leftover = (old.place, old.crossed)
            again = old.hand or old.again
            new = Grad("fresh", place, scaled=scaled, dropped=dropped, leftover=leftover, again=again)
            run.state.set(leaf.cells, "grad", new)
        elif old.state in ("used", "stale"):
            if old.place is not None:
                stale.append((leaf, old.place))
            run.state.set(leaf.cells, "grad", Grad("stale", place, by=old.by, scaled=scaled))
    for leaf in found.maybe:
        run.state.set(leaf.cells, "grad", unsure)
    event.stale = tuple(stale)
    return nothing


def _failed(run: Interpreter) -> None:
    """A backward raises: what it should have put into gradients is not told again where they are missing."""
    unsure = Grad("?", scaled=None)
    for obj in run.objects:
        for leaf in optimizer_leaves(obj):
            if grad_of(leaf).state in ("none", "used"):
                run.state.set(leaf.cells, "grad", unsure)


def sure_graph(tensor: Tensor) -> bool:
    """Whether it is known which leaves the tensor reaches."""
    node, sure = graph_of(tensor)
    return sure and not tensor.opaque and not (node is not None and walk(node).opaque)


def taint(run: Interpreter, node: Node) -> None:
    """Something unknown may go backward through this graph: the gradients of its leaves are not known any more."""
    found = walk(node)
    for leaf in (*found.sure, *found.maybe):
        run.state.set(leaf.cells, "grad", Grad("?", scaled=None))


def taint_all(run: Interpreter, besides: Collection[Leaf] = ()) -> None:
    """A backward from something unknown: any leaf that an optimizer holds may have got a gradient.

    `besides` are those that surely get one.
    """
    run.notes["taint"] = True
    known, unsure = set(besides), Grad("?", scaled=None)
    for obj in run.objects:
        for leaf in optimizer_leaves(obj):
            if leaf not in known and leaf.cells.get("grad") is not unsure:
                run.state.set(leaf.cells, "grad", unsure)


def unknown_backward(run: Interpreter) -> None:
    """Something that is not known goes backward: anything may have got a gradient."""
    run.notes["unknown backward"] = True
    taint_all(run)


def _binding(run: Interpreter, e: ir.Call) -> Place | None:
    """The assignment above a call of `name.backward()` that gave the name its value, in the same body of code."""
    if not isinstance(e.func, ir.Attr) or not isinstance(e.func.value, ir.Name):
        return None
    name, frame = e.func.value.id, run.frame
    before = ir.unpack(e.at)[0]
    body: ir.Body = ()
    if frame.function is not None and isinstance(frame.function.code, ir.Def):
        body = frame.function.code.body
    elif frame.unit is not None:
        body = frame.unit.ir
    found = [at for at in _assignments(body, name) if ir.unpack(at)[1] <= before]
    if found:
        return run.place(max(found))
    last: Place | None = None
    if frame.function is None:
        for unit in frame.module.units:
            if (
                unit.start + len(unit.text) <= frame.base
                and name in unit.text
                and not unit.is_def
                and unit.kind == "code"
            ):
                found = list(_assignments(unit.ir, name))
                if found:
                    start, end = ir.unpack(max(found))
                    last = Place(frame.module.path, unit.start + start, unit.start + end)
                    body = unit.ir
        if body and found:
            return last
    return None


def _assignments(body: ir.Body, name: str) -> Iterator[int]:
    """The spans of the statements in a body that assign a name."""
    for s in body:
        if isinstance(s, ir.Assign):
            names: set[str] = set()
            for target in s.targets:
                ir.target_names(target, names)
            if name in names:
                yield s.at
        elif isinstance(s, (ir.AugAssign, ir.AnnAssign)) and isinstance(s.target, ir.Name) and s.target.id == name:
            yield s.at
        for inner in ("body", "orelse", "final"):
            block = getattr(s, inner, None)
            if isinstance(block, tuple) and not isinstance(s, (ir.Def, ir.Class)):
                yield from _assignments(block, name)


def _flag(run: Interpreter, value: Value | None) -> bool | None:
    return False if value is None else run.truth(value)


def _own(found: Walk, start: Node, drawn: object) -> list[Node]:
    """The nodes of a walk that are surely these and no others: not behind what was drawn from many (`objects.drawn`)."""
    if not isinstance(drawn, dict) or drawn.keys().isdisjoint(found.nodes):
        return found.nodes
    known = set(found.nodes)
    seen: set[Node] = set()
    todo = [start]
    while todo:
        node = todo.pop()
        if node in known and node not in seen and node not in drawn:
            seen.add(node)
            todo += node.inputs
    return [node for node in found.nodes if node in seen]


def _queued(run: Interpreter, found: Walk, own: Collection[Node]) -> tuple[tuple[Node, Place], ...]:
    """The same for what was drawn from a list in which everything was there before: a step that the loop takes for one
    of them changes the weights that all the others have saved."""
    if len(own) == len(found.nodes) or run.guesses:
        return ()
    drawn: dict[object, int] = run.notes.get("drawn", {})  # type: ignore[assignment]
    times = [drawn[node] for node in found.nodes if node in drawn]
    if not times or min(times) == _objects.LAZY:
        return ()
    steps = {event.place for event in run.events[min(times) :] if isinstance(event, events.Step)}
    many: set[object] = run.notes.get("many", set())  # type: ignore[assignment]
    theirs = {leaf for one in many if isinstance(one, Object) for leaf in _modules.leaves_of(run, one)[0]}
    single = {id(leaf.storage) for leaf in found.sure if leaf not in theirs and leaf not in many}
    # What each of the many has of its own may be another one's.
    behind = (node for node in found.nodes if node not in set(own))
    return tuple((node, place) for node, storage, place in _writes(behind) if id(storage) in single and place in steps)


def _changed(nodes: Iterable[Node]) -> tuple[tuple[Node, Place], ...]:
    """Saved tensors that were written in place after they were saved."""
    return tuple((node, place) for node, _, place in _writes(nodes))


def _writes(nodes: Iterable[Node]) -> Iterator[tuple[Node, Storage, Place]]:
    """The tensors that nodes have saved and that were written since, and the first place that did."""
    for node in nodes:
        for storage, saved_at in node.saved:
            writes = storage.cells.get("writes")
            if isinstance(writes, Writes) and len(writes.places) > saved_at:
                yield node, storage, writes.places[saved_at]


def number_method(run: Interpreter, owner: Value, name: str, args: Args, e: ir.Call) -> Value:
    """A tensor's method called on a Python number."""
    assert isinstance(e.func, ir.Attr)
    if name == "backward":
        run.record(
            events.Backward(
                run.place(e.at), run.stack, owner, run.place(e.func.value.at), run.state.mode, False, False,
                always=run.certain_now(), guess=run.guesses > 0, bound=_binding(run, e),
            )
        )  # fmt: skip
    return UNKNOWN


def autograd_call(run: Interpreter, name: str, args: Args, e: ir.Call) -> Value:
    """`torch.autograd.backward(tensors)` and `torch.autograd.grad(outputs, inputs)`."""
    is_grad = name == "torch.autograd.grad"
    value = args.get(0, "outputs" if is_grad else "tensors", UNKNOWN) or UNKNOWN
    place = args.places[0] if args.places else run.place(e.at)
    if isinstance(value, Sequence):
        items = value.cells.get("items")
        value = items[0] if isinstance(items, tuple) and len(items) == 1 else UNKNOWN
    backward(run, value, args, e, place, grad=is_grad)
    if not is_grad:
        return NONE
    create = _flag(run, args.get(4, "create_graph", None))
    inputs = args.get(1, "inputs", UNKNOWN) or UNKNOWN
    called_event(run, name, args, e, UNKNOWN)
    where = run.place(e.at)
    if create is not False and isinstance(value, Tensor):
        node, _ = graph_of(value)
        each = Tensor(node=Node("grad", where, (node,) if node else ()), certain=False, dtype=FLOAT)
    else:
        found = Inputs()
        found.add(run, inputs)
        cut = Cut("torch.autograd.grad(...)", "grad", where, tuple(found.nodes), stack=run.stack)
        each = Tensor(None, (cut,), create is False, dtype=FLOAT, tag="grad-without-graph", made=where)
    if isinstance(inputs, Sequence) and isinstance(inputs.cells.get("items"), tuple):
        return Sequence("tuple", {"items": tuple(each for _ in inputs.cells["items"])})  # type: ignore[attr-defined]
    if isinstance(inputs, (Tensor, ParameterOf)):
        return Sequence("tuple", {"items": (each,)})
    return Sequence("tuple", {"items": None, "each": each})


def called_event(
    run: Interpreter, name: str, args: Args, e: ir.Call, result: Value, owner: Value | None = None
) -> None:
    instance = run.frame.instance
    run.record(
        events.Called(
            run.place(e.at), run.stack, name, tuple(args.positional), dict(args.keywords), result, owner,
            args, run.state.mode, instance, len(run.frame.loops), run.frame.branches == 0,
            instance.cells.get("training") if instance is not None else None, args.spread,
        )
    )  # fmt: skip


# ---------------------------------------------------------------- gradients


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


def apply_by_hand(run: Interpreter, target: ir.Expr, old: Value, value: ir.Expr, place: Place) -> None:
    """`w -= rate * w.grad`: if the gradient holds what this very update has applied before, that is told."""
    if isinstance(target, ir.Attr) and target.name == "data":
        target, old = target.value, run.eval(target.value)
    leaves = (old.leaf,) if isinstance(old, Tensor) else old.leaves if isinstance(old, ParameterOf) else ()
    if not leaves or not _reads_gradient(value, target):
        return
    for leaf in leaves:
        grad = grad_of(leaf) if leaf is not None else None
        if leaf is None or grad is None or grad.state != "fresh":
            continue
        if grad.again == place and grad.place is not None and run.certain_now():
            run.record(events.Applied(place, run.stack, leaf, grad.place))
        run.state.set(leaf.cells, "grad", replace(grad, hand=place))


def _reads_gradient(value: object, target: ir.Expr) -> bool:
    """Whether an expression holds `target.grad`."""
    if isinstance(value, ir.Attr) and value.name == "grad" and _alike(value.value, target):
        return True
    return isinstance(value, tuple) and any(_reads_gradient(part, target) for part in value)


def _alike(one: object, other: object) -> bool:
    """Whether two names, or attributes of names, are written alike."""
    if isinstance(one, ir.Name) and isinstance(other, ir.Name):
        return one.id == other.id
    return isinstance(one, ir.Attr) and isinstance(other, ir.Attr) and one.name == other.name and (
        _alike(one.value, other.value)
    )  # fmt: skip


def change_grad(run: Interpreter, leaves: tuple[Leaf, ...], decays: bool) -> None:
    """Gradients are changed by hand; `decays`: what earlier steps have applied may be let fade on purpose."""
    for leaf in leaves:
        grad = grad_of(leaf)
        leaf.cells["grad-changed"] = True
        state = "?" if decays and grad.state in ("used", "stale", "none") else grad.state
        run.state.set(leaf.cells, "grad", replace(grad, state=state, scaled=None, hand=None, again=None))


def grad_attribute(run: Interpreter, value: GradOf, name: str, e: ir.Attr) -> Value:
    """`x.grad.name`"""
    place = run.place(e.at)
    if not _looked_at(run, e.value):
        run.record(events.NoneUsed(place, run.stack, name, None, why_none(run, value)))
    if name == "data":
        return value
    return Method(value, name)


def count_with_grad(run: Interpreter, value: GradOf, op: str, e: ir.Expr, changed: bool = False) -> None:
    """`x.grad * 2`: recorded where `x` can have no gradient at all, and nobody asks whether it has one; `x.grad *= 2`
    (`changed`), where it surely has none now."""
    why = why_none(run, value) if changed or not value.leaves else ""
    if why and not _looked_at(run, e):
        without = tuple([leaf for leaf in value.leaves if grad_of(leaf).state == "none"])
        run.record(events.NoneUsed(run.place(e.at), run.stack, op, None, why, without))


def _looked_at(run: Interpreter, grad: ir.Expr) -> bool:
    """Whether the code asks if this `x.grad` is there."""
    asked = grad.value if isinstance(grad, ir.Attr) else None
    return asked is not None and any(ir.same_name(asked, other) for other in run.frame.looked)


def why_none(run: Interpreter, value: GradOf) -> str:
    """Why `.grad` is surely None here; empty if that is not known."""
    if isinstance(value.of, Tensor) and not value.leaves:
        node, sure = graph_of(value.of)
        if sure and not value.of.opaque:
            if node is not None and "retains" in run.notes:
                return ""  # `retain_grad()` was called of this one, or of another
            return "non-leaf" if node is not None else "no-grad"
        return ""
    grads = [grad_of(leaf) for leaf in value.leaves]
    if any(g.zeros for g in grads):
        return ""
    if isinstance(value.of, ParameterOf) and value.of.all_of:
        # Each one in turn: the first without a gradient is enough.
        grads = [
            g for g, leaf in zip(grads, value.leaves, strict=True) if g.state == "none" and leaf.kind != "weights"
        ] or [g for g in grads if g.state == "none"]
    elif isinstance(value.of, ParameterOf):
        return ""
    if "taint" in run.notes and not set(value.leaves) <= {
        leaf for obj in run.objects for leaf in optimizer_leaves(obj)
    }:
        return ""  # a backward through something unknown has marked those of optimizers only
    if (
        grads
        and all(g.state == "none" for g in grads)
        and all(leaf.cells.get("escaped") is None for leaf in value.leaves)
    ):
        return "cleared" if grads[0].place is not None else "no-backward"
    return ""


def one_of(value: Value) -> bool:
    """Whether a tensor is one of several leaves: the join of two ways, or of the turns of a loop."""
    return isinstance(value, Tensor) and value.leaf is None


def call_grad_method(run: Interpreter, owner: GradOf, name: str, args: Args, e: ir.Call | None) -> Value:
    if name in ("zero_", "detach_"):
        if name == "zero_" and one_of(owner.of):
            change_grad(run, owner.leaves, decays=True)  # of which of them is not known
        elif name == "zero_":
            clear(run, owner.leaves, run.place(e.at) if e is not None else None, None, zeros=True)
        return owner
    if name in ("item", "tolist"):
        return Number()
    if name.endswith("_"):
        change_grad(run, owner.leaves, decays=name not in ("clamp_", "clip_", "nan_to_num_"))
        return owner
    return Tensor(dtype=FLOAT)


def set_tensor_attribute(
    run: Interpreter, owner: Value, name: str, value: Value, place: Place, target: ir.Attr
) -> None:
    """`x.requires_grad = ...`, `x.grad = ...`, `x.data = ...`"""
    leaves: tuple[Leaf, ...] = ()
    if isinstance(owner, ParameterOf):
        leaves = owner.leaves
    elif isinstance(owner, Tensor) and owner.leaf is not None:
        leaves = (owner.leaf,)
    elif isinstance(owner, Tensor) and name == "grad":
        change_grad(run, tuple(possible_leaves(owner)), decays=True)
    if name == "requires_grad":
        truth = run.truth(value)
        before = owner if isinstance(owner, Tensor) else None
        run.record(
            events.GradFlag(
                place, run.stack, "requires_grad = ...", owner, truth, before, run.assigned_e, run.condition
            )
        )
        if leaves:
            part = isinstance(owner, Tensor) and owner.tag == "part"
            _modules.set_flags(run, leaves, truth, not part and (not isinstance(owner, ParameterOf) or owner.all_of))
        elif isinstance(owner, Tensor) and truth is True:
            _become_leaf(run, owner, place, target.value)
    elif name == "grad":
        if isinstance(value, Const) and value.value is None:
            clear(run, leaves, place, None)
        else:
            if not leaves:
                run.notes["retains"] = True  # a tensor that is no leaf has one by hand
            for leaf in leaves:
                leaf.cells["grad-changed"] = True
                run.state.set(leaf.cells, "grad", Grad("?"))
    elif name == "data":
        for leaf in leaves:
            leaf.cells["written"] = True
            if run.frame.instance is not None:
                leaf.cells["kept-by-hand"] = True
        other = memory_of(value)
        if isinstance(owner, Tensor) and owner.leaf is not None and other is not None and other is not owner.leaf:
            run.record(events.Shared(place, run.stack, owner.leaf, other))
    else:
        run.record(events.Attribute(place, run.stack, owner, name, value, value_place=run.assigned))


def memory_of(value: Value) -> Leaf | None:
    """The parameter whose memory a value surely is: itself, or its `.data`."""
    if not isinstance(value, Tensor):
        return None
    of = value.storage.cells.get("of") if value.storage is not None else None
    return value.leaf or (of if isinstance(of, Leaf) else None)


def _become_leaf(run: Interpreter, owner: Tensor, place: Place, reached: ir.Expr) -> None:
    """A tensor without graph is told to require grad: from now on it is a leaf of its own."""
    leaf = Leaf("tensor", place, "tensor")
    frame = run.frame
    new = replace(owner, leaf=leaf, node=leaf.node, certain=owner.certain)
    for name, value in list(frame.scope.names.items()):
        if value is owner:
            run.state.set(frame.scope.names, name, new)
    if isinstance(reached, ir.Attr):
        holder = run.eval(reached.value)
        if isinstance(holder, Object) and holder.attrs.get(reached.name) is owner:
            run.state.set(holder.attrs, reached.name, new)


def tensor_flag(run: Interpreter, owner: Value, name: str, args: Args, e: ir.Call | None) -> Value:
    """`x.requires_grad_(...)`, `x.retain_grad()`, `x.register_hook(f)`"""
    place = run.place(e.at) if e is not None else None
    if name != "requires_grad_":
        if isinstance(owner, Tensor) and owner.leaf is not None:
            owner.leaf.cells["grad-read"] = True  # somebody looks at its gradient
        if name == "retain_grad":
            run.notes["retains"] = True
            return NONE
        if name == "register_hook" and e is not None and args.positional:
            tensor = as_tensor(owner) if isinstance(owner, ParameterOf) else owner
            if isinstance(tensor, Tensor):
                _hooks.check_tensor_hook(run, tensor, args.positional[0], args.place(0, "hook") or run.place(e.at))
        if name == "register_post_accumulate_grad_hook":
            _hooks.after_accumulation(run, args)
        return UNKNOWN
    flag = args.get(0, "requires_grad", Const(True))
    truth = run.truth(flag) if flag is not None else True
    if place is not None:
        before = owner if isinstance(owner, Tensor) else None
        run.record(
            events.GradFlag(place, run.stack, f".requires_grad_({'' if truth else truth})", owner, truth, before)
        )
    if isinstance(owner, ParameterOf):
        _modules.set_flags(run, owner.leaves, truth, owner.all_of)
        return owner
    assert isinstance(owner, Tensor)
    if owner.leaf is not None:
        _modules.set_flags(run, (owner.leaf,), truth, owner.tag != "part")
        return owner
    node, _ = graph_of(owner)
    if truth is True and node is None:
        if run.state.mode.kind == INFERENCE:
            new = replace(owner, certain=False)  # a leaf to some operations, and none to others
        else:
            leaf = Leaf("tensor", place, "tensor")
            leaf.storage = owner.storage or leaf.storage
            new = replace(owner, leaf=leaf, node=leaf.node, certain=owner.certain)
        if e is not None and isinstance(e.func, ir.Attr):
            _tensors.rebind(run, e.func.value, new, owner)
        return new
    return owner


# ---------------------------------------------------------------- optimizers


def make_optimizer(run: Interpreter, obj: Object, args: Args, place: Place) -> None:
    """What `Optimizer.__init__(params, ...)` remembers."""
    params = args.get(0, "params", UNKNOWN) or UNKNOWN
    leaves, exact, used = parameters_in(run, params, place)
    run.state.set(obj.cells, "leaves", Held(dict.fromkeys(leaves)))
    run.state.set(obj.cells, "exact", exact)
    run.state.set(obj.cells, "made", place)
    run.objects.append(obj)
    run.record(
        events.OptimizerMade(
            place,
            run.stack,
            obj,
            tuple(leaves),
            exact,
            used,
            (params,),
            in_loop=bool(run.frame.loops),
            argument_place=args.place(0, "params"),
            options=args,
        )
    )


def parameters_in(run: Interpreter, value: Value, place: Place) -> tuple[list[Leaf], bool, Place | None]:
    """The leaves in what an optimizer (or clip_grad_norm_) was given; whether all are known; where it was used up."""
    if isinstance(value, Parameters) or (isinstance(value, Sequence) and value.kind == "generator"):
        used = value.cells.get("used")
        if isinstance(used, Place):
            return [], True, used
        run.state.set(value.cells, "used", place)
    if isinstance(value, Parameters):
        return list(value.leaves), value.exact, None
    if isinstance(value, ParameterOf):
        return list(value.leaves), value.all_of, None
    if isinstance(value, Tensor):
        return possible_leaves(value), value.leaf is not None or value.certain, None
    if isinstance(value, (Sequence, Range)):
        leaves: list[Leaf] = []
        exact, used_up = True, None
        for item in parts_of(value):
            if isinstance(item, Sequence) and item.kind == "tuple":
                pair = item.cells.get("items")
                item = pair[1] if isinstance(pair, tuple) and len(pair) == 2 else item
            # What a list was made of was iterated over then: it is in the list, used up or not.
            inner = item
            if "parts" in getattr(value, "cells", {}):
                if isinstance(item, Parameters):
                    inner = replace(item, cells={})
                elif isinstance(item, Sequence) and item.kind == "generator":
                    cells = {key: cell for key, cell in item.cells.items() if key != "used"}
                    inner = Sequence(item.kind, cells, item.place)
            found, complete, used = parameters_in(run, inner, place) if isinstance(inner, Value) else ([], False, None)
            leaves += found
            exact, used_up = exact and complete, used_up or used
        return leaves, exact, used_up
    if isinstance(value, Mapping):
        inner_value = value.cells.get(("key", "params"))
        if isinstance(inner_value, Value):
            return parameters_in(run, inner_value, place)
        return [], False, None
    if isinstance(value, Union):
        leaves = []
        for option in value.options:
            leaves += parameters_in(run, option, place)[0]
        return leaves, False, None
    return [], False, None


def parts_of(value: Sequence | Range) -> tuple[Value, ...]:
    """What a sequence of unknown length was put together from, or its items, or the join of them."""
    if isinstance(value, Range):
        return (value.each,)
    parts = value.cells.get("parts")
    if isinstance(parts, tuple):
        return parts
    items = value.cells.get("items")
    if isinstance(items, tuple):
        return items
    return (element(value),)  # type: ignore[return-value]


def is_optimizer(value: Value) -> bool:
    return isinstance(value, Object) and (
        torchlib.optimizer(_modules.library_class(value)) is not None
        or _modules.library_class(value) == "torch.optim.Optimizer"
    )


def optimizer_leaves(optimizer: Object) -> tuple[Leaf, ...]:
    leaves = optimizer.cells.get("leaves", ())
    return leaves if isinstance(leaves, tuple) else ()


def step(run: Interpreter, optimizer: Object, place: Place, via: str = "", closure: bool = False) -> None:
    """The leaves move; their gradients stay where they are."""
    leaves = optimizer_leaves(optimizer)
    empty, stale, dropped, leftover = [], [], [], []
    pending = 0
    scaled = again = None
    before: dict[Place | None, None] = {}  # the steps that have applied the stale ones
    grads = [grad_of(leaf) for leaf in leaves]
    states = {grad.state for grad in set(grads)}
    put = run.state.set
    applied: dict[Grad, Grad] = {}  # many leaves hold the same
    several = run.notes.get("drawn")
    one_of_many = bool(several) and optimizer in several  # type: ignore[operator]
    for leaf, grad in zip(leaves, grads, strict=True):
        if grad.state == "none" and grad.lost is not None:
            empty.append((leaf, grad.lost))
        elif grad.state == "stale" and grad.place is not None:
            stale.append((leaf, grad.place))
            before[grad.by] = None
        elif grad.state in ("fresh", "?"):
            pending += 1
        if grad.scaled and grad.state in ("fresh", "stale"):
            scaled = grad.place
        if grad.state == "used" and states <= {"used", "none"}:
            again = grad.by
        if grad.state == "fresh" and grad.dropped is not None:
            dropped.append((leaf, *grad.dropped))
        if grad.state == "fresh" and grad.leftover is not None:
            leftover.append((leaf, *grad.leftover))
        if grad.state in ("fresh", "stale"):
            new = applied.get(grad)
            if new is None:
                new = Grad("used", grad.place, by=place, scaled=grad.scaled)
                new = applied[grad] = Grad("?", scaled=None) if one_of_many else new
            put(leaf.cells, "grad", new)
        if grad.state != "none" and not one_of_many:
            bump(run, leaf.storage, place)
    put(optimizer.cells, "stepped", place)
    own = set(leaves)
    for other in run.objects:
        for leaf in () if other is optimizer else optimizer_leaves(other):
            grad = grad_of(leaf)
            if grad.state == "fresh" and grad.crossed is None and leaf not in own:
                put(leaf.cells, "grad", replace(grad, crossed=place))
    run.record(
        events.Step(
            place, run.stack, optimizer, leaves, tuple(empty), pending, tuple(stale), scaled, again, tuple(dropped),
            run.guards, via, closure, run.state.shared.get("autocast"), tuple(leftover),
            None if place in before or None in before else next(iter(before), None),
        )
    )  # fmt: skip


def call_optimizer(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else obj.place
    assert place is not None
    if name == "step":
        closure = args.get(0, "closure", None)
        result: Value = NONE
        if closure is not None and not (isinstance(closure, Const) and closure.value is None):
            mode = run.state.mode
            if mode.kind != INFERENCE:
                run.state.mode = Mode(ON, place, "Optimizer.step (enable_grad)")
            result = _calls.call(run, closure, Args([], {}), e)
            run.state.mode = mode
        step(run, obj, place, closure=closure is not None)
        return result
    if name == "zero_grad":
        clear(run, optimizer_leaves(obj), place, obj, zeros=keeps_zeros(run, args))
        return NONE
    if name == "add_param_group":
        leaves, exact, _ = parameters_in(run, args.get(0, "param_group", UNKNOWN) or UNKNOWN, place)
        run.state.set(obj.cells, "leaves", Held(dict.fromkeys((*optimizer_leaves(obj), *leaves))))
        run.record(events.ParametersAdded(place, run.stack, obj, tuple(leaves)))
        if not exact:
            run.state.set(obj.cells, "exact", False)
        return NONE
    if name == "state_dict":
        return Mapping({}, place, complete=False)
    if name == "__init__":
        return NONE
    return UNKNOWN


# ---------------------------------------------------------------- other objects of torch


def object_attribute(run: Interpreter, obj: Object, name: str, place: Place) -> Value | None:
    """An attribute of an optimizer, scaler, scheduler, loader, distribution, ..."""
    if is_optimizer(obj):
        if name == "param_groups":
            each = ParameterOf(optimizer_leaves(obj), all_of=obj.cells.get("exact") is True)
            group = Mapping(
                {("key", "params"): Sequence("list", {"items": None, "each": each}), "rest": Number()}, place, False
            )
            return Sequence("list", {"items": None, "each": group})
        if name in ("state", "defaults"):
            return UNKNOWN
    cls = obj.cls.name if isinstance(obj.cls, External) else ""
    moments = ("mean", "loc", "scale", "probs", "logits", "stddev", "variance")
    if cls.startswith("torch.distributions.") and name in moments:
        return _distribution_tensor(run, obj, place, name)
    if cls == "torch.utils.data.DataLoader" and name == "dataset":
        value = obj.cells.get("dataset")
        return value if isinstance(value, Value) else UNKNOWN
    if cls.startswith("torch.utils.data.") and name in ("sampler", "batch_sampler"):
        value = obj.cells.get(name)
        return value if isinstance(value, Value) else UNKNOWN
    return Method(obj, name)


def call_object_method(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    """A method of an instance of a library's class that is no module."""
    if _stacks.is_stack(obj):
        return _stacks.call_method(run, obj, name, args, e)
    if _threads.is_pool(obj):
        return _threads.call_method(run, obj, name, args, e)
    if isinstance(obj.cls, External) and obj.cls.name == _hooks.HANDLE:
        return _hooks.remove(run, obj) if name == "remove" else UNKNOWN
    cls = _modules.library_class(obj)
    if is_optimizer(obj):
        return call_optimizer(run, obj, name, args, e)
    if cls in SCALERS:
        return call_scaler(run, obj, name, args, e)
    if torchlib.scheduler(cls) is not None or cls.startswith("torch.optim.lr_scheduler."):
        if e is not None:
            called_event(run, f"Scheduler.{name}", args, e, NONE, obj)
        return NONE
    if cls.startswith("torch.distributions."):
        return call_distribution(run, obj, name, args, e)
    if cls == "torch.utils.tensorboard.SummaryWriter" or cls.startswith("torch.profiler"):
        return UNKNOWN
    if e is not None:
        called_event(run, f"{cls}.{name}", args, e, NONE, obj)
    return UNKNOWN


# `torch.amp.GradScaler` is `torch.GradScaler`.
SCALERS = frozenset({"torch.GradScaler", "torch.cuda.amp.GradScaler", "torch.cpu.amp.GradScaler"})


def call_scaler(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else obj.place
    assert place is not None
    value = args.positional[0] if args.positional else UNKNOWN
    optimizer = value if isinstance(value, Object) and is_optimizer(value) else None
    if disabled(run, obj):
        if name == "step" and optimizer is not None:
            step(run, optimizer, place)
        return value if name == "scale" else Number() if name == "get_scale" else NONE
    phases = obj.cells.get("phases")
    if e is not None:
        phase, before = None, None
        if isinstance(phases, Phases) and optimizer is not None:
            phase, before = phases.get(optimizer)
        elif isinstance(phases, Phases) and name == "update" and not phases.of:
            phase = "ready"
        fresh = [grad_of(leaf) for leaf in optimizer_leaves(optimizer)] if optimizer is not None else []
        unscaled = bool(fresh) and all(g.state == "fresh" and g.scaled is False for g in fresh)
        run.record(events.Scaling(place, run.stack, obj, name, optimizer, phase, before, unscaled))
    if name == "scale":
        run.state.set(obj.cells, "scaled", place)
        if isinstance(value, Tensor):
            found = Inputs()
            found.add(run, value)
            result = recorded(run, "scale", found, place, value.rank, saves=True)
            return replace(result, tag="scaled", cuts=value.cuts if result.node is None else result.cuts)
        return value if isinstance(value, Unknown) else UNKNOWN
    if name in ("unscale_", "step") and optimizer is None:
        run.state.set(obj.cells, "phases", None)  # with which one is not known
    elif name in ("unscale_", "step") and optimizer is not None:
        for leaf in optimizer_leaves(optimizer):
            run.state.set(leaf.cells, "grad", replace(grad_of(leaf), scaled=False))
        if isinstance(phases, Phases):
            now = "unscaled" if name == "unscale_" else "stepped"
            run.state.set(obj.cells, "phases", phases.put(optimizer, now, place))
        if name == "step":
            step(run, optimizer, place, via="scaler")
    elif name == "update":
        run.state.set(obj.cells, "phases", Phases())
    return NONE if name in ("update", "unscale_") else Number() if name == "get_scale" else UNKNOWN


def disabled(run: Interpreter, scaler: Object) -> bool:
    """A GradScaler that was made with `enabled=False`: `step` is the optimizer's own, the rest does nothing."""
    made = scaler.cells.get("args")
    if not isinstance(made, Args):
        return False
    index = 5 if isinstance(scaler.cls, External) and scaler.cls.name == "torch.GradScaler" else 4
    enabled = made.get(index, "enabled", None)
    return enabled is not None and run.truth(enabled) is False


def _distribution_tensor(
    run: Interpreter, obj: Object, place: Place, how: str, cut: bool = False, extra: Value | None = None
) -> Tensor:
    found = Inputs()
    made = obj.cells.get("args")
    if isinstance(made, Args):
        for value in made.all():
            found.add(run, value)
    if extra is not None:
        found.add(run, extra)
    if cut:
        cuts = list(found.cuts)
        if found.nodes and found.sure:
            cuts.append(lost_here(run, Cut(f".{how}()", "op", place, tuple(found.nodes), stack=run.stack)))
        return Tensor(None, tuple(cuts), True, made=place)
    return recorded(run, how, found, place, saves=None)


def call_distribution(run: Interpreter, obj: Object, name: str, args: Args, e: ir.Call | None) -> Value:
    place = run.place(e.at) if e is not None else obj.place
    assert place is not None
    if name in ("sample", "sample_n"):
        return _distribution_tensor(run, obj, place, name, cut=True)
    if name in ("rsample", "entropy", "perplexity"):
        return _distribution_tensor(run, obj, place, name)
    if name in ("log_prob", "cdf", "icdf"):
        return _distribution_tensor(run, obj, place, name, extra=args.positional[0] if args.positional else None)
    return UNKNOWN


def data_of(run: Interpreter, obj: Object) -> Value:
    """What iterating over a loader (or indexing a dataset) of torch gives."""
    dataset = obj.cells.get("dataset")
    collate = obj.cells.get("collate")
    if isinstance(collate, Function):
        _calls.call(run, collate, Args([Sequence("list", {"items": None, "each": UNKNOWN})], {}), None)
    if isinstance(dataset, Object) and not isinstance(dataset.cls, External):
        member = _objects.find(dataset.cls, "__getitem__", run)
        if member is not None and isinstance(member[0], Function):
            item = _calls.call(run, _objects.bound(member[0], dataset), Args([Number()], {}), None)
            return batch_of(run, item, batch_size(obj))
    while isinstance(dataset, Object) and isinstance(dataset.cells.get("dataset"), Object):
        dataset = dataset.cells["dataset"]  # a `Subset`
    single = isinstance(dataset, Object) and dataset.cells.get("tensors")
    if isinstance(single, tuple) and single and not (isinstance(collate, Value) and not _is_none(collate)):
        size = batch_size(obj)
        return Sequence(
            "list", {"items": tuple(replace(DATA, shape=shapes.rows(shapes.of_value(t), size)) for t in single)}
        )
    if "tensors" in obj.cells or isinstance(dataset, Object):
        return DATA
    return DATA if obj.cells.get("collate") is None else UNKNOWN


def batch_size(loader: Object) -> int | None:
    """How many samples a batch of a DataLoader has, but for the last one."""
    made = loader.cells.get("args")
    if not isinstance(made, Args) or loader.cells.get("batch_sampler") not in (UNKNOWN, None) or made.spread:
        return None
    size = made.get(1, "batch_size", Const(1))
    return size.value if isinstance(size, Const) and isinstance(size.value, int) else None


def batch_of(run: Interpreter, item: Value, size: int | None = None) -> Value:
    """What the default collate function makes of a dataset's items."""
    if isinstance(item, Sequence) and isinstance(item.cells.get("items"), tuple):
        return Sequence("list", {"items": tuple(batch_of(run, i, size) for i in item.cells["items"])})  # type: ignore[attr-defined]
    if isinstance(item, Mapping):
        return Mapping(
            {k: batch_of(run, v, size) for k, v in item.cells.items() if isinstance(v, Value)},
            item.place,
            item.complete,
        )
    if isinstance(item, Tensor) and graph_of(item)[0] is not None:
        return UNKNOWN
    if isinstance(item, Union):
        return UNKNOWN
    return replace(DATA, shape=shapes.batched(shapes.of_value(item), size))


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


# The parts of the interpreter know each other: these come when this one is complete.
from . import calls as _calls  # noqa: E402
from . import hooks as _hooks  # noqa: E402
from . import modules as _modules  # noqa: E402
from . import objects as _objects  # noqa: E402
from . import stacks as _stacks  # noqa: E402
from . import tensors as _tensors  # noqa: E402
from . import threads as _threads  # noqa: E402

__all__ = ["Grad", "Text", "autograd_call", "backward", "iterate", "step", "walk", "why_none"]
