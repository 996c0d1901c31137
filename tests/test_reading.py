"""Reading: what a unit's text says, where it says it, and that no text makes it fail."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradline import ir, reading, text, units

pytestmark = [pytest.mark.filterwarnings("ignore:::<gradline>")]  # pytest takes away the filter of `reading`

TESTED = Path(__file__).parent.parent / "server"
PARTS = [
    "def f(x):\n", "class A(B):\n", "    return x\n", "if x:\n", "    else:\n", "else:\n", "x = model(", ")\n", "'''", '"""',
    "'", '"', "(", "]", "{", "\\\n", "\\", "\n", "\r", "\r\n", "\f", "\t", "    ", "@d\n", "é", "😀", "\0", "\u2028", "\ud800",
    "# c\n", "for x in y:", "try:", "except", "match x:\n", "case _:\n", 'f"{', "}", "lambda", "async ", "yield ", "0x", "1_",
]  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=40).map("".join))


def nodes(node: object) -> list[tuple]:  # type: ignore[type-arg]
    """A node and all below it that have a place."""
    if not isinstance(node, tuple):
        return []
    below = [found for item in node for found in nodes(item)]
    return [node, *below] if hasattr(node, "at") else below


def everything(cut: tuple[units.Unit, ...], source: str) -> None:
    """Read all units; each is where it says, in order, and its nodes lie in it."""
    last = 0
    for unit in cut:
        assert last <= unit.start
        assert source[unit.start : unit.end] == unit.text
        last = unit.end
    for unit in units.walk(cut):
        for node in nodes(unit.ir):
            start, end = ir.unpack(node.at)  # type: ignore[attr-defined]
            assert 0 <= start <= end <= len(unit.text)
            if type(node) is ir.Part:
                child = unit.children[node.index]
                assert (start + unit.start, end + unit.start) == (child.start, child.end)
        assert isinstance(unit.broken, bool)


@given(TEXTS)
@settings(deadline=None)
def test_no_text_is_refused(source: str) -> None:
    everything(units.cut(source), source)
    reading.read(source)


@given(TEXTS, TEXTS)
@settings(deadline=None)
def test_no_edit_is_refused(source: str, other: str) -> None:
    before = units.cut(source)
    everything(before, source)
    after = units.cut(other, before)
    everything(after, other)
    everything(units.cut(source + other, after), source + other)


@given(
    st.sampled_from([path for path in sorted(TESTED.glob("*.py")) if path.stat().st_size > 100]),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=60)
def test_no_mutated_file_is_refused(path: Path, randomly: random.Random) -> None:
    source = path.read_text(encoding="utf-8")
    before = units.cut(source)
    a, b, c = sorted(randomly.randrange(len(source)) for _ in range(3))
    for new in (
        source[:a],
        source[:a] + source[a + 1 :],
        source[:a] + source[b:],
        source[:b] + source[a:b] + source[c:],
        source[:b] + randomly.choice(PARTS) + source[b:],
        source.replace("\n", "\r"),
    ):
        everything(units.cut(new), new)
        everything(units.cut(new, before), new)


def chain(link: str, count: int = 5000) -> str:
    return "x = " + link * count + "a\n"


ABSURD = {
    "brackets": "x = " + "(" * 500 + ")" * 500,
    "open brackets": "x = " + "(" * 50_000,
    "a bracket a line": "(\n" * 20_000,
    "sum": chain("a + "),
    "shorter sum": chain("a + ", 1000),
    "not": chain("not "),
    "minus": chain("-", 100_000),
    "lambda": chain("lambda: "),
    "power": chain("2 ** "),
    "conditional": chain("a if b else "),
    "attributes": "x = a" + ".b" * 3000,
    "calls": "x = a" + "()" * 3000,
    "elif": "if a: pass\n" + "elif b: pass\n" * 1000,
    "broken elif": "if a:\n  x\n" + "elif b\n  x\n" * 1000,
    "blocks": "".join(" " * depth + "if x:\n" for depth in range(300)) + " " * 300 + "y y\n",
    "classes": "".join(" " * depth + "class A:\n" for depth in range(300)) + " " * 300 + "y y\n",
    "int": "x = " + "1" * 100_000 + "\ny = 1\n",
    "null": "x = 1\n\0\ny = 2\n",
    "surrogate": "x = '\ud800'\ny = 1\n",
    "f-strings": "x = " + 'f"{' * 50 + '}"' * 50,
    "quotes": '"\n' * 20_000,
    "triple quotes": '"""\n' * 20_001,
    "backslashes": "x = a + \\\n" * 5000,
    "generated": "def f(x):\n    y = x + 1\n    return y\n\n" * 2_500,
    "generated, broken": "def f(x):\n" + "    y = x + 1\n" * 5_000 + "    loss.\n" + "    y = x + 1\n" * 5_000,
}


