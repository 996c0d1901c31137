"""The agent alone, in other Pythons and without torch: which lines ran, what a notebook's cells are, whose a frame is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import AGENT, PYTHON, installed, linux, needs_torch, quick, said, write

from gradline.probe import callers
from gradline.probe.agent import isolate, places, sources
from gradline.probe.agent.program import cells_of


def test_lines_that_ran(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"main.py": "def f(x):\n    if x:\n        return 1\n    return 2\n\nfor _ in range(1000):\n    f(1)\n"},
    )
    out = tmp_path / "out"
    out.mkdir()
    main = str(tmp_path / "main.py")
    options = {
        "target": {"kind": "script", "path": main, "arguments": []},
        "report_dir": str(out),
        "roots": [str(tmp_path)],
        "level": "full",
        "steps": 2,
        "max_backward": 64,
        "claims": {main: [1, 3, 4, 7, 99]},
    }
    config = out / "config.json"
    config.write_text(json.dumps(options))
    done = subprocess.run(
        [PYTHON, str(AGENT / "start.py"), "run", str(config)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(next(out.glob("report-*.json")).read_text())
    assert report["executed"] == [[main, 1], [main, 3], [main, 7]]
    assert report["torch"] is None and report["stopped"] == "the program ended"


def test_the_agent_needs_nothing_but_the_standard_library() -> None:
    import ast

    for path in AGENT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                root = name.partition(".")[0]
                assert root in sys.stdlib_module_names or root in ("torch", "_gradline_probe"), f"{path.name}: {name}"


def test_cells_and_magics(tmp_path: Path) -> None:
    book = {
        "cells": [
            {"cell_type": "markdown", "source": "# text"},
            {"cell_type": "code", "source": ["%load_ext x\n", "files = !ls\n", "a = 1\n", "  # %d\n", "!ls"]},
            {"cell_type": "code", "source": "%%bash\nls"},
            {"cell_type": "code", "source": "%%time\nb = 7 % 4"},
        ]
    }
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(book))
    cells = cells_of(str(path))
    assert [number for number, _ in cells] == [1, 3]
    scope: dict = {}
    for _, text in cells:
        exec(compile(text, "cell", "exec"), scope)
    assert scope["a"] == 1 and scope["b"] == 3
    assert cells[0][1].count("\n") == 4
    assert cells_of(str(path), 1) == cells[:1]


def test_whose_a_file_is(tmp_path: Path) -> None:
    known = places.Places([str(tmp_path)])
    assert known.is_user(str(tmp_path / "a.py"))
    assert not known.is_user(str(tmp_path / "venv/lib/python3.11/site-packages/x.py"))
    assert not known.is_user(json.__file__) and not known.is_user(places.__file__) and not known.is_user("<string>")
    assert known.is_user("/somewhere/else/mine.py")


def test_projects_to_protect(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "a/b").mkdir(parents=True)
    assert isolate.project_of(str(tmp_path / "a/b/x.py")) == str(tmp_path.resolve())
    assert not isolate.protectable("/") and not isolate.protectable(str(Path.home()))
    assert isolate.outermost([str(tmp_path / "a/b"), str(tmp_path)]) == [str(tmp_path.resolve())]


def test_a_large_project_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "project").mkdir()
    for number in range(4):
        (tmp_path / f"project/{number}.txt").touch()
    monkeypatch.setattr(isolate, "COPY_FILES", 3)
    assert isolate.copy(str(tmp_path / "project"), str(tmp_path / "scratch")) is None


def test_reading_the_line_that_is_meant(tmp_path: Path) -> None:
    text = "def f(opt, m):\n    x = m()\n    x = x.backward()\n    total += x\n    ps = [*a(), *a()]\n    opt.zero_grad\n    x.detach()\n"
    write(tmp_path, {"m.py": text})
    file = str(tmp_path / "m.py")

    def at(line: int) -> places.Place:
        return places.Place(file, line, "f")

    assert sources.assigned(at(3), "x") == at(2)
    assert sources.receiver(at(3), "backward") == "x"
    assert sources.result_kept([file], "backward").line == 3
    assert sources.accumulates(at(4)) and not sources.accumulates(at(3))
    assert sources.duplicated(at(6)).line == 5
    assert sources.uncalled([file], "zero_grad").line == 6
    assert sources.discards(at(7), "detach") and not sources.discards(at(3), "detach")


def test_where_else_a_line_is_reached_from(tmp_path: Path) -> None:
    text = "class A:\n    def __init__(self):\n        self.x = 1\n\ndef f():\n    return A()\n\nf()\nif 0:\n    f()\n"
    write(tmp_path, {"m.py": text})
    file = str(tmp_path / "m.py")
    known = callers.Callers([file, str(tmp_path / "gone.py")])
    assert known.sites(file, 3) == {(file, 6), (file, 8), (file, 10)}
    assert known.sites(file, 8) == set()


@needs_torch
def test_what_compiled_code_breaks_and_compiles_again(tmp_path: Path) -> None:
    if not (installed("torch._dynamo") and installed("torch.compiler")):
        pytest.skip("this torch does not compile, or does not say when it does")
    folder = tmp_path / "program"
    write(folder, {"main.py": """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        h = self.a(x).relu()
        if h.sum() > 1e9:
            h = h * 2
        return self.b(h)
model = Net()
step = torch.compile(model, backend="eager")
opt = torch.optim.SGD(model.parameters(), 0.1)
for n in (8, 9, 10):
    opt.zero_grad()
    step(torch.ones(n, 4)).pow(2).mean().backward()
    opt.step()
"""})  # fmt: skip
    report = quick(folder, "main.py", "--keep-compile")
    assert report["exception"] is None and report["steps"] == 2 and said(report) == set(), report["findings"]
    if report["torch"].startswith(("2.0", "2.1")):
        return  # their dynamo says nothing of a jump: that the run is as it should be is all
    breaks = [(e["at"]["file"], e["at"]["line"]) for e in report["compile"]["breaks"]]
    assert breaks == [(str(folder / "main.py"), 9)]
    assert any("size mismatch" in e["reason"] for e in report["compile"]["recompiles"]), report["compile"]
    assert {row["grad"] for row in report["parameters"]} == {"ok"}


@linux
@needs_torch
def test_memory_is_that_of_each_phase(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(4, 1)
    def forward(self, x):
        torch.ones(1 << 26)  # 256 MiB, for a moment
        return self.line(x)
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    model(torch.ones(8, 4)).sum().backward()
    opt.step()
"""})  # fmt: skip
    for taken in quick(folder, "main.py")["iterations"]:
        assert taken["forward_memory"] - taken["backward_memory"] > 200 << 20, taken
        assert taken["forward_s"] > 0 and taken["backward_s"] > 0 and taken["step_s"] > 0
