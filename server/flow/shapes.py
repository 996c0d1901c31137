"""The sizes of tensors where they are known: as far as it takes to see that two of them broadcast by mistake.

A shape is a tuple of sizes, None for one that is not known; a tensor of unknown rank has no shape (None). Whatever is
not listed here has none: silence is always right.
"""

from __future__ import annotations

import re

from ..facts import ANY_RANK, MANY, SCALAR, Const, External, Number, Sequence, Tensor, Value, element, replace
from .frames import Args

Shape = tuple[object, ...]

SIZED = frozenset(["zeros", "ones", "rand", "randn", "empty", "full"])
COUNTED = frozenset(["arange", "linspace", "randperm", "logspace"])
REDUCE = frozenset(
    ["mean", "sum", "prod", "std", "var", "amax", "amin", "argmax", "argmin", "norm", "logsumexp", "all", "any"]
)
SAME = frozenset(["clone", "contiguous", "softmax", "log_softmax", "dropout", "detach", "zeros_like", "ones_like",
                  "rand_like", "randn_like", "empty_like", "full_like", "layer_norm", "cumsum", "flip", "roll"])  # fmt: skip
# They change the sizes of so many of the last dimensions.
_SPATIAL = re.compile(r"\.(Conv|ConvTranspose|(?:Adaptive)?(?:Avg|Max)Pool)([123])d$")
_POOLS = re.compile(r"^(?:adaptive_)?(?:avg|max)_pool([123])d$")
# The argument that says how many features a layer gives, in each row or at each place.
FEATURES = {
    "torch.nn.Linear": (1, "out_features"),
    "torch.nn.LazyLinear": (0, "out_features"),
    **{f"torch.nn.{kind}{n}d": (1, "out_channels") for kind in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"torch.nn.{name}": (1, "hidden_size") for name in ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")},
    **{f"torch.nn.{name}": (1, "embedding_dim") for name in ("Embedding", "EmbeddingBag")},
    "torch.nn.Bilinear": (2, "out_features"),
}


def shaped(tensor: Tensor, shape: Shape | None) -> Tensor:
    """The tensor with its shape, and what that tells of the number of its elements."""
    if shape is None:
        return tensor
    made = replace(tensor)
    give(made, shape)
    return made


def give(tensor: Tensor, shape: Shape | None) -> None:
    """Gives a tensor that was just made its shape, and what that tells of the number of its elements."""
    if shape is None:
        return
    rank = SCALAR
    for size in shape:
        if isinstance(size, int) and size > 1:
            rank = MANY
            break
        if size != 1:
            rank = tensor.rank
    tensor.shape, tensor.rank = shape, rank


def of_factory(name: str, args: Args) -> Shape | None:
    """`torch.randn(256, 5)`"""
    short = name.rpartition(".")[2]
    if args.spread:
        return None
    if short in COUNTED:
        return (None,)
    if short == "randint":
        sizes = next((v for v in args.positional if isinstance(v, Sequence)), args.keywords.get("size"))
        return of_sizes([sizes]) if isinstance(sizes, Sequence) else None
    if short not in SIZED or "size" in args.keywords:
        return None
    return of_sizes(args.positional[:1] if short == "full" else args.positional)


def of_sizes(sizes: list[Value]) -> Shape | None:
    """Sizes as they are given to a factory or to `view`: numbers, or one sequence of them; -1 is not known."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        items = sizes[0].cells.get("items")
        if not isinstance(items, tuple):
            return None
        sizes = list(items)
    dims: list[object] = []
    for size in sizes:
        if isinstance(size, Const) and isinstance(size.value, int):
            dims.append(size.value if size.value >= 0 else None)
        elif isinstance(size, (Const, Number)):
            dims.append(None)
        else:
            return None
    return tuple(dims)


def of_literal(value: Value) -> Shape | None:
    """`torch.tensor([[1.0], [2.0]])`"""
    if isinstance(value, (Const, Number)):
        return ()
    if not isinstance(value, Sequence):
        return None
    items = value.cells.get("items")
    if isinstance(items, tuple):
        inner = of_literal(items[0]) if items else None
        return None if inner is None else (len(items), *inner)
    each = element(value)
    inner = of_literal(each) if isinstance(each, Value) else None
    return None if inner is None else (None, *inner)


def of_value(value: object) -> Shape | None:
    if isinstance(value, Tensor):
        return value.shape
    return () if isinstance(value, (Const, Number)) else None


def broadcast(shapes: list[Shape]) -> Shape:
    dims: list[object] = []
    for i in range(max(len(s) for s in shapes)):
        column = [s[len(s) - 1 - i] for s in shapes if i < len(s)]
        known = [d for d in column if d not in (None, 1)]
        dims.append(known[0] if known else None if None in column else 1)
    return tuple(reversed(dims))


def of_op(short: str, elementwise: bool, inputs: list[Value], args: Args | None, shift: int) -> Shape | None:
    """The shape of one operation's result; `args` do not count `self` if `shift` is 1."""
    for value in inputs:
        if type(value) is Tensor and value.shape is not None:
            break
    else:
        if short != "stack":
            return None
    short = short.rstrip("_") or short
    if short == "stack" and inputs and isinstance(inputs[0], Sequence):
        plain = args is not None and len(args.positional) == 1 and not args.keywords and not args.spread
        return _stacked(inputs[0]) if plain else None
    if not inputs or not any(isinstance(v, Tensor) and v.shape is not None for v in inputs):
        return None
    shape = of_value(inputs[0])
    given = list(args.positional[1 - shift :]) if args is not None else []
    if args is not None and args.spread:
        return None
    if elementwise:
        if not all(isinstance(v, (Tensor, Number, Const, External)) for v in inputs):
            return None
        shapes = [
            of_value(v)
            for v in inputs
            if isinstance(v, (Tensor, Number)) or (isinstance(v, Const) and v.value is not None)
        ]
        return None if any(s is None for s in shapes) else broadcast(shapes)  # type: ignore[arg-type]
    if short in ("matmul", "mm", "mv", "@") and len(inputs) == 2:
        return _matmul(shape, of_value(inputs[1]))
    if shape is None:
        return None
    if short in SAME:
        return shape
    dim = _dim(given[0] if given else args.keywords.get("dim") if args is not None else None, len(shape))
    if short in REDUCE:
        return _reduced(shape, given, args)
    if short == "squeeze":
        return _squeezed(shape, dim, bool(given) or (args is not None and "dim" in args.keywords))
    if short == "unsqueeze":
        place = _dim(given[0] if given else args.keywords.get("dim") if args is not None else None, len(shape) + 1)
        return None if place is None else (*shape[:place], 1, *shape[place:])
    if short in ("view", "reshape"):
        return _viewed(shape, given) if given and not isinstance(given[0], External) else None
    if short in ("flatten", "ravel"):
        start = (
            given[0].value
            if given and isinstance(given[0], Const)
            else args.keywords.get("start_dim")
            if args
            else None
        )
        if len(given) > 1 or (args is not None and "end_dim" in args.keywords):
            return None
        if start in (None, 0):
            return (_product(shape),)
        return (shape[0], _product(shape[1:])) if start == 1 and len(shape) > 1 else None
    pool = _POOLS.match(short)
    if pool is not None and len(shape) > int(pool[1]):
        return (*shape[: -int(pool[1])], *(None,) * int(pool[1]))
    if short in ("t", "T") and len(shape) == 2:
        return shape[::-1]
    if short == "gather":
        index = given[1] if len(given) > 1 else args.keywords.get("index") if args is not None else None
        return of_value(index) if isinstance(index, Tensor) else None
    return None


def _stacked(parts: Sequence) -> Shape | None:
    """Tensors of one shape, one after the other."""
    items = parts.cells.get("items")
    shapes = [
        of_value(v) if isinstance(v, Tensor) else None
        for v in (items if isinstance(items, tuple) else (element(parts),))
    ]
    if not shapes or shapes[0] is None or any(s != shapes[0] for s in shapes):
        return None
    return (len(items) if isinstance(items, tuple) else None, *shapes[0])


def _viewed(shape: Shape, given: list[Value]) -> Shape | None:
    """`x.view(-1, 4)`: the size that is left open follows from the others."""
    sizes = of_sizes(given)
    if sizes is None:
        return None
    if len(given) == 1 and isinstance(given[0], Sequence):
        items = given[0].cells.get("items")
        given = list(items) if isinstance(items, tuple) else given
    left = [i for i, size in enumerate(given) if isinstance(size, Const) and size.value == -1]
    total = _product(shape)
    others = _product(tuple(size for i, size in enumerate(sizes) if i not in left))
    if len(left) != 1 or total is None or not others or total % others:
        return sizes
    return (*sizes[: left[0]], total // others, *sizes[left[0] + 1 :])


def _dim(value: object, rank: int) -> int | None:
    if isinstance(value, Const) and isinstance(value.value, int) and -rank <= value.value < rank:
        return value.value % rank
    return None


def _matmul(left: Shape | None, right: Shape | None) -> Shape | None:
    if left is None or right is None or not left or not right:
        return None
    if len(right) == 1:
        return left[:-1]
    if len(left) == 1:
        return (*right[:-2], right[-1]) if len(right) == 2 else None
    return (*left[:-1], right[-1]) if len(right) == 2 else None


def _reduced(shape: Shape, given: list[Value], args: Args | None) -> Shape | None:
    keywords = args.keywords if args is not None else {}
    if not given and not keywords:
        return ()
    value = given[0] if given else keywords.get("dim")
    keep = keywords.get("keepdim", given[1] if len(given) > 1 else None)
    if not (keep is None or isinstance(keep, Const)):
        return None
    several = value.cells.get("items") if isinstance(value, Sequence) else None
    if isinstance(several, tuple):
        dims = {_dim(v, len(shape)) for v in several}
        if None in dims or (keep is not None and keep.value):
            return None
        return tuple(size for i, size in enumerate(shape) if i not in dims)
    dim = _dim(value, len(shape))
    if dim is None:
        return None
    return (*shape[:dim], *((1,) if keep is not None and keep.value else ()), *shape[dim + 1 :])  # type: ignore[union-attr]


def _squeezed(shape: Shape, dim: int | None, asked: bool) -> Shape | None:
    if not asked:
        return None if None in shape else tuple(d for d in shape if d != 1)
    if dim is None or shape[dim] is None:
        return None
    return (*shape[:dim], *shape[dim + 1 :]) if shape[dim] == 1 else shape


def of_index(shape: Shape | None, index: Value) -> Shape | None:
    """`x[:, 0]`, `x[..., None]`, `x[3]`"""
    if shape is None:
        return None
    parts = index.cells.get("items") if isinstance(index, Sequence) and index.kind == "tuple" else (index,)
    if not isinstance(parts, tuple):
        return None
    fixed = sum(1 for p in parts if not (isinstance(p, Const) and p.value in (None, Ellipsis)))
    dims: list[object] = []
    position = 0
    for part in parts:
        if isinstance(part, Const) and part.value is None:
            dims.append(1)
            continue
        if isinstance(part, Const) and part.value is Ellipsis:
            count = len(shape) - fixed
            dims += shape[position : position + count]
            position += count
            continue
        if position >= len(shape):
            return None
        if isinstance(part, Sequence) and part.kind == "slice":
            whole = part.cells.get("items")
            plain = isinstance(whole, tuple) and all(isinstance(p, Const) and p.value is None for p in whole)
            dims.append(shape[position] if plain else None)
        elif not (isinstance(part, Number) or (isinstance(part, Const) and isinstance(part.value, int))):
            return None
        position += 1
    return (*dims, *shape[position:])


def of_layer(name: str, same: bool, made: object, shape: Shape | None) -> Shape | None:
    """What a layer of torch makes of its input's shape; `made` are the arguments it was made with."""
    if shape is None:
        return None
    if same:
        return shape
    if not isinstance(made, Args):
        return None
    if name in ("torch.nn.Linear", "torch.nn.LazyLinear", "torch.nn.Embedding"):
        kept = shape if name == "torch.nn.Embedding" else shape[:-1]
        return (*kept, features(name, made) or None)
    if name in ("torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell"):
        return (*shape[:-1], features(name, made) or None)
    spatial = _SPATIAL.search(name)
    if spatial is not None and len(shape) > int(spatial[2]):
        free = (None,) * int(spatial[2])
        kept = shape[: -len(free)]
        return (*kept[:-1], features(name, made) or None, *free) if spatial[1].startswith("Conv") else (*kept, *free)
    if name == "torch.nn.Flatten" and len(shape) > 1 and not made.positional and not made.keywords:
        return (shape[0], _product(shape[1:]))
    return None


def of_recurrent(name: str, made: object, shape: Shape | None) -> tuple[Shape | None, Shape | None]:
    """The shapes of what `LSTM`, `GRU` and `RNN` give: the outputs, and the last states."""
    if not isinstance(made, Args) or shape is None or len(shape) != 3:
        return None, None
    both = made.get(6, "bidirectional", Const(False))
    first = made.get(4, "batch_first", Const(False))
    layers = made.get(2, "num_layers", Const(1))
    if not isinstance(both, Const) or not isinstance(first, Const) or "proj_size" in made.keywords or made.spread:
        return None, None
    width = features(name, made) or None
    ways = 2 if both.value else 1
    stacked = layers.value * ways if isinstance(layers, Const) and isinstance(layers.value, int) else None
    return (*shape[:-1], width and width * ways), (stacked, shape[0] if first.value else shape[1], width)


def features(name: str, made: object) -> int:
    """How many features a layer of torch gives; 0 where that is not known."""
    if name not in FEATURES or not isinstance(made, Args):
        return 0
    index, word = FEATURES[name]
    out = made.get(index, word, None)
    return out.value if isinstance(out, Const) and isinstance(out.value, int) else 0


def unreduced(inputs: list[Tensor]) -> str:
    """How many elements a loss has that does not reduce: as many as there are samples."""
    return ANY_RANK if any(t.shape is not None and (not t.shape or t.shape[0] == 1) for t in inputs) else MANY


def _product(sizes: Shape) -> int | None:
    total = 1
    for size in sizes:
        if not isinstance(size, int):
            return None
        total *= size
    return total


def batched(shape: Shape | None, size: int | None = None) -> Shape | None:
    """A batch of so many tensors of this shape."""
    return None if shape is None else (size, *shape)


def rows(shape: Shape | None, size: int | None = None) -> Shape | None:
    """A batch of so many of the rows of a tensor, or of all if there are fewer."""
    if not shape:
        return None
    there = shape[0]
    return (min(size, there) if size is not None and isinstance(there, int) else size, *shape[1:])
