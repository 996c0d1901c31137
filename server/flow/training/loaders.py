"""What a `DataLoader` or a dataset of torch gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...facts import (
    DATA,
    UNKNOWN,
    Const,
    External,
    Function,
    Mapping,
    Number,
    Object,
    Sequence,
    Tensor,
    Union,
    Value,
    replace,
)
from .. import shapes
from ..frames import Args
from ..operations import graph_of

if TYPE_CHECKING:
    from ..interp import Interpreter


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
from .. import calls as _calls  # noqa: E402
from .. import objects as _objects  # noqa: E402
