"""Launchers and ranks: the probe runs in every process of the user's own command, and says where they differ."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from running import AGENT, PYTHON, command, needs, needs_torch, probe, said, same_interpreter, write

pytestmark = needs_torch
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


def test_unused_parameters_that_stop_the_wrapper_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": DDP.replace(", find_unused_parameters=True", "")})
    report = launch(folder, "main.py")
    assert ("ddp-unused-parameters", "main.py", 10) in said(report), report["findings"]


APART = """
import os
import torch
from torch import nn
rank = int(os.environ["SLURM_PROCID"])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x):
        if rank:
            with torch.no_grad():
                h = x * 2
            return self.b(h)
        return self.b(self.a(x))
torch.manual_seed(0)
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    model(torch.ones(2, 4)).pow(2).mean().backward()
    opt.step()
"""
SRUN = """#!/bin/bash
# what srun does to the environment of each of two tasks
shift 2
for task in 0 1; do SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_NTASKS=2 "$@" & done
wait
"""


def test_make_a_script_and_srun_and_what_differs_between_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {
        "main.py": APART,
        "Makefile": "train:\n\t./run.sh\n",
        "run.sh": f"#!/bin/bash\nset -e\ncd $(dirname $0)\n./srun -n 2 {PYTHON} main.py --epochs 1\n",
        "srun": SRUN,
    })  # fmt: skip
    for name in ("run.sh", "srun"):
        (folder / name).chmod(0o755)
    report = probe(folder, "--wrap", "--", "make", "train", timeout=200)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert {d["kind"] for d in report["differences"]} == {"gradients", "modules", "grad mode", "norms"}
    switch = next(d for d in report["differences"] if d["kind"] == "grad mode")
    assert (switch["at"]["line"], switch["ranks"]) == (11, [1])
    modules = next(d for d in report["differences"] if d["kind"] == "modules")
    assert modules["modules"] == ["Net.a"] and "rank 0 alone" in modules["message"]


def test_a_launcher_whose_program_fails_before_it_trains_is_explained(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": "import torch\nx = torch.ones(2)\nx.item().backward()\n"})
    report = probe(folder, "--wrap", "--", "sh", "-c", f"{PYTHON} main.py")
    assert report["exception"]["at"]["line"] == 3 and report["exit_status"] == 1


def test_the_deepspeed_launcher(tmp_path: Path) -> None:
    needs("deepspeed")
    folder = tmp_path / "program"
    write(folder, {"main.py": DDP})
    words = [str(Path(PYTHON).parent / "deepspeed"), "--num_gpus", "2", "--no_local_rank", "main.py"]
    report = probe(folder, "--env", "DS_ACCELERATOR=cpu", "--wrap", "--", *words, timeout=200)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1], report["process"].stderr[-2000:]
    assert next(f for f in report["findings"] if f["rule"] == "unused")["ranks"] == [0, 1]


def test_the_accelerate_launcher(tmp_path: Path) -> None:
    """On the CPU it starts one process, unless there is MPI."""
    needs("accelerate")
    folder = tmp_path / "program"
    write(folder, {"main.py": """
import torch
from accelerate import Accelerator
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 1)
    def forward(self, x): return self.b(self.a(x).data)
model = Net()
opt = torch.optim.SGD(model.parameters(), 0.1)
accelerator = Accelerator()
model, opt = accelerator.prepare(model, opt)
for _ in range(3):
    opt.zero_grad()
    accelerator.backward(model(torch.ones(2, 4)).pow(2).mean())
    opt.step()
"""})  # fmt: skip
    words = [str(Path(PYTHON).parent / "accelerate"), "launch", "--cpu", "--num_processes", "1", "--num_machines", "1",
             "--mixed_precision", "no", "--dynamo_backend", "no", "main.py"]  # fmt: skip
    report = probe(folder, "--wrap", "--", *words, timeout=200)
    assert said(report) == {("cut-graph", "main.py", 8)}, report["findings"]


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
    report = launch(folder, "main.py")
    if report["exception"] is not None:
        plain = [PYTHON, *LAUNCHER, "main.py"]
        done = subprocess.run(plain, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert "STEPPED" not in done.stdout, report["exception"]
        pytest.skip(f"FSDP2 does not run on the CPU with this torch: {report['exception']['message'][:80]}")
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


RAISES = """
import builtins, sys
import torch
class Late:
    def __del__(self): pass  # runs when the modules have gone
builtins.late = sys.late = Late()
def never(w): (w * 2).sum().detach().backward()  # found before the run, and not reached by it
(torch.ones(1, requires_grad=True) * 2).sum().detach().backward()
"""


@same_interpreter
def test_what_a_program_says_when_it_raises_is_its_own(tmp_path: Path) -> None:
    """Also below a launcher, where Python itself prints the traceback: no frame of the probe, nothing about its end."""
    write(tmp_path / "program", {"main.py": RAISES})
    words = command("--quiet", "--json", str(tmp_path / "r.json"), "--wrap", "--", PYTHON, "main.py")
    output = subprocess.run(words, cwd=tmp_path / "program", capture_output=True, text=True, check=False).stderr
    assert "RuntimeError: element 0 of tensors does not require grad" in output
    assert str(AGENT) not in output and "Exception ignored" not in output, output
