"""NumPy, SciPy and `math`: arrays and numbers, behind which there is no graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import ir
from ...facts import FOREIGN, NONE, Array, Number, ParameterOf, Sequence, Tensor, Value
from ..frames import Args
from ..operations import Inputs, cut_of
from ..tensors import refuse_numpy, write_into_array

if TYPE_CHECKING:
    from ..interp import Interpreter


# Functions of NumPy that make an array of the one thing that they are given, be it a tensor or a list of tensors.
CONVERTING = frozenset(
    "abs argmax argmin array asanyarray asarray ascontiguousarray ceil copy cos cumsum exp expm1 float32 floor isfinite isinf "
    "isnan log log10 log1p log2 median nan_to_num nanmax nanmean nanmin nanstd nansum negative ravel rint sign sin sqrt "
    "square tanh unique".split()
)

# Of one tensor these call the method of the same name, and get on or fail in another way.
CONVERTING_LISTS = CONVERTING | frozenset(
    "amax amin concatenate float64 hstack max mean min prod stack std sum var vstack".split()
)

# These write into their first argument, as `np.add.at` does.
ARRAY_WRITES = frozenset({"copyto", "put", "put_along_axis", "place", "putmask"})


def converts(name: str, args: Args) -> bool:
    """Whether a function of NumPy surely asks the tensors that it is given for their arrays."""
    module, _, short = name.rpartition(".")
    plain = len(args.positional) == 1 and not args.spread
    if module != "numpy" or not plain or args.keywords.keys() - (["dtype"] if short.endswith("array") else []):
        return False
    given = args.positional[0]
    if isinstance(given, Sequence):
        return short in CONVERTING_LISTS and given.kind in ("list", "tuple")
    return short in CONVERTING and isinstance(given, (Tensor, ParameterOf))


def call_numpy(run: Interpreter, name: str, args: Args, e: ir.Call | None) -> Value:
    found = Inputs()
    for value in args.positional:
        found.add(run, value)
    short = name.rpartition(".")[2]
    place = run.place(e.at) if e is not None else None
    if name.startswith("numpy.") and (short in ARRAY_WRITES or name.endswith(".at")) and len(args.positional) > 1:
        target = args.positional[0]
        if isinstance(target, Array) and place is not None and e is not None and not args.spread:
            for value in args.positional[1:]:
                write_into_array(run, target, value, e.args[0], place)
        return NONE
    if short in ("zeros_like", "ones_like", "empty_like"):
        return Array()  # nothing of the values
    kind = "number" if name.startswith(("math.", "cmath.")) else "numpy"
    cut = None
    if found.nodes and found.sure:
        cut = cut_of(run, found, f"{name}(...)", kind, place)
    elif found.cuts:
        cut = found.cuts[-1]
    if place is not None and cut is not None and cut.place == place and converts(name, args):
        refuse_numpy(run, place, cut, several=isinstance(args.positional[0], Sequence))
    if name.startswith(("math.", "cmath.")) or short in ("mean", "sum", "max", "min", "std", "float32", "float64"):
        if kind == "number":
            return Number(cut, place, f"{name}(...)")
        return (
            Number(cut, place, f"{name}(...)")
            if short in ("float32", "float64", "mean", "sum") and not args.keywords
            else Array(cut)
        )
    if found.unknown and not found.nodes:
        return (
            Array(cut) if short in ("array", "asarray", "zeros", "ones", "concatenate", "stack", "arange") else FOREIGN
        )
    return Array(cut)
