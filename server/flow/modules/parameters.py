"""What is registered in a module: its parameters and child modules, with their names."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ... import torchlib
from ...facts import (
    Class,
    Const,
    External,
    Function,
    Leaf,
    Mapping,
    Number,
    Object,
    Parameters,
    Sequence,
    Tensor,
    Text,
    Union,
    Unknown,
    Value,
)
from ...findings import Place
from ..objects import is_module
from ..operations import possible_leaves
from .classes import library_class

if TYPE_CHECKING:
    from ..interp import Interpreter


def leaves_of(run: Interpreter, value: Value) -> tuple[list[Leaf], bool]:
    """The registered parameters of a module in order, and whether these are surely all."""
    leaves: dict[Leaf, None] = {}
    exact = _collect(run, value, set(), leaves)
    return list(leaves), exact


def _collect(run: Interpreter, value: Value, seen: set[int], leaves: dict[Leaf, None]) -> bool:
    """Adds the registered parameters; whether these are surely all."""
    if not isinstance(value, Object) or id(value) in seen:
        return isinstance(value, (Object, Const, Number, Text, Function, Tensor, Sequence, Mapping, External))
    seen.add(id(value))
    exact = _add_own(value, leaves)
    for child in registered(run, value):
        if type(child) is Object:
            if _is_bare(child):
                if id(child) not in seen:
                    seen.add(id(child))
                    exact = _add_own(child, leaves) and exact
                continue
            complete = _collect(run, child, seen, leaves)
            exact = exact and complete
        elif isinstance(child, Tensor):
            leaves.update(dict.fromkeys(possible_leaves(child)))
        elif isinstance(child, Union):
            exact = False
            for option in child.options:
                _collect(run, option, seen, leaves)
        else:
            exact = False
    return exact


def _is_bare(module: Object) -> bool:
    """Whether nothing is registered in a module: most are layers of torch, of which large models have many."""
    return not module.attrs and HOLDS.isdisjoint(module.cells)


def _add_own(module: Object, leaves: dict[Leaf, None]) -> bool:
    """Adds the leaf of a layer of torch; whether it surely has no other parameters than those that are registered."""
    cells, cls = module.cells, module.cls
    own = cells.get("leaf")
    if own is not None:
        leaves[own] = None  # type: ignore[index]
    return not (cells.get("dynamic") or cells.get("escaped") or (type(cls) is Class and cls.open))


def named_leaves(
    run: Interpreter, obj: Object, prefix: str | None = "", seen: set[int] | None = None
) -> Iterator[tuple[Value, Leaf]]:
    """`named_parameters()` of a module whose members are all known; a layer of torch comes as one, under all its names.

    A name that is not known for sure is a `Text`.
    """
    seen = set() if seen is None else seen
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if obj.cells.get("compiled"):
        prefix = None  # `torch.compile` gives another module, with this one in it
    own = obj.cells.get("leaf")
    if isinstance(own, Leaf) and id(own) not in seen:
        seen.add(id(own))
        info = torchlib.module(library_class(obj))
        names: tuple[Const, ...] = ()
        if prefix is not None and info is not None and not obj.cells.get("parametrized"):
            names = tuple(Const(f"{prefix}{name}") for name in _layer_names(info.parameters))
        yield (Union(names) if len(names) > 1 else names[0] if names else Text()), own
    for name, child in _children(obj):
        path = None if prefix is None or name is None else f"{prefix}{name}"
        if isinstance(child, Tensor) and child.leaf is not None and child.leaf.kind != "tensor":
            if id(child.leaf) not in seen:
                seen.add(id(child.leaf))
                yield (Text() if path is None else Const(path)), child.leaf
        elif isinstance(child, Object) and is_module(child):
            yield from named_leaves(run, child, None if path is None else f"{path}.", seen)


def _children(obj: Object) -> list[tuple[str | None, object]]:
    """What is registered in a module, with the names; None where a name is not known."""
    found: list[tuple[str | None, object]] = [
        (None if name.startswith("[") else name, v) for name, v in obj.attrs.items()
    ]
    items, mapping = obj.cells.get("items"), obj.cells.get("mapping")
    if isinstance(items, tuple):
        keys = obj.cells.get("keys", range(len(items)))
        known = keys is not None and len(keys) == len(items)  # type: ignore[arg-type]
        found += zip(map(str, keys) if known else [None] * len(items), items, strict=True)  # type: ignore[call-overload]
    if isinstance(mapping, Mapping):
        found += [(str(key[1]), value) for key, value in mapping.cells.items() if isinstance(key, tuple)]
    return found


LAYERS_NAMED = 12  # of layers that are numbered; deeper ones are called alike

_NUMBERED = re.compile(r"(?<=_l)0|(?<=layers\.)0")


@functools.cache
def _layer_names(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """What the parameters of a layer of torch may be called, with those of further layers; nothing if that is not known."""
    names: dict[str, None] = {}
    for name in parameters:
        for index in range(LAYERS_NAMED) if _NUMBERED.search(name) else (0,):
            names[_NUMBERED.sub(str(index), name)] = None
            if "_l0" in name:
                names[_NUMBERED.sub(str(index), name) + "_reverse"] = None
                names[f"weight_hr_l{index}"] = None
    return tuple(names) if not any(re.search(r"\.\d", _NUMBERED.sub("", name)) for name in parameters) else ()


def thaw_any(run: Interpreter) -> None:
    """Something that is not known is told to require grad: any leaf that does not may be it."""
    for obj in run.objects:
        leaves = [obj.cells.get("leaf"), *(v.leaf for v in obj.attrs.values() if isinstance(v, Tensor))]
        for leaf in leaves:
            if isinstance(leaf, Leaf) and leaf.cells.get("requires_grad") is False:
                run.state.set(leaf.cells, "requires_grad", None)


def uncertain_leaves(run: Interpreter, obj: Object) -> set[Leaf]:
    """Parameters that a module may have or not: it has one of several."""
    found: set[Leaf] = set()
    for module in submodules(run, obj):
        for child in registered(run, module):
            if isinstance(child, Tensor) and child.leaf is None:
                found.update(possible_leaves(child))
            elif isinstance(child, Union):
                for option in child.options:
                    found.update(leaves_of(run, option)[0])
    return found


HOLDS = frozenset({"items", "members", "each", "mapping"})  # cells with what is registered without a name


def registered(run: Interpreter, obj: Object) -> list[Value]:
    """The child modules, own parameters, and unknown members of a module."""
    if _is_bare(obj):
        return []
    found: list[Value] = []
    for value in obj.attrs.values():
        kind = type(value)
        if (
            (kind is Object and is_module(value))
            or (kind is Tensor and any(leaf.kind in ("parameter", "weights") for leaf in possible_leaves(value)))  # type: ignore[arg-type]
            or (kind is Union and any(is_module(o) for o in value.options))  # type: ignore[union-attr]
            or kind is Unknown
        ):
            found.append(value)  # type: ignore[arg-type]
    items = obj.cells.get("items")
    if isinstance(items, tuple):
        found += [i for i in items if isinstance(i, (Object, Tensor, Unknown, Union))]
    elif isinstance(obj.cells.get("members"), tuple):
        found += obj.cells["members"]  # type: ignore[arg-type]
    elif "each" in obj.cells:
        each = obj.cells["each"]
        if isinstance(each, Value):
            found.append(each)
    mapping = obj.cells.get("mapping")
    if isinstance(mapping, Mapping):
        found += [v for v in mapping.cells.values() if isinstance(v, (Object, Tensor, Unknown, Union))]
    return found


def submodules(run: Interpreter, obj: Object) -> list[Object]:
    """The module and everything registered below it."""
    found: dict[int, Object] = {}
    _below(run, obj, found)
    return list(found.values())


def _below(run: Interpreter, obj: Object, found: dict[int, Object]) -> None:
    if id(obj) in found:
        return
    found[id(obj)] = obj
    for child in registered(run, obj):
        for option in child.options if type(child) is Union else (child,):
            if not is_module(option):
                continue
            assert isinstance(option, Object)
            if _is_bare(option):
                found[id(option)] = option
            else:
                _below(run, option, found)


def parameters_of(run: Interpreter, owner: Object, named: bool, place: Place | None) -> Parameters:
    leaves, exact = leaves_of(run, owner)
    return Parameters(owner, named, tuple(leaves), exact, place)


def set_flags(run: Interpreter, leaves: list[Leaf] | tuple[Leaf, ...], value: bool | None, sure: bool = True) -> None:
    """`requires_grad` of leaves; not `sure`: of some of them."""
    for leaf in leaves:
        new = value if sure or leaf.cells.get("requires_grad") is value else None
        run.state.set(leaf.cells, "requires_grad", new)


# The parts of the interpreter know each other: these come when this one is complete.
