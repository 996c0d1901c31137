"""Everything that can be probed besides a script: modules, tests, notebooks, functions, classes."""

from __future__ import annotations

import json
from pathlib import Path

from running import needs_torch, probe, quick, write

pytestmark = needs_torch
STEP = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
opt = torch.optim.SGD(model.parameters(), 0.1)
def step(scale=1.0):
    opt.zero_grad()
    (model(torch.ones(3, 2)) * scale).pow(2).mean().backward()
    opt.step()
"""


def test_module_with_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(
        folder,
        {
            "pkg/__init__.py": "",
            "pkg/train.py": STEP
            + "import os, sys\nprint('GOT', sys.argv[1:], __name__, __package__, os.environ['A'])\nstep(); step()\n",
        },
    )
    report = probe(tmp_path, "-m", "pkg.train", "--cwd", str(folder), "--env", "A=b=c", "--", "--epochs", "1")
    assert "GOT ['--epochs', '1'] __main__ pkg b=c" in report["process"].stdout and report["steps"] == 2


def test_pytest_test(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"test_it.py": STEP + "def test_other(): assert False\ndef test_step():\n    step()\n    step()\n"})
    report = quick(folder, "test_it.py::test_step")
    assert report["steps"] == 2 and report["target"]["kind"] == "pytest"


def notebook(path: Path, cells: list[str]) -> None:
    cells_ = [{"cell_type": "code", "source": text.splitlines(True), "metadata": {}, "outputs": []} for text in cells]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells_, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


def test_notebook_names_cell_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    bad = "loss = model(torch.ones(3, 2)).mean()\nloss = loss.detach()\nloss.backward()\n"
    notebook(folder / "study.ipynb", ["%matplotlib inline\n!pip list\n" + STEP, "step()", bad, "1 / 0"])
    report = quick(folder, "study.ipynb")
    cut = next(f for f in report["findings"] if f["rule"] == "cut-graph")
    assert cut["at"]["file"].endswith("study.ipynb#cell=2") and cut["at"]["line"] == 2
    report = quick(folder, "study.ipynb", "--until", "2")
    assert report["exception"] is None and not any(f["rule"] == "cut-graph" for f in report["findings"])
    assert any(f["rule"] == "cut-graph" for f in quick(folder, "study.ipynb", "--until", "3")["findings"])


def test_function_that_steps_or_gives_a_step_or_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"work.py": STEP + """
def make_step(): return step
def make_model(): return model, (torch.ones(3, 2), torch.zeros(3, 1)), nn.functional.mse_loss
def run():
    for _ in range(5): step()
"""})  # fmt: skip
    for name in ("make_step", "make_model", "run"):
        report = quick(folder, f"work:{name}")
        assert report["steps"] == 2, (name, report["stopped"])
        assert {row["grad"] for row in report["parameters"]} == {"ok"}


def test_class_with_an_input(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"nets.py": """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.spare, self.out = nn.Embedding(9, 4), nn.Linear(4, 4), nn.Linear(4, 2)
    def forward(self, ids): return {"logits": self.out(self.embed(ids))}
def make(): return torch.zeros(2, 3, dtype=torch.long)
"""})  # fmt: skip
    for given in ("2x5:int64<9", "nets:make"):
        report = quick(folder, "nets:Net", "--input", given, "--device", "cpu")
        assert [f["rule"] for f in report["findings"]] == ["unused"]
        assert report["findings"][0]["at"]["line"] == 6 and report["findings"][0]["parameter_count"] == 2


def test_gradient_check_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"ops.py": """
import torch
class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 3 * x ** 2 * g
class Wrong(Right):
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return x ** 2 * g
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(3, 2)
    def forward(self, x): return self.line(Right.apply(x))
class Bad(Net):
    def forward(self, x): return self.line(x) * Wrong.apply(self.line.bias)
"""})  # fmt: skip
    right = quick(folder, "ops:Right", "--gradcheck", "--input", "3")["gradcheck"]
    assert right["ok"] is True and "agree" in right["words"]
    module = quick(folder, "ops:Net", "--gradcheck", "--input", "4x3")["gradcheck"]
    assert module["ok"] is True and "line.weight" in module["words"]
    bad = quick(folder, "ops:Bad", "--gradcheck", "--input", "4x3")["gradcheck"]
    assert bad["ok"] is False and "line.bias" in bad["words"]
    wrong = probe(folder, "ops:Wrong", "--gradcheck", "--input", "3")
    assert wrong["gradcheck"]["ok"] is False and wrong["process"].returncode == 1
    assert "factor 0.333" in wrong["gradcheck"]["words"]


def test_static_findings_get_their_verdicts(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(
        folder,
        {
            "main.py": STEP
            + """
def loss_of(x):
    h = model[0](x).detach()  # line 12
    return model[2](h).pow(2).mean()

def logged(x):
    return model(x).detach().mean()  # line 16

def never(x):
    return model(x).detach()  # line 19

for _ in range(3):
    opt.zero_grad()
    logged(torch.ones(3, 2))
    loss_of(torch.ones(3, 2)).backward()
    opt.step()
"""
        },
    )
    lines = (folder / "main.py").read_text().splitlines()
    findings = []
    for word in ("line 12", "line 16", "line 19"):
        row = next(number for number, line in enumerate(lines, 1) if word in line)
        place = {"location": {"row": row, "column": 5}, "end_location": {"row": row, "column": 9}}
        entry = {**place, "filename": str(folder / "main.py"), "code": "GL102", "name": "detached-loss"}
        findings.append({**entry, "severity": "error", "message": word, "cell": None, "related": [], "fix": None})
    (tmp_path / "findings.json").write_text(json.dumps(findings))
    report = probe(folder, "main.py", "--findings", str(tmp_path / "findings.json"), check=True)
    assert [v["verdict"] for v in report["verdicts"]] == ["confirmed", "refuted", "not reached"], report["verdicts"]
    assert [f["static"] for f in report["findings"] if f["rule"] == "cut-graph"] == [[0]]
    assert report["process"].returncode == 1 and all(v["id"] for v in report["verdicts"])


def test_static_findings_of_a_notebook_are_judged_by_cell(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    notebook(folder / "study.ipynb", [STEP, "loss = model(torch.ones(3, 2)).mean().item()\nloss.backward()\n"])
    report = probe(folder, "study.ipynb", check=True)
    place = str(folder / "study.ipynb#cell=1")
    assert [(v["file"], v["line"], v["verdict"]) for v in report["verdicts"]] == [(place, 2, "confirmed")], report[
        "verdicts"
    ]
