"""Notebooks: one program of the cells, IPython masked, places and edits mapped back."""

from __future__ import annotations

import json

import pytest

from gradline import notebooks, reading, units


def notebook(*cells: object, indent: int | None = 1, **more: object) -> str:
    """The JSON of a notebook: text is a code cell, a dict any cell."""
    made = [
        cell
        if isinstance(cell, dict)
        else {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": cell}
        for cell in cells
    ]
    content = {"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


def test_code_cells_are_joined() -> None:
    text = {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "loss.backward()"]}
    made = notebooks.read(notebook(["import torch\n", "x = 1"], text, "y = x\n", []))
    assert made.program == "import torch\nx = 1\ny = x\n\n"
    assert [cell.index for cell in made.cells] == [0, 2, 3]


def test_a_cell_without_text_hides_no_other() -> None:
    null, none = {"cell_type": "code", "metadata": {}, "outputs": [], "source": None}, {"cell_type": "code"}
    raw = notebook("import torch", null, none, "x = 1")
    made = notebooks.read(raw)
    assert made.program == "import torch\nx = 1"
    assert [cell.index for cell in made.cells] == [0, 3]
    start = made.program.index("1")
    assert json.loads(made.edited([(start, start + 1, "2")]))["cells"][3]["source"] == "x = 2"
    assert made.edited([]) == raw


@pytest.mark.parametrize(
    ("cell", "masked"),
    [
        ("%matplotlib inline", "_#atplotlib inline"),
        ("!pip install torch\nimport torch", "_#ip install torch\nimport torch"),
        ("!ls \\\n  -l \\\n  -a\nx = 1", "_#s \\\n# -l \\\n# -a\nx = 1"),
        ("files = !ls", "files = _#s"),
        ("a.b = %magic x", "a.b = _#agic x"),
        ("?help", "_#elp"),
        ("torch.nn?", "_#rch.nn?"),
        ("x??", "_#?"),
        ("!", "_"),
        ("if x:\n    !ls\n    %cd ..\ny = 1", "if x:\n    _#s\n    _#d ..\ny = 1"),
        ("%time y = model(x)", "_;    y = model(x)"),
        ("%time", "_#ime"),
        ("%time for x in y: pass", "_#ime for x in y: pass"),
        ("%%time\ny = f(x)", "#%time\ny = f(x)"),
        ("\n%%bash\ndon't\nls (", "\n#%bash\n#on't\n#s ("),
        ("%%writefile a.py\nimport torch\n\nx", "#%writefile a.py\n#mport torch\n\n#"),
        ("%%unheard\nx", "#%unheard\n#"),
        ("x = (a\n% b)\ns = '''\n!no\n%no\n'''\n!yes", "x = (a\n% b)\ns = '''\n!no\n%no\n'''\n_#es"),
        ("x = a \\\n% b", "x = a \\\n% b"),
        ("x = y  # !ls\nx == 1\nx != 2\nx %= 3", "x = y  # !ls\nx == 1\nx != 2\nx %= 3"),
        ('s = "= !x"\nt = "what?"', 's = "= !x"\nt = "what?"'),
        ('!echo "it\'s"\nx = 1', '_#cho "it\'s"\nx = 1'),
        ("f(x, y=!z)", "f(x, y=!z)"),
        ("!ls\r\nx = 1\r\n", "_#s\r\nx = 1\r\n"),
    ],
)
def test_ipython_is_masked(cell: str, masked: str) -> None:
    assert notebooks.mask(cell) == masked
    assert len(masked) == len(cell)
    if "!z" not in cell:
        assert not reading.reading(masked).broken


def test_places_map_both_ways() -> None:
    made = notebooks.read(notebook("# 😀\nx = 1", {"cell_type": "raw", "metadata": {}, "source": "z"}, "%pwd\nyy = 2"))
    at = made.program.index("yy")
    assert made.position(at) == (2, 1, 0)
    assert made.offset(2, 1, 0) == at
    assert made.position(made.program.index("1")) == (0, 1, 4)
    for offset in range(len(made.program) + 1):
        assert made.offset(*made.position(offset)) == offset
    with pytest.raises(KeyError):
        made.offset(1, 0, 0)
    assert made.source("a.ipynb").cells is made


@pytest.mark.parametrize("indent", [None, 1, 2, 4])
@pytest.mark.parametrize("source", ["a = 1\nb = é\n", ["a = 1\n", "b = é\n"], ["a = 1\n", "b = é"]])
def test_an_edit_rewrites_its_cell_only(source: object, indent: int | None) -> None:
    raw = notebook("%pwd\n", source, "c = 'é'", indent=indent)
    made = notebooks.read(raw)
    at = made.program.index("b = ")
    new = made.edited([(at + 4, at + 5, '"x"\nd = 2')])
    inner = "".join(source).replace("é", '"x"\nd = 2')  # type: ignore[arg-type]
    expected = inner.splitlines(True) if isinstance(source, list) else inner
    assert new == notebook("%pwd\n", expected, "c = 'é'", indent=indent)
    assert made.edited([]) == raw
    assert notebooks.read(new).program == made.program.replace("é", '"x"\nd = 2', 1)


def test_edits_of_masked_text_and_of_empty_cells() -> None:
    raw = notebook(["%pwd\n", "x = 1"], [])
    made = notebooks.read(raw)
    at = made.cells[1].start
    assert made.edited([(at, at, "y = 1"), (5, 6, "z")]) == notebook(["%pwd\n", "z = 1"], ["y = 1"])


def test_escapes_stay() -> None:
    raw = notebook(["x = 'é'\n", "y"]).replace("é", "\\u00e9")
    made = notebooks.read(raw)
    at = made.program.index("y")
    assert made.edited([(at, at + 1, "z")]) == raw.replace('"y"', '"z"')


def test_wrong_edits() -> None:
    made = notebooks.read(notebook("ab", "cd"))
    with pytest.raises(ValueError, match="end of a cell"):
        made.edited([(1, 4, "")])
    with pytest.raises(ValueError, match="overlap"):
        made.edited([(0, 2, ""), (1, 2, "")])


def test_another_language_is_no_program() -> None:
    raw = notebook("x <- 1", metadata={"kernelspec": {"language": "R", "name": "ir", "display_name": "R"}})
    assert notebooks.read(raw).cells == ()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("", "not JSON"),
        ('{"cells": [', r"not JSON: .* \(line 1, column"),
        ("[]", "the notebook is no JSON object"),
        ("{}", "`nbformat` and `cells` are missing"),
        ('{"cells": [], "nbformat": "4"}', "`nbformat` is no number"),
        ('{"cells": {}, "nbformat": 4}', "`cells` is no list"),
        ('{"cells": [1], "nbformat": 4}', "cell 0 is no JSON object"),
        ('{"cells": [{"cell_type": "code", "source": 1}], "nbformat": 4}', "cell 0: `source` is neither"),
        ('{"cells": [{"cell_type": "code", "source": [1]}], "nbformat": 4}', "cell 0: `source` is neither"),
        ('{"cells": [], "nbformat": 3, "worksheets": []}', "nbformat 3 is not read"),
        ("[" * 100_000, "nested too deep|not JSON"),
        ('{"cells": [], "nbformat": ' + "4" * 5000 + "}", "digits"),
    ],
)
def test_what_is_no_notebook_says_why(raw: str, message: str) -> None:
    with pytest.raises(notebooks.NotebookError, match=message):
        notebooks.read(raw)


def test_absurd_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebooks, "MAX_CHARACTERS", 10)
    with pytest.raises(notebooks.NotebookError, match="at most 10"):
        notebooks.read(notebook("x"))


def test_a_broken_cell_leaves_the_others() -> None:
    made = notebooks.read(notebook("def f():\n    return 1", "x = foo(", "def g():\n    return 2"))
    assert [unit.name for unit in units.cut(made.program) if unit.is_def] == ["f", "g"]
