"""The words of a text that change what gradients do: where they stand and what each does, from `words.md`.

    for word in words(module):    # `loss.item()`  ->  Word(5, 9, "item", "cut")

A word of a tensor's is taken as one in a file that imports torch, unless it is asked of another library's module. What it
does *here* is not known from the word: that takes the interpreter.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from typing import Any, NamedTuple

from . import ir
from .messages import ENGLISH, used
from .project import Module
from .units import Unit

_HEADING = re.compile(r"^## (\w+) · (method|torch|keyword) · (cut|switch|flow|-)\n", re.MULTILINE)


class Meaning(NamedTuple):
    """`of` is "method", "torch" or "keyword" (of a call); `kind` is "cut", "switch", "flow" or "-"; `text` is Markdown, the short answer first."""

    of: str
    kind: str
    text: str


class Word(NamedTuple):
    """A word at `[start, end)` of a text (code points)."""

    start: int
    end: int
    name: str
    kind: str


class Found(NamedTuple):
    """A word, the span of what it is asked of (None: of nothing, it is a name) and whether it looks like torch's."""

    word: Word
    owner: tuple[int, int] | None
    likely: bool


def meanings() -> dict[str, Meaning]:
    """Every word that is known, explained in the language that is used."""
    return explained(used())


@functools.cache
def explained(language: str) -> dict[str, Meaning]:
    """Every word that is known, explained in a language: by `words.md`, or `words.zh-cn.md` with the same headings."""
    name = "words.md" if language == ENGLISH else f"words.{language}.md"
    page = (resources.files(str(__package__)) / name).read_text(encoding="utf-8")
    _, *parts = _HEADING.split(page)
    return {
        name: Meaning(of, kind, text.strip())
        for name, of, kind, text in zip(parts[::4], parts[1::4], parts[2::4], parts[3::4], strict=True)
    }


def words(module: Module) -> list[Word]:
    """The words in a module that look like torch's, in the order of their places; none if it does not import torch."""
    return [found.word for found in candidates(module) if found.likely]


def candidates(module: Module) -> list[Found]:
    """All places in a module where one of the words stands, in order; none if it does not import torch."""
    text = module.source.text
    if "torch" not in text:
        return []
    known = {name for name in meanings() if name in text}
    if not known:
        return []
    keywords = {name for name in known if meanings()[name].of == "keyword"}
    modules: dict[str, str] = {}  # local name -> what it was imported as
    found: list[tuple[int, int, str, ir.Expr | None, int]] = []
    for unit in module.units:
        _search(unit, known - keywords, modules, found)
        if keywords:
            _search_keywords(unit, keywords, found)
    return sorted(
        Found(
            Word(start, end, name, meanings()[name].kind),
            None if owner is None else (base + ir.unpack(owner.at)[0], base + ir.unpack(owner.at)[1]),
            _is_torch(name, owner, modules),
        )
        for start, end, name, owner, base in found
    )


def _search(
    unit: Unit, known: set[str], modules: dict[str, str], found: list[tuple[int, int, str, ir.Expr | None, int]]
) -> None:
    if "import" in unit.text or any(name in unit.text for name in known):
        for node in ir.nodes(unit.ir):
            if type(node) is ir.Attr and node.name in known:
                _, end = ir.unpack(node.at)
                end += unit.start
                found.append((end - len(node.name), end, node.name, node.value, unit.start))
            elif type(node) is ir.Name and node.id in known:
                start, end = ir.unpack(node.at)
                found.append((unit.start + start, unit.start + end, node.id, None, unit.start))
            elif type(node) is ir.Import:
                for alias in node.names:
                    modules[alias.asname or alias.name.partition(".")[0]] = alias.name
            elif type(node) is ir.ImportFrom:
                for alias in node.names:
                    modules[alias.asname or alias.name] = f"{'.' * node.level}{node.module}.{alias.name}"
    for child in unit.children:
        _search(child, known, modules, found)


def _search_keywords(unit: Unit, known: set[str], found: list[tuple[int, int, str, ir.Expr | None, int]]) -> None:
    """Keywords of calls: their names have no place in the IR, and stand before their values."""
    if any(name in unit.text for name in known):
        calls: list[Any] = [node for node in ir.nodes(unit.ir) if type(node) is ir.Call]
        for node in calls:
            for name, value in node.keywords:
                start, end = ir.unpack(node.at)[0], ir.unpack(value.at)[0]
                if name in known and (at := unit.text.rfind(name, start, end)) >= 0:
                    found.append((unit.start + at, unit.start + at + len(name), name, node.func, unit.start))
    for child in unit.children:
        _search_keywords(child, known, found)


def _is_torch(name: str, owner: ir.Expr | None, modules: dict[str, str]) -> bool:
    """Whether a word is torch's, judged by what the leftmost name of its expression was imported as."""
    if owner is None:
        return modules.get(name, "").startswith("torch")
    while type(owner) is ir.Attr:
        owner = owner.value
    origin = modules.get(owner.id) if type(owner) is ir.Name else None
    if meanings()[name].of == "keyword":
        return origin is None or origin.startswith("torch")
    if meanings()[name].of == "torch":
        return origin is not None and origin.startswith("torch")
    return origin is None or origin.startswith(("torch", "."))
