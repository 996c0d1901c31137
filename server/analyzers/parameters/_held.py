"""Which parameters a program's optimizers hold, which ones modules register: what the rules of this family share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...facts import (
    Class,
    Leaf,
    Mapping,
    Object,
    ParameterOf,
    Parameters,
    Range,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
)
from ...findings import Place
from ...flow import events
from ...flow.modules import leaves_of, registered
from ...flow.objects import is_module
from ...flow.operations import possible_leaves
from ...flow.training import parts_of

if TYPE_CHECKING:
    from ...flow import Flow

# Lists of lists of modules: deeper is not looked into.
DEPTH = 4


def held(flow: Flow) -> set[Leaf]:
    """The leaves that some optimizer held at some time."""
    found: set[Leaf] = set()
    for event in flow.among(events.OptimizerMade, events.ParametersAdded, events.Step):
        if isinstance(event, (events.OptimizerMade, events.ParametersAdded, events.Step)):
            found.update(event.leaves)
    return found


def all_known(flow: Flow) -> bool:
    """Whether no optimizer was given anything that is not known (it could hold any parameter)."""
    return not any(unknown(argument) for event in flow.of(events.OptimizerMade) for argument in event.arguments)


def unknown(value: object, depth: int = DEPTH) -> bool:
    """Whether parameters that are not known may be in what an optimizer was given."""
    if isinstance(value, (Unknown, Union)):
        return True
    if isinstance(value, (Sequence, Range)):
        return depth == 0 or any(unknown(part, depth - 1) for part in parts_of(value))
    if isinstance(value, Mapping):
        return unknown(value.cells.get(("key", "params"), value.cells.get("rest", Unknown())), depth - 1)
    return False


def registrations(flow: Flow) -> tuple[set[int], set[Leaf]]:
    """The ids of the modules that are children of a module, and the parameters that are members of one."""
    modules: set[int] = set()
    leaves: set[Leaf] = set()
    assert flow.run is not None
    for obj in flow.objects:
        if not is_module(obj):
            continue
        for child in registered(flow.run, obj):
            for option in child.options if isinstance(child, Union) else (child,):
                if isinstance(option, Object):
                    modules.add(id(option))
                elif isinstance(option, Tensor):
                    leaves.update(possible_leaves(option))
    return modules, leaves


def vague_containers(flow: Flow) -> bool:
    """Whether some `Sequential` or `ModuleList` holds what is not known: it may register any module of the program."""
    for obj in flow.objects:
        if isinstance(obj.cells.get("each"), Unknown) and obj.cells.get("items", ()) is None:
            return True
        mapping = obj.cells.get("mapping")
        if isinstance(mapping, Mapping) and isinstance(mapping.cells.get("rest"), Unknown):
            return True
    return False


def members(value: object, depth: int = DEPTH) -> Iterator[Object | Tensor]:
    """The modules and parameters in a plain list, tuple, set or dict, however deep."""
    if isinstance(value, Union):
        for option in value.options:
            yield from members(option, depth)
    elif isinstance(value, Object):
        if is_module(value):
            yield value
    elif isinstance(value, Tensor):
        if any(leaf.kind == "parameter" for leaf in possible_leaves(value)):
            yield value
    elif isinstance(value, Sequence) and depth:
        items = value.cells.get("items")
        for item in items if isinstance(items, tuple) else (value.cells.get("each"),):
            yield from members(item, depth - 1)
    elif isinstance(value, Mapping) and depth:
        for item in value.cells.values():
            yield from members(item, depth - 1)


def leaves_in(flow: Flow, value: Object | Tensor) -> list[Leaf]:
    """The parameters of a module, or the one that a tensor is."""
    if isinstance(value, Tensor):
        return possible_leaves(value)
    assert flow.run is not None
    return leaves_of(flow.run, value)[0]


def exact_groups(value: Value, depth: int = DEPTH) -> list[list[Leaf]]:
    """The leaves of each parameter group that are known to be all there; one group if there are no dicts.

    A layer's weight alone stands for no whole layer, so single tensors of library layers are left out.
    """
    if isinstance(value, Sequence) and depth and any(isinstance(part, Mapping) for part in parts_of(value)):
        return [whole(part.cells.get(("key", "params"))) for part in parts_of(value) if isinstance(part, Mapping)]
    return [whole(value)]


def group_place(value: Value, number: int) -> Place | None:
    """Where the dict stands that makes the group of this number."""
    groups = [part for part in parts_of(value) if isinstance(part, Mapping)] if isinstance(value, Sequence) else []
    return groups[number].place if number < len(groups) else None


def whole(value: object, depth: int = DEPTH) -> list[Leaf]:
    """The leaves that are surely and wholly in a value, as often as they are there."""
    if isinstance(value, Parameters):
        return list(value.leaves) if value.exact or value.leaves else []
    if isinstance(value, ParameterOf):
        return list(value.leaves) if value.all_of else []
    if isinstance(value, Tensor):
        return [value.leaf] if value.leaf is not None and value.leaf.kind != "weights" else []
    if isinstance(value, Sequence) and depth and (value.cells.get("parts") or value.cells.get("items") is not None):
        return [leaf for part in parts_of(value) for leaf in whole(part, depth - 1)]
    return []


def overrides(obj: Object, *names: str) -> bool:
    """Whether a project class among the object's classes defines one of these attributes."""
    cls = obj.cls
    return isinstance(cls, Class) and any(
        name in base.names for base in cls.mro if isinstance(base, Class) for name in names
    )
