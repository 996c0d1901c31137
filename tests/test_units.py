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
pytestmark = [pytest.mark.filterwarnings("ignore:::<gradline>")]  # pytest takes away the filter of `reading`
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


# ---------------------------------------------------------------- the units of a text


def outline(source: str) -> list[object]:
    """Units as (kind, name or first line), those with children with them."""

    def of(unit: units.Unit) -> object:
        label = unit.name or unit.text.strip().splitlines()[0]
        return (unit.kind, label, [of(child) for child in unit.children]) if unit.children else (unit.kind, label)

    return [of(unit) for unit in units.cut(source)]


def test_statements_decorators_and_members() -> None:
    source = """\
# a comment
import torch

@a
@b(
    c)
class Net(nn.Module):
    '''Doc
of it'''
    x = (1,
    2)

    @property
    def f(self):
        return 1
    # of g
    class Inner: y = 1
    async  def g(self): pass

if a:
    b
elif c:
    d
else:
    e

x = {
'''
[''':
1
}
y = 1 + \\
2; z = 3
"""
    assert outline(source) == [
        ("code", "import torch"),
        (
            "class",
            "Net",
            [
                ("code", "'''Doc"),
                ("code", "x = (1,"),
                ("code", "f"),
                ("class", "Inner"),
                ("code", "g"),
            ],
        ),
        ("code", "if a:"),
        ("code", "x = {"),
        ("code", "y = 1 + \\"),
    ]
    assert difference(source) is None


def test_units_are_where_they_say_and_end_with_code() -> None:
    source = "x = 1  # one\n\n  # two\ndef f():\n    y\n    # three\n\nclass A:\n    z = 1 \n\n"
    for unit in units.walk(units.cut(source)):
        assert source[unit.start : unit.end] == unit.text
        assert unit.start == 0 or source[unit.start - 1] == "\n"
    assert [unit.text for unit in units.cut(source)] == ["x = 1", "def f():\n    y", "class A:\n    z = 1"]
    assert [unit.is_def for unit in units.cut(source)] == [False, True, False]


LINES = units.LONG + 1


def long(*clauses: str) -> str:
    """A block that is long, with `LINES` lines below each clause."""
    return "".join(f"{clause}\n" + "    x = 1\n" * LINES for clause in clauses)


@pytest.mark.parametrize(
    "clauses",
    [
        ("if a:",),
        ("if a:", "elif b:", "elif c:", "else:"),
        ("for a in b:", "else:"),
        ("async for a in b:",),
        ("while a:", "else:"),
        ("with a as b, c:",),
        ("with (\n    a as b,\n    c\n):",),
        ("try:", "except A as e:", "except:", "else:", "finally:"),
        ("if a:  # why\n\n    # a comment",),
    ],
)
def test_long_blocks_are_cut_once_more(clauses: tuple[str, ...]) -> None:
    source = long(*clauses)
    (unit,) = units.cut(source)
    assert unit.kind == "block"
    assert len(unit.children) == LINES * len(clauses)
    assert difference(source) is None


def test_blocks_in_blocks_and_defs_in_blocks() -> None:
    inner = "".join(f"    {line}\n" for line in long("if b:", "else:").splitlines())
    source = f"if a:\n    def f(): pass\n    class A:\n        def g(self): pass\n{inner}\nelse: x = 1\n"
    (unit,) = units.cut(source)
    assert [(child.kind, child.name) for child in unit.children] == [("code", "f"), ("class", "A"), ("block", "")]
    assert [child.name for child in unit.children[1].children] == ["g"]
    assert len(unit.children[2].children) == 2 * LINES
    assert difference(source) is None


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "source",
    [
        "class A:\n\tx = 1\n\n\tdef f(self):\n\t\treturn 1\n",
        "class A:\n  x = '''\n\n  y\nz'''\n  def f(self): '\\\n'; return 1\n",
        "\fclass A:\n    x = 1\n\f\n    y = 2\n\f    z = 3\n\x0cdef f(): pass\n",
        "x = 1 \\\n  + 2\\\n\ny = 3\n",
        "x = 'é'; y = \"😀\"\ndef ñ(): return é\n",
        "a = ''\nb = \"\"\nc = ''''''\nd = r'\\''\ne = '\\''\nf = '''\\'''\n'''\n",
        "def f(\na,\nb\n):\n  return (a\n+b)\n",
        "x = [\n# )\n']'\n]\ny = 1\n",
        "if a: b\nelse: c\ntry: d\nfinally: e\n",
        "class A(\n  B,  # :\n  C\n): x = 1; y = 2\n",
        "class A:\n  if a:\n    b\n  else:\n    c\n\n  with d: e\n",
        "@a\n\n# comment\n@b\ndef f(): pass\n",
        "from a \\\nimport b\nx = 1\n",
        "x = 1;\n\n   \n# end\\",
        "x = (a\nif b\nelse c)\n",
        "match = 1\nmatch[0] = 2\nelse_ = 3\ntrying = 4\n",
    ],
)
def test_the_cut_of_the_odd(source: str, newline: str) -> None:
    source = source.replace("\n", newline)
    assert whole(source) is not None
    assert difference(source) is None


def test_masked_text_keeps_its_length() -> None:
    source = 'x = \'#\'  # \'\ny = f"""(\n"""\r\nz = \'open\rw = """ open'
    masked = units.mask(source)
    assert len(masked) == len(source)
    assert masked.count("\n") == 3
    assert "(" not in masked
    assert "open" not in masked
    assert units.mask('"""\nx = 1', closed=True) == '"""\nx = 1'
