"""The probe changes nothing: numbers, files, processes; and its stop cannot be caught."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import PYTHON, command, needs_torch, probe, write

pytestmark = needs_torch
NUMBERS = """
import hashlib, json, random, sys
import torch
from torch import nn
torch.manual_seed(3)
random.seed(3)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
opt = torch.optim.AdamW(model.parameters(), 1e-2)
sched = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)
losses = []
for _ in range(3):
    x = torch.randn(12, 6)
    opt.zero_grad()
    loss = (model(x) * torch.rand(12, 2)).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    opt.step()
    sched.step()
    losses.append(loss.item())
state = hashlib.sha256()
for value in [*model.state_dict().values(), torch.get_rng_state(), *(p.grad for p in model.parameters())]:
    state.update(value.numpy().tobytes())
print("NUMBERS", json.dumps([losses, state.hexdigest(), random.random()]))
"""


def numbers(text: str) -> list:
    return json.loads(next(line for line in text.splitlines() if line.startswith("NUMBERS")).partition(" ")[2])


@pytest.mark.parametrize("level", ["full", "light"])
def test_losses_weights_and_random_states_are_the_same_to_the_bit(tmp_path: Path, level: str) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": NUMBERS})
    plain = subprocess.run([PYTHON, "main.py"], cwd=folder, capture_output=True, text=True, check=True)
    report = probe(folder, "main.py", "--steps", "9", "--level", level)  # more than there are: it runs to its end
    assert report["steps"] == 3
    assert numbers(report["process"].stdout) == numbers(plain.stdout)


TRAIN = """
import torch
from torch import nn
model = nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
def step():
    opt.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
"""


def test_files_stay_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {
        "pyproject.toml": "",
        "kept.txt": "kept",
        "main.py": TRAIN + """
import os
torch.save(model.state_dict(), "weights.pt")
open("kept.txt", "w").write("changed")
os.makedirs("runs/a")
os.remove("gone.txt")
print(open("kept.txt").read(), os.path.exists("weights.pt"))
step(); step()
""",
        "gone.txt": "still here",
    })  # fmt: skip
    before = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    report = probe(folder, "main.py")
    assert "changed True" in report["process"].stdout
    if report["isolation"]["kind"] not in ("overlay", "copy"):
        pytest.skip(f"no isolation here: {report['isolation']['why']}")
    after = {
        p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and "__pycache__" not in str(p)
    }
    assert after == before and not (folder / "runs").exists()
    if report["isolation"]["kind"] == "overlay":
        kept = {Path(entry["path"]).name: entry["event"] for entry in report["isolation"]["kept_out"]}
        assert kept == {"weights.pt": "made", "kept.txt": "changed", "gone.txt": "removed"}


def test_a_scratch_copy_keeps_files_too(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(
        folder,
        {"main.py": TRAIN + "open('new.txt', 'w').write('x')\nstep()\nmodel(torch.ones(1, 2)).detach().backward()\n"},
    )
    report = probe(folder, "main.py", "--isolation", "copy")
    assert report["isolation"]["kind"] == "copy" and not (folder / "new.txt").exists()
    assert report["exception"]["at"]["file"] == str(folder / "main.py")  # places are the user's, not the copy's


def test_allowed_writes_are_written_and_reported(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": TRAIN + "open('new.txt', 'w').write('x')\ntorch.save(1, 'a.pt')\nstep(); step()\n"})
    report = probe(folder, "main.py", "--allow-writes")
    assert (folder / "new.txt").exists()
    assert {Path(entry["path"]).name for entry in report["writes"]} >= {"new.txt", "a.pt"}


def test_nothing_can_swallow_the_stop_and_nothing_runs_after_it(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    out = tmp_path / "acted"
    write(folder, {"main.py": TRAIN + f"""
import atexit
def act(): open({str(out)!r}, "a").write("acted")
atexit.register(act)
try:
    while True:
        try:
            step()
        except:
            act()
finally:
    act()
"""})  # fmt: skip
    report = probe(folder, "main.py")
    assert report["stopped"] == "2 optimizer steps" and not out.exists()


def alive(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and marker.encode() in Path(f"/proc/{name}/cmdline").read_bytes():
                found.append(int(name))
        except OSError:
            continue
    return found


CHILDREN = (
    TRAIN
    + """
