"""A backward: what it raises, what it frees, and which leaves get a gradient."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from ... import ir
from ...facts import (
    FLOAT,
    NONE,
    UNKNOWN,
    Const,
    Cut,
    Leaf,
    Node,
    Object,
    ParameterOf,
    Sequence,
    Storage,
    Tensor,
    Value,
    Writes,
)
from ...findings import Place
from .. import events
from ..events import called_event
from ..frames import Args
from ..operations import Inputs, as_tensor, graph_of
from .gradients import Grad, grad_of
from .graph import Walk, sure_graph, walk
from .optimizers import optimizer_leaves

if TYPE_CHECKING:
    from ..interp import Interpreter


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


# The parts of the interpreter know each other: these come when this one is complete.
from .. import modules as _modules  # noqa: E402
from .. import objects as _objects  # noqa: E402
