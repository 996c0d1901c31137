"""On a GPU: memory, mixed precision, compiled functions, and CUDA graphs left alone. Skipped where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from running import PYTHON, probe, said, write


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    """Asked when a test runs, not when tests are collected: it imports torch."""
    code = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)"
    if subprocess.run([PYTHON, "-c", code], capture_output=True, check=False).returncode:
        pytest.skip("no GPU that torch can use here: GPU behaviour is not tested")


HEAD = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
opt = torch.optim.AdamW(model.parameters(), 1e-3)
x, y = torch.randn(32, 64, device="cuda"), torch.randn(32, 1, device="cuda")
"""


def test_memory_and_device(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    loop = "for _ in range(3):\n    opt.zero_grad()\n    (model(x) - y).pow(2).mean().backward()\n    opt.step()\n"
    write(folder, {"main.py": HEAD + loop})
    report = probe(folder, "main.py")
    assert said(report) == set() and report["cuda"] is True
    assert {row["device"] for row in report["parameters"]} == {"cuda:0"}
    assert all(entry["gpu_memory"] > 0 for entry in report["iterations"])
    hidden = probe(folder, "main.py", "--device", "cpu")
    assert hidden["exception"] is not None  # it sees no GPU


def test_mixed_precision_and_clipping_before_unscaling(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    text = """
scaler = torch.amp.GradScaler("cuda")
for _ in range(6):
    opt.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = (model(x).float() - y).pow(2).mean()
    scaler.scale(loss).backward()
    {unscale}
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
"""
    write(folder, {"main.py": HEAD + text.replace("{unscale}", "scaler.unscale_(opt)")})
    assert said(probe(folder, "main.py")) == set()
    write(folder, {"main.py": HEAD + text.replace("{unscale}", "pass")})
    assert {rule for rule, _, _ in said(probe(folder, "main.py"))} == {"clip-before-unscale"}


def test_compiled_models_run(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    text = """
step = torch.compile(model)
for _ in range(3):
    opt.zero_grad()
    (step(x) - y).pow(2).mean().backward()
    opt.step()
"""
    write(folder, {"main.py": HEAD + text})
    for more in ((), ("--keep-compile",)):
        report = probe(folder, "main.py", *more, timeout=300)
        assert said(report) == set() and report["steps"] == 2, report


def test_cuda_graphs_are_captured_and_replayed_as_without_the_probe(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    text = """
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        (model(x) - y).pow(2).mean().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
opt.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = (model(x) - y).pow(2).mean()
    loss.backward()
before = float(loss)
for _ in range(4):
    graph.replay()
    opt.step()
print("REPLAYED", float(loss) > 0)
"""
    write(folder, {"main.py": HEAD + text})
    report = probe(folder, "main.py", "--steps", "9")
    assert "REPLAYED True" in report["process"].stdout, report["process"].stderr
    assert said(report) == set(), report["findings"]
