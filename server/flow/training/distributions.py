"""`torch.distributions`: a sample has no graph, one that is reparametrized has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import UNKNOWN, Cut, Object, Tensor, Value
from ...findings import Place
from ..frames import Args
from ..operations import Inputs, lost_here, recorded

if TYPE_CHECKING:
    from ..interp import Interpreter


def distribution_tensor(
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
        return distribution_tensor(run, obj, place, name, cut=True)
    if name in ("rsample", "entropy", "perplexity"):
        return distribution_tensor(run, obj, place, name)
    if name in ("log_prob", "cdf", "icdf"):
        return distribution_tensor(run, obj, place, name, extra=args.positional[0] if args.positional else None)
    return UNKNOWN


# The parts of the interpreter know each other: these come when this one is complete.
