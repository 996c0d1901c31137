"""`torch.nn.utils`: clipping, parametrizations, packed sequences, parameters as one vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ... import ir
from ...facts import FLOAT, INT, MANY, NONE, SCALAR, UNKNOWN, Leaf, Node, Object, Sequence, Tensor, Value
from .. import events, replacing
from ..events import called_event
from ..frames import Args
from ..modules import leaves_of
from ..objects import is_module
from ..operations import Inputs, is_packed, packed, recorded
from ..training import grad_of, parameters_in

if TYPE_CHECKING:
    from ..interp import Interpreter


def t_clip(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    params = args.get(0, "parameters", UNKNOWN) or UNKNOWN
    if e is not None:
        leaves, _, used = parameters_in(run, params, run.place(e.at))
        states = {grad_of(leaf).state for leaf in leaves}
        scaled = {grad_of(leaf).scaled for leaf in leaves if grad_of(leaf).state == "fresh"}
        result = Tensor(rank=SCALAR, dtype=FLOAT, tag=",".join(sorted(states)))
        limit = args.get(1, "max_norm", args.get(None, "clip_value", UNKNOWN)) or UNKNOWN
        grads = tuple(grad_of(leaf) for leaf in leaves)
        run.record(events.Clip(run.place(e.at), run.stack, tuple(leaves), grads, limit, scaled == {True}))
        if used is not None:
            where = args.place(0, "parameters") or run.place(e.at)
            data: dict[str, object] = {"parameters": params}
            run.record(events.Raised(where, run.stack, "exhausted-parameters", "clip_grad", ((used, "used up"),), data))
        return result
    return UNKNOWN


def t_recorded(shown: str) -> Callable[[Interpreter, Args, ir.Call | None], Value]:
    """A function of torch's that is written in Python: one tensor, computed from all that it is given."""

    def apply(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
        found = Inputs()
        for value in args.all():
            found.add(run, value)
        return recorded(run, shown, found, run.place(e.at) if e is not None else None)

    return apply


def t_pack(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    data = t_recorded("pack")(run, Args(args.positional[:1], {}, args.spread), e)
    if not isinstance(data, Tensor) or not args.positional:
        return UNKNOWN
    return packed(data, run.place(e.at) if e is not None else None)


def t_pad_packed(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    value = args.get(0, "sequence", UNKNOWN)
    if not is_packed(value):
        return UNKNOWN
    return Sequence("tuple", {"items": (t_recorded("pad_packed_sequence")(run, args, e), Tensor(dtype=INT))})


PRUNES = (
    "l1_unstructured",
    "random_unstructured",
    "ln_structured",
    "random_structured",
    "custom_from_mask",
    "identity",
)


def t_parametrized(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The layer's weight is computed from another parameter from now on, and is none itself."""
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Object):
        run.state.set(value.cells, "parametrized", True)
    return value


def t_register_parametrization(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """What the layer's weight is computed from has parameters of its own, perhaps."""
    value, made = t_parametrized(run, args, e), args.get(2, "parametrization", UNKNOWN) or UNKNOWN
    if not isinstance(made, Object) or not is_module(made) or leaves_of(run, made) != ([], True):
        place = run.place(e.at).start if e is not None else 0
        replacing.put_unnamed(run, value, made)
        if isinstance(value, Object):
            run.state.set(value.attrs, f"[{place}]", made)
    return value


def t_weight_norm(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """New Parameters take the place of the old ones (facts: the only parametrization of torch that does so)."""
    value = args.positional[0] if args.positional else UNKNOWN
    if isinstance(value, Object) and isinstance(value.cells.get("leaf"), Leaf):
        old = value.cells["leaf"]
        assert isinstance(old, Leaf)
        run.state.set(value.cells, "parametrized", True)
        place = run.place(e.at) if e is not None else old.place
        run.state.set(value.cells, "leaf", Leaf(old.label, place, "weights"))
        if e is not None:
            called_event(run, "weight_norm", args, e, value)
    elif isinstance(value, Object) and isinstance(own := value.attrs.get("weight"), Tensor) and own.leaf is not None:
        place = run.place(e.at) if e is not None else own.leaf.place
        leaf = Leaf("weight", place, "weights")  # both of them, and `weight` is computed from them
        run.state.set(value.cells, "parametrized", True)
        run.state.set(value.cells, "leaf", leaf)
        node = Node("weight_norm", place, (leaf.node,) if leaf.node is not None else ())
        run.state.set(value.attrs, "weight", Tensor(node=node, dtype=FLOAT))
    return value


def t_parameters_to_vector(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """All parameters in one tensor, with their graph."""
    if e is None:
        return UNKNOWN
    found = Inputs()
    found.add(run, args.get(0, "parameters", UNKNOWN) or UNKNOWN)
    return recorded(run, "parameters_to_vector", found, run.place(e.at), MANY, saves=False)


def t_vector_to_parameters(run: Interpreter, args: Args, e: ir.Call | None) -> Value:
    """The values go into the parameters' `.data`: these keep no graph back to the vector."""
    if e is not None:
        for leaf in parameters_in(run, args.get(1, "parameters", UNKNOWN) or UNKNOWN, run.place(e.at))[0]:
            run.state.put(leaf.cells, "written", True)
            if run.notes.get("stepped"):
                run.state.put(leaf.cells, "kept-by-hand", True)
    return NONE


NN_UTILS: dict[str, Callable[[Interpreter, Args, ir.Call | None], Value]] = {
    "torch.nn.utils.clip_grad_norm_": t_clip,
    "torch.nn.utils.clip_grad_value_": t_clip,
    "torch.nn.utils.clip_grad_norm": t_clip,
    "torch.nn.utils.rnn.pad_sequence": t_recorded("pad_sequence"),
    "torch.nn.utils.rnn.pack_padded_sequence": t_pack,
    "torch.nn.utils.rnn.pack_sequence": t_pack,
    "torch.nn.utils.rnn.pad_packed_sequence": t_pad_packed,
    "torch.nn.utils.parameters_to_vector": t_parameters_to_vector,
    "torch.nn.utils.vector_to_parameters": t_vector_to_parameters,
    "torch.nn.utils.weight_norm": t_weight_norm,
    "torch.nn.utils.parametrizations.weight_norm": t_weight_norm,
    "torch.nn.utils.spectral_norm": t_parametrized,
    "torch.nn.utils.parametrizations.spectral_norm": t_parametrized,
    "torch.nn.utils.parametrizations.orthogonal": t_parametrized,
    "torch.nn.utils.parametrize.register_parametrization": t_register_parametrization,
    **{f"torch.nn.utils.prune.{name}": t_parametrized for name in PRUNES},
}
