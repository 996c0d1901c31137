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


# ---------------------------------------------------------------- after an edit

FILE = '''import os


@first
def a(x):
    return (x
            + 1)


if os:
    b = 1
x = 2
c = """a text
"""


class D:
    def e(self):
        return 1

    f = 2


def g():
    pass


y = [
    1,
]
z = 3
'''
# What reaches further than the units around it.
OPENED = (
    "\n(\n",
    '\n"""\n',
    "\nx = 1 + \\\n",
    "\nif x:\n",
    "\n@second\n",
    "\nelse:\n    pass\n",
    "\nx = 'a\\\n",
    "\nclass E:\n",
    "\n)\n",
)
PIECES = (
    *OPENED,
    "\n# (\n",
    "\nx = 4\n",
    "\n\n\n",
    "()",
    "'('",
    "\\",
    '"',
    "\r\n",
    "\f",
    "    ",
    "é",
    "\nelif y:\n    pass\n",
    "[\n]",
)


def shown(cut: units.Units | None) -> list[tuple[int, str, object]] | None:
    return None if cut is None else [(unit.start, unit.text, _shown(unit.shape)) for unit in cut]


def _shown(shape: units.Shape) -> object:
    children = [(start, end, _shown(child)) for start, end, child in shape.children]
    return shape.kind, shape.name, shape.is_def, shape.regions, children


@pytest.mark.parametrize("piece", [*OPENED, "\nx = 4\n"])
def test_after_an_edit_anywhere_the_cut_is_that_of_the_whole_text(piece: str) -> None:
    """Also where what is put in reaches down to the end, or a clause comes to belong to what is above."""
    old = units.cut(FILE)
    near = 0
    for at in range(len(FILE) + 1):
        text = FILE[:at] + piece + FILE[at:]
        whole, after = units._whole(text), units._around_edit(old, text)
        near += after is not None
        assert after is None or shown(after) == shown(whole), text
        if after is not None:  # and back
            assert shown(units._around_edit(after, FILE)) in (None, shown(old)), text
    assert near > len(FILE) // 2 or piece in OPENED


@pytest.mark.parametrize(
    ("before", "edits"),
    [
        # a bracket is opened in one edit, and closed far below in the next
        ("".join(f"x{n} = {n}\n" for n in range(9)), (("x1 = 1", "x1 = (1"), ("x7 = 7", "x7 = 7)"))),
        # a clause that nothing owned gets an owner two statements above it
        ("a = 1\nb = 2\nc = 3\nd = 4\nelse:\n    e = 5\nf = 6\ng = 7\n", (("c = 3", "if c:\n    c = 3"),)),
    ],
)
def test_an_edit_that_changes_what_is_further_down(before: str, edits: tuple[tuple[str, str], ...]) -> None:
    text, cut = before, units._whole(before)
    for old, new in edits:
        text = text.replace(old, new, 1)
        after = units._around_edit(cut, text)
        assert after is None or shown(after) == shown(units._whole(text))
        cut = after or units._whole(text)


@pytest.mark.parametrize("seed", range(4))
def test_the_cut_after_random_edits(seed: int) -> None:
    dice = random.Random(seed)
    near = 0
    for path in dice.sample(corpus(), 20):
        source = path.read_bytes().decode("utf-8", "replace")[:20_000]
        cut = units._whole(source)
        for _ in range(12):
            at = dice.randrange(len(source) + 1)
            gone = dice.choice((0, 0, 0, 1, 1, 7, 90))
            put = dice.choice((*PIECES, source[at : at + 40], "word", " "))
            source = source[:at] + put + source[at + gone :]
            after, whole = units._around_edit(cut, source), units._whole(source)
            near += after is not None
            assert after is None or shown(after) == shown(whole), path
            cut = after or whole
    assert near > 30


def test_only_what_is_around_an_edit_is_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FILE.replace("z = 3\n", "") * 50
    cut = units.cut(source)
    masked: list[int] = []
    mask = units.mask
    monkeypatch.setattr(units, "mask", lambda text, closed=False: masked.append(len(text)) or mask(text, closed))
    at = source.index("return 1", len(source) // 2)
    assert shown(units.cut(source[:at] + "x = 1; " + source[at:], cut)) == shown(
        units._whole(source[:at] + "x = 1; " + source[at:])
    )
    assert masked[0] < 2 * len(FILE)
