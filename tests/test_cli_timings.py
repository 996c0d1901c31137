"""`--timings`: the parts add up to the whole, and measuring changes nothing that is said or left behind."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradline.cli import main, timings

BUG = "import torch\nfrom helper import double\n\nmodel = torch.nn.Linear(2, 1)\nloss = double(model(torch.ones(3, 2)).mean()).detach()\nloss.backward()\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(BUG)
    (tmp_path / "helper.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADLINE_CACHE_DIR", str(tmp_path.with_name(f"{tmp_path.name}-cache")))
    return tmp_path


def tables(text: str) -> dict[str, dict[str, tuple[float, float]]]:
    """The tables on standard error: title to rows of CPU and clock."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for line in text.splitlines():
        if title := re.fullmatch(r"gradline:  CPU ms  clock ms  (.+)", line):
            rows = found[title[1]] = {}
        elif row := re.fullmatch(r"gradline: +([\d.]+) +([\d.]+)  (.+)", line):
            rows[row[3]] = float(row[1]), float(row[2])
    return found


def test_as_a_user_sees_it(project):
    command = [sys.executable, "-m", "gradline", "check", "--no-cache", "--output-format", "concise"]
    plain = subprocess.run(command, capture_output=True, text=True)
    timed = subprocess.run([*command, "--timings"], capture_output=True, text=True)
    assert (timed.returncode, timed.stdout) == (plain.returncode, plain.stdout)
    assert plain.stderr == ""
    parts, files, rules = tables(timed.stderr).values()
    total = parts.pop("all")
    assert {"start", "find files", "interpret", "parse units", "rules", "make fixes", "report"} <= set(parts)
    for column in (0, 1):
        assert sum(row[column] for row in parts.values()) == pytest.approx(total[column], abs=0.1 * (len(parts) + 1))
    assert set(files) == {"train.py", "helper.py", "empty.py"}
    assert len(rules) == timings.RULES
    # a second run takes the answer from the cache, and interprets nothing
    for _ in range(2):
        warm = subprocess.run(
            [part for part in command if part != "--no-cache"] + ["--timings"], capture_output=True, text=True
        )
    assert warm.stdout == plain.stdout
    (parts,) = tables(warm.stderr).values()
    assert "ask the cache" in parts and "interpret" not in parts


def test_no_moment_is_lost_or_counted_twice(monkeypatch, project, capsys):
    """With clocks that go on by one second whenever they are looked at."""
    seconds = {"cpu": 0, "wall": 0}

    def look(which: str) -> int:
        seconds[which] += 1
        return seconds[which]

    monkeypatch.setattr(
        timings, "time", SimpleNamespace(process_time=lambda: look("cpu"), perf_counter=lambda: look("wall"))
    )
    monkeypatch.setattr(timings, "_since_start", lambda: 0)
    made = timings.Timings()
    with made.measuring():
        began = dict(seconds)
        main(["check", "--no-cache"])
        ended = dict(seconds)
    del made.parts[timings.START]
    for which in ("cpu", "wall"):
        spent = sum(getattr(part, which) for part in made.parts.values())
        assert spent == ended[which] - began[which] + 1  # up to the look with which it ends
    assert made._stack == []
    assert {"interpret", "cut into units", "rules", "make fixes"} <= set(made.parts)


def test_everything_is_put_back(project, capsys):
    def homes():
        for _, module, holder, name in timings.PARTS:
            home = importlib.import_module(f"gradline.{module}")
            yield getattr(getattr(home, holder) if holder else home, name)

    before = list(homes())
    assert main(["check", "--timings", "--no-cache"]) == 1
    with pytest.raises(RuntimeError), timings.Timings().measuring():
        raise RuntimeError
    assert list(homes()) == before
    assert all(not hasattr(function, "__wrapped__") for function in before if not isinstance(function, type))


def test_what_other_processes_do_is_said(project):
    for number in range(6):
        Path(f"m{number}.py").write_text(BUG)
    run = subprocess.run(
        [sys.executable, "-m", "gradline", "check", "--no-cache", "--jobs", "2", "--timings"],
        capture_output=True,
        text=True,
    )
    assert "2 other processes did a part that is not measured; `--jobs 1` measures all" in run.stderr
    assert "wait for other processes" in tables(run.stderr)["what was done"]