@pytest.mark.parametrize("name", ABSURD)
def test_absurd_text_is_read(name: str) -> None:
    source = ABSURD[name]
    before = units.cut(source)
    for unit in units.walk(before):
        assert isinstance(unit.ir, tuple)
    half = len(source) // 2
    for unit in units.walk(units.cut(source[:half] + "(\n" + source[half:], before)):
        assert isinstance(unit.ir, tuple)


def depth(node: object) -> int:
    return 1 + max(map(depth, node), default=0) if isinstance(node, tuple) else 0


def test_chains_are_bounded() -> None:
    """What recurses over the IR must not run out of stack: longer chains are holes, the rest of the text is read."""
    limit = reading.MAX_CHAIN
    (short,) = reading.read(chain("a + ", limit))
    assert isinstance(short, ir.Assign)
    assert isinstance(short.value, ir.Bin)
    (long,) = reading.read(chain("a + ", limit + 1))
    assert isinstance(long, ir.Assign)
    assert isinstance(long.value, ir.Hole)
    assert long.value.words == ("a",)
    (branches,) = reading.read("if a: x\n" + "elif b: y\n" * 500 + "else: z\n")
    assert depth(branches) < 3 * limit


@pytest.mark.parametrize("action", ["always", "error"])
def test_no_warning_leaks(action: str) -> None:
    program = "from gradline.reading import reading; print(reading(r'''x = '\\d\\q' if 0x1for y in z else 1''').broken)"
    done = subprocess.run([sys.executable, "-W", action, "-c", program], capture_output=True, text=True, check=True)
    assert "gradline>" not in done.stderr


def test_warnings_as_errors_break_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not reading.reading("x = '\\d\\q'").broken


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", ["    ", "\t", " \t"])
def test_places_are_of_characters(newline: str, blank: str) -> None:
    """Every name and attribute stands where the IR says, beside non-ASCII and astral characters and form feeds."""
    lines = [
        "# é 😀 \u2028 \x85", "é = '😀' + x", "\fclass Ä(nn.Module):  # 😀", f"{blank}'''😀", "  é''' ; w = 1", "",
        f"{blank}def f(self, ñ='😀'): return self.ñ + '😀' + self.é",
        f"{blank}@d('é')", f"{blank}async  def g(self):", f"{blank}{blank}return [self.a, '😀', self.b]",
        f"{blank}x = ('é',", "  y.z)", "if é: w = f'{é}😀{x.y!r:{z}}'", "else: '😀'; q",
    ]  # fmt: skip
    source = newline.join(lines) + newline
    found = set()
    for unit in units.walk(units.cut(source)):
        assert not unit.broken
        for node in nodes(unit.ir):
            start, end = (unit.start + at for at in ir.unpack(node.at))  # type: ignore[attr-defined]
            if isinstance(node, (ir.Name, ir.Attr)):
                name = node.id if isinstance(node, ir.Name) else node.name
                assert source[start:end].endswith(name)
                found.add(name)
            if isinstance(node, (ir.Def, ir.Class)):
                start, end = (unit.start + at for at in ir.unpack(node.name_at))
                assert source[start:end] == node.name
                found.add(node.name)
    assert found >= {"é", "x", "Ä", "Module", "w", "f", "ñ", "g", "a", "b", "y", "z", "q", "d"}


def test_columns_in_every_encoding() -> None:
    line = "    é = '😀', loss.backward()"
    source = text.Source(f"class A:\n\t'😀'\n\ndef f():\n{line}\n")
    (unit,) = [unit for unit in units.cut(source.text) if unit.name == "f"]
    (call,) = [node for node in nodes(unit.ir) if isinstance(node, ir.Call)]
    start, end = ir.unpack(call.at)
    row, column = source.position(unit.start + start)
    assert (row, column) == (4, line.index("loss"))
    assert source.text[unit.start + start : unit.start + end] == "loss.backward()"
    assert source.to_units(row, column, "utf-8") == len(line[:column].encode())
    assert source.to_units(row, column, "utf-16") == column + 1


