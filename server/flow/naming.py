"""What a reader calls the things that findings speak of: by the code at their place, and by the path of attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Mapping_

from ..facts import External, Leaf, Mapping, Object, Tensor
from ..messages import Text, listed, say
from ..text import Source

CODE_LIMIT = 40  # characters of code that a message quotes; a longer call loses its arguments
NAMES_LIMIT = 4  # names in a row that a message lists


def quoted(source: Source | None, start: int, end: int) -> str:
    """The code at a span of a text in backticks, on one line and shortened, as `F.cross_entropy(...)`."""
    code = " ".join(source.text[start:end].split()) if source is not None else ""
    if len(code) > CODE_LIMIT and code.endswith(")"):
        code = f"{code.partition('(')[0]}(...)"
    if len(code) > CODE_LIMIT:
        code = code[: CODE_LIMIT - 1] + "…"
    return f"`{code}`" if code else "?"


def shown_code(how: str) -> str:
    """What did something, in backticks; a text that says it in words stays as it is."""
    return how if isinstance(how, Text) else f"`{how}`"


def called(objects: Iterable[Object], variables: Mapping_[str, object] | None = None) -> dict[Leaf, str]:
    """The parameters of these modules, each by its path from the class of the outermost one: `Net.encoder.weight`.

    A module of the library is called by its variable, where it has one of `variables`: its class says nothing.
    """
    from .objects import is_module  # which comes with the whole interpreter

    own: dict[int, str] = {}
    for name, value in (variables or {}).items():
        if isinstance(value, Object) and isinstance(value.cls, External):
            own.setdefault(id(value), name)
    trees = [(obj, dict(paths(obj))) for obj in dict.fromkeys(objects) if is_module(obj)]
    names: dict[Leaf, str] = {}
    for obj, tree in sorted(trees, key=lambda item: -len(item[1])):  # the outermost module has the most parameters
        for leaf, path in tree.items():
            label = own.get(id(obj), obj.label)
            names.setdefault(leaf, f"{label}{path}" if label else path.removeprefix("."))
    return names


def names_of(leaves: Iterable[Leaf], names: dict[Leaf, str]) -> str:
    """A few parameters in a row, as a text, and how many more there are."""
    found = list(dict.fromkeys(names.get(leaf) or leaf.label for leaf in leaves))
    shown = [f"`{name}`" if name else say("a parameter") for name in found[:NAMES_LIMIT]]
    more = len(found) - len(shown)
    return say("{names} and {n} more", names=listed(shown), n=more) if more else listed(shown)


def paths(obj: Object, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[Leaf, str]]:
    """The parameters below a module, each with its path from there: `.encoder.layers[0]`."""
    from .objects import is_module  # which comes with the whole interpreter

    seen = set() if seen is None else seen
    if id(obj) in seen:
        return
    seen.add(id(obj))
    own = obj.cells.get("leaf")
    if isinstance(own, Leaf):
        yield own, prefix
    children: list[tuple[str, object]] = [(f"{prefix}.{name}", value) for name, value in obj.attrs.items()]
    items = obj.cells.get("items")
    if isinstance(items, tuple):
        children += [(f"{prefix}[{index}]", value) for index, value in enumerate(items)]
    elif "each" in obj.cells:
        children.append((f"{prefix}[...]", obj.cells["each"]))
    mapping = obj.cells.get("mapping")
    if isinstance(mapping, Mapping):
        children += [
            (f"{prefix}[{key[1]!r}]" if isinstance(key, tuple) else f"{prefix}[...]", value)
            for key, value in mapping.cells.items()
        ]
    for path, child in children:
        if isinstance(child, Tensor):
            if child.leaf is not None:
                yield child.leaf, path
        elif isinstance(child, Object) and is_module(child):
            yield from paths(child, path, seen)