import subprocess, sys, time
code = "import time; time.sleep(600)  # {marker}"
subprocess.Popen([sys.executable, "-c", code])
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
"""
)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_the_time_limit_ends_the_whole_tree_and_leaves_a_report(tmp_path: Path) -> None:
    folder, marker = tmp_path / "program", f"gradline-test-{os.getpid()}-limit"
    write(folder, {"main.py": CHILDREN.replace("{marker}", marker) + "step()\ntime.sleep(600)\n"})
    report = probe(folder, "main.py", "--timeout", "12")
    assert "time limit" in report["stopped"] and report["steps"] == 1
    assert alive(marker) == []


@linux
@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_cancel_and_a_killed_caller_end_the_whole_tree(tmp_path: Path, how: str) -> None:
    folder, marker = tmp_path / "program", f"gradline-test-{os.getpid()}-{how}"
    ready, out = tmp_path / "ready", tmp_path / "out.json"
    write(
        folder,
        {
            "main.py": CHILDREN.replace("{marker}", marker)
            + f"step()\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)\n"
        },
    )
    words = command("main.py", "--python", PYTHON, "--no-check", "--quiet", "--json", str(out))
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL)
    until = time.time() + 60
    while not ready.exists() and time.time() < until:
        time.sleep(0.1)
    assert ready.exists() and len(alive(marker)) >= 2
    process.send_signal(signal.SIGTERM if how == "cancel" else signal.SIGKILL)
    process.wait(30)
    until = time.time() + 15
    while alive(marker) and time.time() < until:
        time.sleep(0.1)
    assert alive(marker) == []
    if how == "cancel":
        assert "cancelled" in json.loads(out.read_text())["stopped"]


@linux
def test_a_killed_supervisor_takes_the_program_with_it(tmp_path: Path) -> None:
    folder, marker = tmp_path / "program", f"gradline-test-{os.getpid()}-guard"
    ready, out = tmp_path / "ready", tmp_path / "out.json"
    write(
        folder,
        {
            "main.py": CHILDREN.replace("{marker}", marker)
            + f"step()\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)\n"
        },
    )
    words = command("main.py", "--python", PYTHON, "--no-check", "--quiet", "--json", str(out))
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL)
    until = time.time() + 60
    while not ready.exists() and time.time() < until:
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in children:
        if b"supervise" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    process.wait(30)
    until = time.time() + 15
    while alive(marker) and time.time() < until:
        time.sleep(0.1)
    assert alive(marker) == []
    assert "supervisor ended without a result" in json.loads(out.read_text())["stopped"]


def test_data_loader_workers_are_gone_and_observed_by_nobody(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": TRAIN + """
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(64, 2)), batch_size=4, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for (x,) in loader:
            opt.zero_grad(); model(x).sum().backward(); opt.step()
"""})  # fmt: skip
    report = probe(folder, "main.py")
    assert report["steps"] == 2 and len(report["processes"]) == 1


def test_output_and_exit_status_pass_through_and_a_failure_is_explained(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": "import sys\nprint('to stdout'); print('to stderr', file=sys.stderr)\n" + TRAIN + """
loss = model(torch.ones(1, 2)).sum().item()
loss.backward()
"""})  # fmt: skip
    report = probe(folder, "main.py", "--", "--epochs", "1")
    done = report["process"]
    assert "to stdout" in done.stdout and "to stderr" in done.stderr
    assert "AttributeError: 'float' object has no attribute 'backward'" in done.stderr
    assert "probe/agent" not in done.stderr  # the traceback is the program's own
    assert report["findings"][0]["rule"] == "number-backward" and report["exit_status"] == 1


def test_a_fault_of_the_probe_is_a_note(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": TRAIN + """
class Odd(torch.Tensor):
    @property
    def requires_grad(self): raise ValueError("odd")
odd = torch.ones(2).as_subclass(Odd)
(odd + 1).sum()
step(); step()
"""})  # fmt: skip
    report = probe(folder, "main.py")
    assert report["steps"] == 2 and report["exception"] is None


def test_trackers_are_told_to_stay_offline(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(
        folder,
        {
            "main.py": TRAIN
            + "import os\nprint('MODE', os.environ['WANDB_MODE'], os.environ['COMET_MODE'])\nstep(); step()\n"
        },
    )
    assert "MODE disabled disabled" in probe(folder, "main.py")["process"].stdout