def unparsed(source: str) -> str:
    """The IR of a text, spans left out, to be compared."""

    def bare(node: object) -> object:
        if not isinstance(node, tuple):
            return repr(node)
        if not hasattr(node, "_fields"):
            return [bare(item) for item in node]
        named = zip(node._fields, node, strict=True)  # type: ignore[attr-defined]
        return type(node).__name__, [bare(value) for name, value in named if name not in ("at", "name_at")]

    return str(bare(reading.read(source)))


def test_equal_text_has_equal_ir_wherever_it_stands() -> None:
    assert unparsed("def f(x):\n    return x") == unparsed("    def f(x):\n        return x")
    assert unparsed("\fx = 1") == unparsed("x = 1")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a @ b ** -c", [ir.Assign, ir.Name, ir.Bin, ir.Name, ir.Bin, ir.Name, ir.Unary, ir.Name]),
        ("x: T = 1", [ir.AnnAssign, ir.Name, ir.Name, ir.Const]),
        ("f(*a, k=b, **c)", [ir.ExprStmt, ir.Call, ir.Name, ir.Star, ir.Name, ir.Name, ir.Name]),
        ("a[1:, ::2]", [ir.ExprStmt, ir.Sub, ir.Name, ir.Tuple, ir.Slice, ir.Const, ir.Slice, ir.Const]),
        ("x += (y := 1)", [ir.AugAssign, ir.Name, ir.Walrus, ir.Name, ir.Const]),
        ("del a, b", [ir.Delete, ir.Name, ir.Name]),
        ("{**a, 1: b}", [ir.ExprStmt, ir.Dict, ir.Const, ir.Name, ir.Name]),
        ("{k: v for k, v in x if y}",
         [ir.ExprStmt, ir.Comp, ir.Name, ir.Name, ir.Tuple, ir.Name, ir.Name, ir.Name, ir.Name]),
        ("lambda a, *, b=1: a", [ir.ExprStmt, ir.Lambda, ir.Param, ir.Param, ir.Const, ir.Name]),
        ("f'{a:{b}}' 'c'", [ir.ExprStmt, ir.Joined, ir.Name, ir.Name]),
        ("global a\nnonlocal b", [ir.Global, ir.Nonlocal]),
        ("from ..a import b as c, d", [ir.ImportFrom, ir.Alias, ir.Alias]),
        ("raise A from b", [ir.Raise, ir.Name, ir.Name]),
        ("assert not a, b", [ir.Assert, ir.Unary, ir.Name, ir.Name]),
        ("while a < b < c: break\nelse: continue",
         [ir.While, ir.Compare, ir.Name, ir.Name, ir.Name, ir.Break, ir.Continue]),
        ("try: a\nexcept B as c: pass\nelse: d\nfinally: e",
         [ir.Try, ir.ExprStmt, ir.Name, ir.Handler, ir.Name, ir.Pass, ir.ExprStmt, ir.Name, ir.ExprStmt, ir.Name]),
        ("async def f():\n  await a; yield b; yield",
         [ir.Def, ir.ExprStmt, ir.Await, ir.Name, ir.ExprStmt, ir.Yield, ir.Name, ir.ExprStmt, ir.Yield]),
    ],
)  # fmt: skip
def test_nodes(source: str, expected: list[type]) -> None:
    found = reading.reading(source)
    assert not found.broken
    assert [type(node) for node in nodes(found.body)] == expected


def test_match() -> None:
    (match,) = reading.read("match x:\n  case {'a': y, **rest} if z: a\n  case [b, *c] | c: d\n  case _: e\n")
    assert isinstance(match, ir.Match)
    assert [(case.binds, case.irrefutable) for case in match.cases] == [
        (("rest", "y"), False),
        (("c", "b"), True),
        ((), True),
    ]
    assert match.cases[0].guard is not None


