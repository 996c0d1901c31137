"""Edits of a text: what is outside of them stays as it was, whatever the line ends, the indentation and the comments."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradline.edits import Edit, EditingUnavailableError, FixContext, OverlapError, Tree, apply
from gradline.findings import Place
from gradline.text import Source

METHOD = '''class Net:
    scale = 2

    # the forward pass
    @staticmethod
    def forward(x):
        """Documented
    badly."""
        y = x.item()  # a number
        if y: a = 1; b = 2
        return (y + 1)

    last = True
'''


def context(text: str) -> FixContext:
    return FixContext(lambda path: Source(text, path))


def place(text: str, part: str) -> Place:
    return Place("main.py", text.index(part), text.index(part) + len(part))


def tree(text: str, part: str) -> Tree:
    found = context(text).tree(place(text, part))
    assert found is not None
    return found


@given(
    st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5), st.text(max_size=3)), max_size=4)
)
def test_apply_is_what_replacing_from_the_end_gives(text: str, wanted: list[tuple[int, int, str]]) -> None:
    edits = [Edit("p", start, start + length, content) for start, length, content in sorted(wanted)]
    disjoint = all(a.end <= b.start for a, b in itertools.pairwise(edits))
    if not disjoint or any(edit.end > len(text) for edit in edits):
        with pytest.raises(OverlapError):
            apply(text, edits)
        return
    expected = text
    for edit in reversed(edits):
        expected = expected[: edit.start] + edit.content + expected[edit.end :]
    assert apply(text, reversed(edits)) == apply(text, edits)
    if len({edit.start for edit in edits}) == len(edits):
        assert apply(text, edits) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("blank", ["    ", "\t"])
def test_every_node_stands_where_its_code_is(newline: str, blank: str) -> None:
    text = METHOD.replace("    ", blank).replace("x", "é").replace("Documented", "𝛁").replace("\n", newline)
    found = tree(text, "return")
    for node in found.nodes(found.cst.Name):
        assert found.code(node) == node.value
    call = found.exactly(place(text, "é.item()"), found.cst.Call)
    assert call is not None
    edited = apply(text, found.unwrap(call, call.func.value))
    assert edited == text.replace(".item()", "")


def test_units_are_the_smallest_that_hold_the_place() -> None:
    assert context(METHOD).unit(place(METHOD, "x.item()")).text.startswith("    @staticmethod")
    assert context(METHOD).scope(place(METHOD, "x.item()")).text.endswith("return (y + 1)")
    assert context(METHOD).scope(place(METHOD, "scale = 2")).text == METHOD
    owner = context(METHOD).class_tree(place(METHOD, "y + 1"))
    assert owner is not None and owner.unit.text.startswith("class Net")
    assert context(METHOD).class_tree(Place("main.py", len(METHOD), len(METHOD))) is None


def test_text_that_is_no_python_has_no_tree() -> None:
    text = "def f(x):\n    y = x.item(\n\n\ndef g(x):\n    return x\n"
    assert context(text).tree(place(text, "x.item(")) is None
    assert context(text).tree(place(text, "return x")) is not None


def _first(found: Tree, kind: str) -> Any:
    return next(found.nodes(getattr(found.cst, kind)))


@pytest.mark.parametrize(
    ("before", "edit", "after"),
    [
        ("a = 1\nb = 2  # gone\n", lambda t: t.delete(list(t.nodes(t.cst.Assign))[1]), "a = 1\n"),
        ("a = 1; b = 2\n", lambda t: t.delete(_first(t, "Assign")), "b = 2\n"),
        ("a = 1; b = 2\n", lambda t: t.delete(list(t.nodes(t.cst.Assign))[1]), "a = 1\n"),
        ("if a:\n    b = 2\nc\n", lambda t: t.delete(_first(t, "Assign")), "if a:\n    pass\nc\n"),
        ("if a: b = 2\n", lambda t: t.delete(_first(t, "Assign")), "if a: pass\n"),
        ("a\n\nb = 2\n\nc\n", lambda t: t.delete(_first(t, "Assign")), "a\n\nc\n"),
        ("# why\nb = 2\nc\n", lambda t: t.delete(_first(t, "Assign")), "# why\nc\n"),
        ("a\nb = 2", lambda t: t.insert_after(_first(t, "Assign"), "c"), "a\nb = 2"),
        ("for a in b:\n\tc\n", lambda t: t.insert_before(t.statement(_first(t, "Expr")), "d"), "for a in b:\n\td\n\tc\n"),
        ("@a\ndef f():\n    pass\n", lambda t: t.insert_decorator(_first(t, "FunctionDef"), "@b"), "@a\n@b\ndef f():\n    pass\n"),
    ],
)  # fmt: skip
def test_statements_are_deleted_and_put_in(before: str, edit: Callable[[Tree], Edit], after: str) -> None:
    found = context(before).file_tree("main.py")
    assert found is not None
    if before.endswith("2"):
        after += "\nc"
    assert apply(before, [edit(found)]) == after


def test_wrapping_leaves_strings_and_blank_lines() -> None:
    text = "a = '''one\ntwo'''\n\n# note\nb = (1,\n  2)\nc\n"
    found = context(text).file_tree("main.py")
    assert found is not None
    first, second, _ = found.module.body
    assert apply(text, found.wrap(first, second, "with x:")) == (
        "with x:\n    a = '''one\ntwo'''\n\n    # note\n    b = (1,\n      2)\nc\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("with a:  # why\n    b\n\n    c\nd\n", "# why\nb\n\nc\nd\n"),
        ("with a, b as c:\n    d\n", "with b as c:\n    d\n"),
        ("with x, a:\n    d\n", "with x:\n    d\n"),
        ("with a: b\n", "b\n"),
        ("if x:\n    with a:\n        b = '''\n    c'''\n", "if x:\n    b = '''\n    c'''\n"),
    ],
)
def test_a_with_is_taken_away(before: str, after: str) -> None:
    found = context(before).file_tree("main.py")
    assert found is not None
    block: Any = _first(found, "With")
    item = next(item for item in block.items if found.code(item.item) == "a")
    assert apply(before, found.unwrap_with(block, item)) == after


def test_without_libcst_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def refuse(name: str, *rest: Any) -> Any:
        raise ImportError("no module named libcst")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(EditingUnavailableError, match="libcst"):
        context("a = 1\n").file_tree("main.py")


def test_reading_edits_does_not_load_libcst() -> None:
    import subprocess
    import sys

    code = "import sys, gradline.edits, gradline.rule; gradline.rule.rules(); sys.exit('libcst' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
