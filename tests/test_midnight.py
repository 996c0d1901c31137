"""The example of the README: it dies as told, gradline finds both ends of the trail, and the fixed program trains."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent / "examples" / "midnight"
DIES = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"


@pytest.fixture
def midnight(tmp_path):
    """A copy of the example that may be changed."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "midnight", ignore=shutil.ignore_patterns("__pycache__")))


def gradline(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "gradline", *arguments], cwd=folder, capture_output=True, text=True)


def train(folder: Path) -> subprocess.CompletedProcess:
    pytest.importorskip("torch")
    return subprocess.run([sys.executable, "-B", "train.py"], cwd=folder, capture_output=True, text=True)


def line(path: str, text: str) -> int:
    lines = (EXAMPLE / path).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, content in enumerate(lines, 1) if text in content]
    return found


def test_it_dies_in_backward(midnight):
    run = train(midnight)
    assert run.returncode != 0
    assert run.stderr.splitlines()[-1] == DIES
    assert f'train.py", line {line("train.py", "loss.backward()")}, in main' in run.stderr


def test_both_ends_are_found(midnight):
    run = gradline(midnight, "check", "--output-format", "json")
    assert (run.returncode, run.stderr) == (1, "")

    def place(record: dict) -> tuple[str, int]:
        return Path(record["filename"]).relative_to(midnight).as_posix(), record["location"]["row"]

    found = {record["code"]: record for record in json.loads(run.stdout)}
    assert set(found) == {"GL201", "GL202"}
    origin = ("utils/data_loader.py", line("utils/data_loader.py", "set_grad_enabled"))
    victim = ("train.py", line("train.py", "loss.backward()"))
    assert place(found["GL201"]) == origin
    assert place(found["GL202"]) == victim
    assert [place(step) for step in found["GL202"]["related"]] == [
        ("train.py", line("train.py", "from utils import")),
        ("utils/__init__.py", line("utils/__init__.py", "from .data_loader")),
        origin,
    ]
    assert victim in [place(step) for step in found["GL201"]["related"]]
    assert found["GL201"]["fix"]["applicability"] == "safe"


def test_the_report_shows_the_lines(midnight):
    report = gradline(midnight, "check", "--color", "never").stdout
    for text in ("loss.backward()", "from utils import SequenceLoader", "torch.set_grad_enabled(False)"):
        assert f"| {text}" in report or f"|         {text}" in report
    assert "models/transformer.py" not in report
    assert max(map(len, (row for row in report.splitlines() if "https://" not in row))) <= 80
    assert "\x1b[" in gradline(midnight, "check", "--color", "always").stdout


def test_the_fixed_program_trains(midnight):
    before = {path: path.read_text(encoding="utf-8") for path in midnight.rglob("*.py")}
    run = gradline(midnight, "check", "--fix")
    assert (run.returncode, run.stderr) == (0, "")
    changed = [path for path, text in before.items() if path.read_text(encoding="utf-8") != text]
    assert [path.name for path in changed] == ["data_loader.py"]
    text = changed[0].read_text(encoding="utf-8")
    assert "with torch.no_grad():" in text
    for comment in ("make loading faster", "the small ones more often"):
        assert comment in text
    assert gradline(midnight, "check", "--fix").stdout == "All checks passed!\n"
    assert changed[0].read_text(encoding="utf-8") == text
    run = train(midnight)
    assert (run.returncode, run.stderr) == (0, "")
    losses = [float(row.split("loss ")[1]) for row in run.stdout.splitlines()]
    assert losses[-1] < losses[0] / 10