def test_generators() -> None:
    source = "def f():\n  def g(): yield\n  h = lambda: (yield)\n  'yield'\ndef i():\n  with a: x = yield from b\n"
    defs = {node.name: node.is_generator for node in nodes(reading.read(source)) if isinstance(node, ir.Def)}
    assert defs == {"f": False, "g": True, "i": True}


def test_except_star() -> None:
    (found,) = reading.read("try: a\nexcept* B as c: d\n")
    assert isinstance(found, ir.Try)
    assert found.handlers[0].name == "c"


def test_every_node_of_this_python_is_lowered() -> None:
    kinds = {kind for kind in vars(ast).values() if isinstance(kind, type)}
    known = reading.lowered()
    obsolete = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "Interpolation", "FormattedValue"}
    for kind in kinds:
        if (
            issubclass(kind, (ast.stmt, ast.expr))
            and kind not in (ast.stmt, ast.expr)
            and kind.__name__ not in obsolete
        ):
            assert kind in known, kind


# ---------------------------------------------------------------- broken text


def shape(source: str) -> list[str]:
    """The statements of a broken text, in words: kinds, nested, with the words of holes."""

    def said(node: object) -> str:
        kind = type(node).__name__
        if isinstance(node, ir.Hole):
            return f"Hole({' '.join(node.words)})"
        if isinstance(node, ir.Assign):
            return f"Assign({ast_words(node)})"
        inner = [said(s) for name in ("body", "orelse", "handlers", "final") for s in getattr(node, name, ())]
        return f"{kind}[{', '.join(inner)}]" if inner else kind

    def ast_words(node: object) -> str:
        return " ".join(
            n.id if isinstance(n, ir.Name) else "?" for n in nodes(node) if isinstance(n, (ir.Name, ir.Hole))
        )

    found = reading.reading(source)
    assert found.broken
    return [said(statement) for statement in found.body]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x):\n  a = b\n  loss.\n  c = d\n", ["Def[Assign(a b), Hole(loss), Assign(c d)]"]),
        ("def f(x):\n  a = model(\n  c = d\n", ["Def[Hole(a model), Assign(c d)]"]),
        ("def f(x):\n  a = 'b\n  c = d\n", ["Def[Hole(a b), Assign(c d)]"]),
        ("def f(x):\n  a = 1\n  '''\n  c = d\n", ["Def[Assign(a), Hole(), Assign(c d)]"]),
        ("def f(x):\n  print(f'{a\n  c = d\n", ["Def[Hole(print f a), Assign(c d)]"]),
        ("def f(x:\n  c = d\n", ["Def[Hole(f x), Assign(c d)]"]),
        ("with torch.no_grad(\n  c = d\n", ["With[Assign(c d)]"]),
        ("if a\n  c = d\nelse:\n  e = f\n", ["If[Assign(c d), Assign(e f)]"]),
        ("if a:\n  c = d\nelse\n  e = f\n", ["If[Assign(c d), Assign(e f)]"]),
        ("if a:\n  c = d\nx.\nelse:\n  e = f\n", ["If[Assign(c d), Hole(x), Assign(e f)]"]),
        ("for a in \n  c = d\n", ["For[Assign(c d)]"]),
        ("try:\n  c = d\nx = 1", ["Try[Assign(c d)]", "Assign(x)"]),
        ("try:\n  c = d\nexcept A b:\n  e = f", ["Try[Assign(c d), Handler[Assign(e f)]]"]),
        ("class A(B:\n  c = d\n", ["Class[Assign(c d)]"]),
        ("a = f(b,\n      lr=\n      c=d)\n", ["Assign(a f b ? d)"]),
        ("a = [b,\n  c.\n  , d]\n", ["Assign(a b ? d)"]),
        ("a = b + \\\nc = d\n", ["Hole(a b)", "Assign(c d)"]),
        ("@a(\ndef f():\n  c = d\n", ["Def[Assign(c d)]"]),
        ("else:\n  c = d\n", ["Hole()", "Assign(c d)"]),
    ],
)
def test_broken_text_is_read_by_indentation(source: str, expected: list[str]) -> None:
    assert shape(source) == expected


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    reading.forget()
    monkeypatch.setattr(reading._memo, "limit", 1000)
    for number in range(1000):
        reading.read(f"x = {number}")
    assert reading.remembered() <= 300
    reading.forget()
    assert reading.remembered() == 0
