"""The probe changes nothing: numbers, files, processes; and its stop cannot be caught."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PYTHON, alive, command, linux, needs, needs_torch, probe, quick, wait_until, write

pytestmark = needs_torch
NUMBERS = """
import hashlib, json, random, sys
import torch
from torch import nn
torch.set_num_threads(1)  # a sum depends on how many there are, and the forks of these tests have one
torch.manual_seed(3)
random.seed(3)
try:
    import numpy
    numpy.random.seed(3)
    draw = numpy.random.rand
except ImportError:
    draw = random.random
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
print("NUMBERS", json.dumps([losses, state.hexdigest(), random.random(), draw()]))
"""


def numbers(text: str) -> list:
    return json.loads(next(line for line in text.splitlines() if line.startswith("NUMBERS")).partition(" ")[2])


def test_losses_weights_and_random_states_are_the_same_to_the_bit(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": NUMBERS})
    plain = subprocess.run([PYTHON, "main.py"], cwd=folder, capture_output=True, text=True, check=True)
    report = probe(folder, "main.py", "--steps", "9")  # more than there are: it runs to its end
    light = quick(folder, "main.py", "--steps", "9", "--level", "light")
    assert report["steps"] == light["steps"] == 3
    assert numbers(report["process"].stdout) == numbers(light["output"]) == numbers(plain.stdout)


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


@pytest.mark.parametrize("clause", ["except:", "except BaseException:"])
def test_nothing_can_swallow_the_stop_and_nothing_runs_after_it(tmp_path: Path, clause: str) -> None:
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
        {clause}
            act()
finally:
    act()
"""})  # fmt: skip
    report = quick(folder, "main.py")
    assert report["stopped"] == "2 optimizer steps" and not out.exists()


def test_a_program_that_leaves_by_itself_leaves_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": TRAIN + "import os\nstep()\nos._exit(3)\n"})
    report = quick(folder, "main.py")
    assert report["steps"] == 1 and report["stopped"] == "the program left by os._exit(3)"
    assert os.waitstatus_to_exitcode(report["exit_status"]) == 3


def test_a_program_that_is_killed_leaves_a_report_that_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"})
    report = probe(folder, "main.py")
    assert report["process"].returncode == 2 and report["exit_status"] == -9 and report["findings"] == []
    assert "left no report" in report["stopped"] and "was killed" in report["notes"][0]


CHILDREN = (
    TRAIN
    + """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import time; time.sleep(600)  # {marker}"
subprocess.Popen([sys.executable, "-c", code])
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
"""
)


@linux
def test_the_time_limit_ends_the_whole_tree_and_leaves_a_report(tmp_path: Path) -> None:
    folder, marker = tmp_path / "program", f"gradline-test-{os.getpid()}-limit"
    write(folder, {"main.py": CHILDREN.replace("{marker}", marker) + "step()\ntime.sleep(600)\n"})
    report = probe(folder, "main.py", "--timeout", "15")
    assert "time limit" in report["stopped"] and report["steps"] == 1
    assert alive(marker) == []


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[subprocess.Popen, str, Path]]:
    """A probed program after its first step, with children of its own: the process, their mark, and the report's path."""
    folder, marker = tmp_path / "program", f"gradline-test-{os.getpid()}-{tmp_path.name}"
    ready, out = tmp_path / "ready", tmp_path / "out.json"
    text = CHILDREN.replace("{marker}", marker) + f"step()\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)\n"
    write(folder, {"main.py": text})
    words = command("main.py", "--python", PYTHON, "--no-check", "--quiet", "--json", str(out))
    process = subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        assert wait_until(ready.exists, 90) and len(alive(marker)) >= 2
        yield process, marker, out
    finally:
        process.kill()


@linux
@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_cancel_and_a_closed_editor_end_the_whole_tree(running: tuple[subprocess.Popen, str, Path], how: str) -> None:
    process, marker, out = running
    process.send_signal(signal.SIGTERM if how == "cancel" else signal.SIGKILL)
    process.wait(60)
    assert wait_until(lambda: not alive(marker), 30)
    if how == "cancel":
        assert "cancelled" in json.loads(out.read_text())["stopped"]


