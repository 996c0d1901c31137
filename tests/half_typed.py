"""How much of a file stays known while a line of it is half typed: what is shared by the tests and the benchmark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from gradline import ir, reading, units

PARTIAL = (
    "loss.", "x = model(", "with torch.no_grad(", "for x in ", "if loss", 'print(f"{loss', "def helper(self", '"""',
    'x = {"a": ', "loss = F.cross_entropy(out.view(-1, ", "return {", "x = [i for i in", "class Foo", "class Foo(nn.Module",
    "try:", "else:", "elif x", "except ", "@torch.no_grad(", "x = a +", "x = a + \\", "lambda x", "import ", "from torch ",
    "while ", "with ", "loss.backward(retain_graph=", 'x = "abc', "x[", "assert x, (",
)  # fmt: skip


class Function(NamedTuple):
    name: str
    start: int
    end: int
    lines: tuple[tuple[str, str], ...]  # what it does, one (nesting, instruction) each


def functions(cut: tuple[units.Unit, ...]) -> list[Function]:
    """Every def of a file, nested ones too, in the order of the text."""
    found: list[Function] = []
    for unit in cut:
        _search(unit.ir, unit.start, unit, found)
    return found


def _search(node: object, base: int, unit: units.Unit, found: list[Function]) -> None:
    if type(node) is ir.Part:
        child = unit.children[node.index]
        _search(child.ir, child.start, child, found)
    elif type(node) is ir.Def:
        start, end = ir.unpack(node.at)
        found.append(Function(node.name, base + start, base + end, tuple(_instructions(node, ""))))
        _search(node.body, base, unit, found)
    elif isinstance(node, tuple):
        for item in node:
            if isinstance(item, tuple):
                _search(item, base, unit, found)


def _instructions(node: object, nesting: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node, tuple):
        return
    if not hasattr(node, "_fields"):
        for item in node:
            yield from _instructions(item, nesting)
        return
    kind = type(node).__name__
    fields = dict(zip(node._fields, node, strict=True))
    plain = [v for name, v in fields.items() if name not in ("at", "name_at") and not isinstance(v, tuple)]
    yield nesting, f"{kind} {plain!r}"
    for name, value in fields.items():
        inner = f"{nesting}/{kind}.{name}" if name in ("body", "orelse", "handlers", "final", "cases") else nesting
        yield from _instructions(value, inner)


class Kept(NamedTuple):
    others: float  # share of the functions that the edit is not in that read exactly as before
    host: float  # share of the instructions of the innermost function that it is in that are still there


def kept(old: str, new: str, at: int, anchored: bool = True) -> Kept:
    """What of `old` is still known in `new`, which was changed at offset `at`, inside a function."""
    before = units.cut(old)
    after = units.cut(new, before if anchored else None)
    was, now = functions(before), functions(after)
    host = [f for f in was if f.start <= at <= f.end][-1]
    others = [f for f in was if not f.start <= at <= f.end]
    left = Counter((f.name, f.lines) for f in now)
    same = 0
    for function in others:
        if left[function.name, function.lines] > 0:
            left[function.name, function.lines] -= 1
            same += 1
    best = 0
    for function in now:
        if abs(function.start - host.start) <= abs(len(new) - len(old)):
            match = SequenceMatcher(None, host.lines, function.lines, autojunk=False)
            best = max(best, sum(block.size for block in match.get_matching_blocks()))
    return Kept(same / len(others) if others else 1.0, best / len(host.lines))


def typed(text: str, random: random.Random) -> tuple[str, int] | None:
    """The text with a half-typed line in one of its functions, and where. None if that made Python."""
    host = random.choice(functions(units.cut(text)))
    lines = [at for at in _line_starts(text) if host.start < at <= host.end]
    if not lines:
        return None
    at = random.choice(lines)
    rest = text[at:].lstrip(" \t\r\n")
    indent = text[text.rfind("\n", 0, len(text) - len(rest)) + 1 : len(text) - len(rest)]
    new = text[:at] + indent + random.choice(PARTIAL) + "\n" + text[at:]
    return (new, at) if reading.reading(new).broken else None


def deleted(text: str, random: random.Random) -> tuple[str, int] | None:
    """The text without one bracket, colon or quote of one of its functions, and where. None if that made Python."""
    host = random.choice(functions(units.cut(text)))
    places = [at for at in range(host.start, host.end) if text[at] in "()[]{}:'\""]
    at = random.choice(places)
    new = text[:at] + text[at + 1 :]
    return (new, at) if reading.reading(new).broken else None


def _line_starts(text: str) -> list[int]:
    return [at + 1 for at, char in enumerate(text) if char == "\n"]
