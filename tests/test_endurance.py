"""Short runs of what `benchmarks/endurance` does for hours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.endurance import editing, hostile, incremental, killed

ROOT = Path(__file__).parents[1]

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, makes pipes, kills")


def test_what_is_remembered_does_not_show() -> None:
    assert incremental.run(60, seed=7) == []


@linux
def test_any_bytes_may_be_in_a_file(tmp_path: Path) -> None:
    """In a process of its own: its memory has a cap, and this one may have torch in it."""
    command = [sys.executable, "-m", "benchmarks.endurance.fuzz", "--inputs", "200", "--seed", "11"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and re.search(r"\bfindings [1-9]", ran.stdout), ran.stdout + ran.stderr


@linux
def test_a_server_among_enemies() -> None:
    assert hostile.run(len(hostile.ATTACKS), seed=3) < hostile.ENDS


@linux
def test_killed_in_the_middle() -> None:
    met = killed.run(4, seed=5)
    assert sum(met.values()) == 4


@linux
def test_memory_stays_flat() -> None:
    first, last = editing.run(3_000, seed=1)
    assert last <= first * (1 + editing.GROWTH), f"{first:.1f} MiB became {last:.1f} MiB"