@linux
def test_a_killed_supervisor_takes_the_program_with_it(running: tuple[subprocess.Popen, str, Path]) -> None:
    process, marker, out = running
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in children:
        if b"supervise" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    process.wait(60)
    assert wait_until(lambda: not alive(marker), 30)
    assert "supervisor ended without a result" in json.loads(out.read_text())["stopped"]


@linux
def test_the_memory_limit_ends_the_run_and_leaves_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    text = TRAIN + "import time\nstep()\nheld = [torch.ones(1 << 26) for _ in range(8)]\ntime.sleep(300)\n"
    write(folder, {"main.py": text})
    report = probe(folder, "main.py", "--max-memory", "1.2")
    assert "the memory limit of 1.2 GiB" in report["stopped"] and report["steps"] == 1


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
    report = quick(folder, "main.py")
    assert report["steps"] == 2 and report["exception"] is None


FAKES = {
    "wandb.py": "def init(project=None, mode=None, **more): print('WANDB', mode)\n",
    "comet_ml.py": """
class Experiment:
    def __init__(self, api_key=None, disabled=False): print('COMET', disabled)
def start(api_key=None, online=None): print('START', online)
""",
    "mlflow.py": """
class MlflowClient:
    def __init__(self, tracking_uri=None): print('CLIENT', tracking_uri.partition(':')[0])
def set_tracking_uri(uri): print('MLFLOW', uri.partition(':')[0])
""",
}
TRACKED = """
from wandb import init
import comet_ml, mlflow, os
init("p", "online")
comet_ml.Experiment("key"); comet_ml.start(online=True)
mlflow.set_tracking_uri("https://example.org"); mlflow.set_tracking_uri("sqlite:///a"); mlflow.MlflowClient("http://b")
print("MODE", os.environ["WANDB_MODE"], os.environ["COMET_START_ONLINE"])
step(); step()
"""
OFFLINE = [
    "WANDB disabled",
    "COMET True",
    "START False",
    "MLFLOW file",
    "MLFLOW sqlite",
    "CLIENT file",
    "MODE disabled false",
]


def test_trackers_stay_offline_whatever_they_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {**FAKES, "main.py": TRAIN + TRACKED})
    report = probe(folder, "main.py")
    assert report["process"].stdout.splitlines() == OFFLINE, report["process"].stderr
    assert any("wandb.init was kept offline" in note for note in report["notes"])


WATCHED = """
import sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        host = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = host[0] if isinstance(host, tuple) else host
        if host not in ("localhost", "127.0.0.1", "::1", None) and not str(host).startswith("/"):
            print("NETWORK", host, flush=True)
sys.addaudithook(hook)
"""
REAL = {
    "wandb": "import wandb\nr = wandb.init(project='p', mode='online')\nr.log({'x': 1})\nr.finish()\n",
    "mlflow": "import mlflow\nmlflow.set_tracking_uri('http://mlflow.example.com')\nwith mlflow.start_run(): mlflow.log_metric('x', 1)\n",
    "comet_ml": "import comet_ml\nfor make in (comet_ml.Experiment, comet_ml.start):\n    e = make(api_key='A' * 32)\n    e.log_metric('x', 1)\n    e.end()\n",
    "tensorboard": "from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()\nw.add_scalar('x', 1, 1)\nw.close()\n",
}


@pytest.mark.parametrize("tracker", REAL)
def test_real_trackers_reach_no_network_and_write_nothing(tmp_path: Path, tracker: str) -> None:
    needs(tracker)
    folder = tmp_path / "program"
    write(folder, {"main.py": WATCHED + REAL[tracker] + "print('DONE')\n"})
    report = probe(folder, "main.py", "--env", f"WANDB_API_KEY={'0' * 40}")
    said = report["process"].stdout
    assert "DONE" in said and "NETWORK" not in said, said + report["process"].stderr[-1000:]
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["main.py"]
