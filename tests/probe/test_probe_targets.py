"""Everything that can be probed besides a script: modules, tests, notebooks, functions, classes, launchers, loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from running import PYTHON, needs_torch, probe, said, same_interpreter, write

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
            "pkg/train.py": STEP + "import sys\nprint('GOT', sys.argv[1:], __name__, __package__)\nstep(); step()\n",
        },
    )
    report = probe(folder, "-m", "pkg.train", "--", "--epochs", "1")
    assert "GOT ['--epochs', '1'] __main__ pkg" in report["process"].stdout and report["steps"] == 2


def test_pytest_test(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"test_it.py": STEP + "def test_other(): assert False\ndef test_step():\n    step()\n    step()\n"})
    report = probe(folder, "test_it.py::test_step")
    assert report["steps"] == 2 and report["target"]["kind"] == "pytest"


def notebook(path: Path, cells: list[str]) -> None:
    cells_ = [{"cell_type": "code", "source": text.splitlines(True), "metadata": {}, "outputs": []} for text in cells]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells_, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")


def test_notebook_names_cell_and_line(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    bad = "loss = model(torch.ones(3, 2)).mean()\nloss = loss.detach()\nloss.backward()\n"
    notebook(folder / "study.ipynb", ["%matplotlib inline\n!pip list\n" + STEP, "step()", bad, "1 / 0"])
    report = probe(folder, "study.ipynb")
    cut = next(f for f in report["findings"] if f["rule"] == "cut-graph")
    assert cut["at"]["file"].endswith("study.ipynb#cell=2") and cut["at"]["line"] == 2
    assert probe(folder, "study.ipynb", "--until", "1")["exception"] is None


def test_function_that_steps_or_gives_a_step_or_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"work.py": STEP + """
def make_step(): return step
def make_model(): return model, (torch.ones(3, 2), torch.zeros(3, 1)), nn.functional.mse_loss
def run():
    for _ in range(5): step()
"""})  # fmt: skip
    for name in ("make_step", "make_model", "run"):
        report = probe(folder, f"work:{name}")
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
        report = probe(folder, "nets:Net", "--input", given, "--device", "cpu")
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
"""})  # fmt: skip
    right = probe(folder, "ops:Right", "--gradcheck", "--input", "3")
    assert right["gradcheck"]["ok"] is True and right["process"].returncode == 0
    wrong = probe(folder, "ops:Wrong", "--gradcheck", "--input", "3")
    assert wrong["gradcheck"]["ok"] is False and wrong["process"].returncode == 1
    assert "factor 0.333" in wrong["gradcheck"]["words"]


DDP = """
import os, sys
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank = dist.get_rank()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(4, 1), nn.Linear(4, 1)
    def forward(self, x): return self.used(x)
torch.manual_seed(0)
model = DDP(Net(), find_unused_parameters=True)
forward = model.module if "past" in sys.argv else model
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    forward(torch.full((2, 4), 1.0 + rank)).pow(2).mean().backward()
    opt.step()
"""


LAUNCHER = [
    "-m",
    "torch.distributed.run",
    "--nproc_per_node",
    "2",
    "--rdzv_backend",
    "c10d",
    "--rdzv_endpoint",
    "localhost:0",
]


def launch(folder: Path, *words: str) -> dict:
    return probe(folder, "--wrap", "--", PYTHON, *LAUNCHER, *words, timeout=200)


def test_every_rank_of_a_launcher_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": DDP})
    report = launch(folder, "main.py")
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1] and report["differences"] == []
    unused = next(f for f in report["findings"] if f["rule"] == "unused")
    assert unused["ranks"] == [0, 1] and unused["at"]["line"] == 10


def test_a_forward_past_the_wrapper_is_seen_in_the_norms(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": DDP})
    report = launch(folder, "main.py", "past")
    assert ("ddp-bypassed", "main.py", 14) in said(report)
    assert [d["kind"] for d in report["differences"]] == ["norms"]


FSDP = """
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
fully_shard(model)
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    model(torch.ones(2, 4) * (1 + dist.get_rank())).pow(2).mean().backward()
    opt.step()
print("STEPPED")
"""


def test_sharded_parameters(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": FSDP})
    base = [PYTHON, *LAUNCHER, "main.py"]
    plain = subprocess.run(base, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if "STEPPED" not in plain.stdout:
        pytest.skip("FSDP2 does not run on the CPU with this torch")
    report = launch(folder, "main.py")
    assert len(report["ranks"]) == 2 and report["differences"] == [], report["differences"]
    assert said(report) == set(), report["findings"]
    assert report["parameters"] and all(
        row["sharded"] and row["grad"] in ("ok", "zero", "empty") for row in report["parameters"]
    )


def test_spawned_processes_are_ranks_too(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": """
import os
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
def work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/sync", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        opt.zero_grad()
        model(torch.ones(1, 2)).detach().requires_grad_().sum().backward()
        opt.step()
if __name__ == "__main__":
    import tempfile
    mp.spawn(work, (tempfile.mkdtemp(),), nprocs=2)
"""})  # fmt: skip
    report = probe(folder, "main.py")
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert any(rule == "cut-graph" and line == 10 for rule, _, line in said(report)), report["findings"]


@same_interpreter
def test_watch_in_a_loop(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": "from gradline import watch\n" + STEP + """
before = torch._C._set_grad_enabled, torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.save
with watch(model, opt, show=False) as seen:
    step()
    step()
after = torch._C._set_grad_enabled, torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.save
assert before == after
assert torch.overrides._get_current_function_mode_stack() == [] if hasattr(torch.overrides, "_get_current_function_mode_stack") else True
assert seen.report["steps"] == 2 and seen.report["findings"] == [], seen.report["findings"]
try:
    with watch(model, show=True) as seen:
        model(torch.ones(1, 2)).sum().detach().backward()
except RuntimeError:
    pass
assert [f["rule"] for f in seen.report["findings"]] == ["cut-graph"], seen.report["findings"]
step()
"""})  # fmt: skip
    done = subprocess.run([sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cut-graph" in done.stderr


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
