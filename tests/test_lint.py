"""The code is as `CONTRIBUTING.md` asks: clean under ruff, and under pyright with the settings of `pyproject.toml`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent

# pyright is a Node program, and its Python package fetches what it lacks at the first call: a test may not.
OFFLINE = {**os.environ, "npm_config_offline": "true", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}


def test_ruff() -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright() -> None:
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed (it comes with the extra `dev`)")
    if shutil.which("node") is None:
        pytest.skip("pyright needs node, which is not installed")
    pyright = [sys.executable, "-m", "pyright"]
    if subprocess.run([*pyright, "--version"], cwd=TOP, env=OFFLINE, capture_output=True).returncode != 0:
        pytest.skip("pyright does not start without fetching something; run it once by hand")
    command = [*pyright, "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=TOP, env=OFFLINE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
