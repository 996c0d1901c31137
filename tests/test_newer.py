"""Code of newer Pythons than the one that gradline runs on: read as it is meant, or a hole where it isn't.

On a Python that knows an addition, its own parser reads it, and the same tests hold that reading to the same.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_reading import nodes, unparsed

from gradline import ir, newer, reading, units

OLDEST = (3, 10)

# What a newer Python reads, and what says the same on any
ADDED = {
    "3.15 lazy": ("lazy import a.b as c, d\nif e: f", "import a.b as c, d\nif e: f"),
    "3.15 lazy from": ("lazy   from .a import (\n  b)\nc = d(e)", "from .a import b\nc = d(e)"),
    "3.14 template": ("x = t'a{b!r:>{c}}' + d", "x = f'a{b!r:>{c}}' + d"),
    "3.14 raw template": ("x = Rt'\\{b}' rT'c'", "x = rf'\\{b}' rf'c'"),
    "3.14 except": ("try: a\nexcept B, c.D: e\nelse: f", "try: a\nexcept (B, c.D): e\nelse: f"),
    "3.14 except group": ("try: a\nexcept* B, c(D, E): f", "try: a\nexcept (B, c(D, E)): f"),
    "3.13 default": ("class A[T = (int, str)](B): x = 1", "class A(B): x = 1"),
    "3.12 function": ("def f[T: (a, b), *Ts, **P](x: T) -> T: return x", "def f(x: T) -> T: return x"),
    "3.12 lines": ("async def f[\n    T,  # one\n    U: 'b'\n](x): return x", "async def f(x): return x"),
    "3.12 class": ("@d\nclass A[T]:\n  def f[U](self): return t", "@d\nclass A:\n  def f(self): return t"),
    "3.12 quotes": ('f"{a["b"]}" + c', "f'{a[\"b\"]}' + c"),
    "3.12 more": ('g(f"{a["b"]!r:>{w["n"]}} é {c=} {d!s}", e)', 'g(f\'{a["b"]!r:>{w["n"]}}{c}{d}\', e)'),
    "3.12 one string": ("x = 'a' f'{b['c']}' r'' if d else ''", "x = f'{b[\"c\"]}' if d else ''"),
    "3.12 break": ("f'{'\\x61'.join(a)}{b}'", "f'{\"a\".join(a)}{b}'"),
    "3.12 lines in a field": ("g(f'{h(\n    a,  # }\n    b)}', c)", "g(f'{h(a, b)}', c)"),
    "3.12 string in string": ("f'{f'{f'{a}'}'}{b}'", "f'''{f'{f\"{a}\"}'}{b}'''"),
    "3.12 string in a bound": ("class A[T: f'{a['b']}'](B): x = c", "class A(B): x = c"),
    "3.12 dict": ("f'{{}}{ {'a': b}['a'] }'", 'f\'{ {"a": b}["a"] }\''),
    "3.12 type and template": ("type X = A\nx = t'{a['b']}'", None),
    "3.11 except group": ("try: a\nexcept* B as c: d", "try: a\nexcept B as c: d"),
}


@pytest.mark.parametrize("name", ADDED)
def test_what_newer_pythons_read_is_read_on_any(name: str) -> None:
    new, old = ADDED[name]
    found = reading.reading(new)
    assert not found.broken
    assert not [node for node in nodes(found.body) if isinstance(node, ir.Hole)] or "type" in name
    if old is not None:
        assert unparsed(new) == unparsed(old)


@pytest.mark.parametrize("name", ADDED)
def test_each_name_stands_where_the_text_has_it(name: str) -> None:
    source = f"é = 1\nclass Z:\n    def z(self):\n        a = '😀'\n        {ADDED[name][0].replace(chr(10), chr(10) + ' ' * 8)}\n"
    found = 0
    for unit in units.walk(units.cut(source)):
        assert not unit.broken
        for node in nodes(unit.ir):
            start, end = (unit.start + at for at in ir.unpack(node.at))  # type: ignore[attr-defined]
            if isinstance(node, ir.Name):
                assert source[start:end] == node.id
                found += 1
            elif isinstance(node, (ir.Joined, ir.Handler)):
                assert source[start] in "'\"fFrRtTe"
                assert source[end - 1] in "'\"" or isinstance(node, ir.Handler)
    assert found > 2


@pytest.mark.parametrize("name", ADDED)
def test_the_older_words_say_what_this_python_reads(name: str) -> None:
    """With every place: to be seen on a Python that reads the addition by itself."""
    source = ADDED[name][0]
    try:
        ast.parse(source)
    except SyntaxError:
        pytest.skip(f"Python {sys.version_info[0]}.{sys.version_info[1]} does not read this by itself")
    older = newer.older(source, OLDEST)
    assert older is not None
    assert reading.parsing._lowered(source, 0, older) == reading.parsing._lowered(source, 0)


@pytest.mark.skipif(sys.version_info < (3, 15), reason="what Python 3.15 reads; before, it is a hole")
def test_what_is_unpacked_in_a_comprehension_is_gone_over() -> None:
    k = reading.lowering.LETTER
    v = k * 2
    assert unparsed("x = [*f(a) for a in b if c]") == unparsed(f"x = [{k} for a in b if c for {k} in f(a)]")
    assert unparsed("{**a for a in b}") == unparsed(f"{{{k}: {v} for a in b for {k}, {v} in a.items()}}")


def test_what_only_a_later_python_reads_is_a_hole_in_its_place() -> None:
    found = reading.reading("def f():\n    a = [*b for b in c]\n    d = e\n")
    assert found.broken is (sys.version_info < (3, 15))
    assert [type(node) for node in found.body[0].body][-1] is ir.Assign  # type: ignore[attr-defined]


def test_a_type_alias_is_a_name_for_what_is_not_evaluated() -> None:
    source = "type X[T: int] = list[T]\ny = 1\n"
    alias, after = reading.read(source)
    assert isinstance(alias, ir.Assign) and isinstance(alias.value, ir.Hole) and isinstance(after, ir.Assign)
    assert [source[slice(*ir.unpack(node.at))] for node in (alias, *alias.targets, alias.value)] == [
        "type X[T: int] = list[T]",
        "X",
        "list[T]",
    ]
    assert alias.value.words == ("list", "T")


@pytest.mark.parametrize(
    "source",
    [
        "try: a\nexcept B, C as d: e",
        "try: a\nexcept B, C: e e",
        "type = ",
        "type X Y = 1",
        "def f[T(x): pass",
        "x = t'{a' + b",
        "x = f'{a['b]}'",
        "x = f'{a['b'}]'",
        "x = f'{'\n'}'",
        "x = f'{}'",
        "x = f'{a!}'",
        "x = t'{a}' b",
        "x = t'{a}' 'b'",
        "x = f'{a['b']}' b''",
    ],
)
def test_what_no_python_reads_stays_broken(source: str) -> None:
    assert reading.reading(source).broken
    assert reading.fault(source) is not None


@pytest.mark.parametrize(
    "source",
    [
        "print(type [0])\n.",
        "lazy = 1\nimport a.",
        "type[0] = x.\n",
        "type in [a]\nx.",
        "type, X = b\nx.",
        "except_ = a, b\nx.",
        "x = 'def f[T](a)'\ny.",
    ],
)
def test_what_looks_newer_and_is_not_is_left(source: str) -> None:
    assert newer.older(source, OLDEST) is None


PARTS = [
    "t'", 'f"', "rf'''", 'T"""', "'", '"', "'''", "{", "}", "{{", "!r", ":", ">", "=", ":=", "a", "[", "]", "(", ")", ",", " ", "\n",
    "\r\n", "\\", "\\N{", "# c\n", "\nexcept ", "*", " as ", "\ntype ", "X", "def f[", "class A[", "T", "\n  ", "é", "😀", "try:\n  a",
]  # fmt: skip


@given(
    st.lists(st.sampled_from(PARTS), max_size=30).map("".join), st.sampled_from([(3, 10), (3, 11), (3, 12), (3, 13)])
)
@settings(deadline=None, max_examples=400)
def test_every_text_keeps_its_length_and_its_lines(source: str, python: tuple[int, int]) -> None:
    older = newer.older(source, python)
    reading.reading(source)
    if older is not None:
        assert len(older.text) == len(source)
        assert [len(line) for line in older.text.split("\n")] == [len(line) for line in source.split("\n")]
        assert older.text != source
        assert all(0 <= at < len(source) for at in older.marks)


PROGRAM = """\
import torch
from torch import nn

type Batch = dict[str, torch.Tensor]
model = nn.Linear(3, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


class Log[T]:
    def show[K: int](self, batch: K):
        print(t"é {batch}", f"{", ".join(
            str(n) for n in batch
        )}")


def step(batch: Batch):
    opt.zero_grad()
    try:
        loss = model(batch["x"]).mean()
    except ValueError, RuntimeError:
        return
    print(t"loss {loss}", f"{batch["x"]}\\n")
    loss.detach().backward()
    opt.step()


step({"x": torch.ones(2, 3)})
"""


def check(path: Path, *arguments: str) -> tuple[str, str]:
    command = [
        sys.executable,
        "-m",
        "gradline",
        "check",
        "--no-cache",
        "--output-format",
        "concise",
        *arguments,
        path.name,
    ]
    run = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, encoding="utf-8", timeout=120)
    return run.stdout, run.stderr


def test_a_program_of_python_314_is_judged_and_mended(tmp_path: Path) -> None:
    program = tmp_path / "new.py"
    program.write_text(PROGRAM, encoding="utf-8")
    said, warned = check(program)
    line = PROGRAM.splitlines().index("    loss.detach().backward()") + 1
    assert f"new.py:{line}:5: GL102" in said
    assert not warned
    check(program, "--fix")
    assert program.read_text(encoding="utf-8") == PROGRAM.replace("loss.detach().backward()", "loss.backward()")


def test_what_cannot_be_read_is_told_with_the_python_that_cannot(tmp_path: Path) -> None:
    program = tmp_path / "new.py"
    program.write_text(PROGRAM.replace("        return\n", "        return 1 +\n"), encoding="utf-8")
    said, warned = check(program)
    assert "GL102" in said, "the statements around it are judged"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert warned.startswith(f"gradline: warning: new.py is not valid Python {python} at line 21 ")
