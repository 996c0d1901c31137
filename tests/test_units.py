"""The cut: which units a text has, and that together they read as the whole file does."""

from __future__ import annotations

import os
import random
import sysconfig
from pathlib import Path

import pytest

from gradline import ir, reading, text, units

# Files of the standard library and of the installed packages to compare; GRADLINE_CORPUS=all for every one, or a
# folder for every Python file below it
SAMPLE = 150
PACKAGES = ("torch", "libcst", "_pytest", "hypothesis")


def corpus() -> list[Path]:
    wanted = os.environ.get("GRADLINE_CORPUS", "")
    if wanted and wanted != "all":
        return sorted(Path(wanted).rglob("*.py"))
    paths = sysconfig.get_paths()
    roots = [Path(paths["purelib"]) / name for name in PACKAGES]
    found = sorted(path for root in roots for path in root.rglob("*.py"))
    stdlib = Path(paths["stdlib"])
    found += sorted(path for path in stdlib.rglob("*.py") if "site-packages" not in path.parts)
    return found if wanted else random.Random(2).sample(found, min(SAMPLE, len(found)))


def absolute(node: object, base: int, unit: units.Unit | None) -> object:
    """A node as nested tuples, spans from the start of the file, each `Part` replaced by its child's statements."""
    if not isinstance(node, tuple):
        return (type(node).__name__, repr(node))
    if not hasattr(node, "_fields"):
        found: list[object] = []
        for item in node:
            if type(item) is ir.Part:
                assert unit is not None
                child = unit.children[item.index]
                assert item.at == ir.pack(child.start - unit.start, child.end - unit.start)
                found.extend(absolute(child.ir, child.start, child))  # type: ignore[arg-type]
            else:
                found.append(absolute(item, base, unit))
        return tuple(found)
    moved: list[object] = [type(node).__name__]
    for name, value in zip(node._fields, node, strict=True):  # type: ignore[attr-defined]
        if name in ("at", "name_at"):
            start, end = ir.unpack(value)
            moved.append((start + base, end + base))
        else:
            moved.append(absolute(value, base, unit))
    return tuple(moved)


def by_units(source: str) -> tuple[object, ...]:
    return tuple(node for unit in units.cut(source) for node in absolute(unit.ir, unit.start, unit))  # type: ignore[attr-defined]


def whole(source: str) -> tuple[object, ...] | None:
    """The same of the text read as one; None if it is not Python."""
    found = reading.reading(source)
    return None if found.broken else absolute(found.body, 0, None)  # type: ignore[return-value]


def difference(source: str) -> str | None:
    """What the cut reads otherwise than the whole file."""
    expected = whole(source)
    if expected is None:
        return None
    got = by_units(source)
    if got == expected:
        return None
    for one, other in zip(got, expected, strict=False):
        if one != other:
            return f"by units {str(one)[:600]}\nas one   {str(other)[:600]}"
    return f"{len(got)} statements by units, {len(expected)} as one"


@pytest.mark.parametrize("path", corpus(), ids=str)
def test_the_cut_reads_as_the_whole_file(path: Path) -> None:
    try:
        source = text.decode(path.read_bytes()).text
    except text.UndecodableError:
        pytest.skip("not text")
    assert difference(source) is None
