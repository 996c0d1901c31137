"""What no program should be: each gives a clear message or a finding on the rest, the right exit code, and an end.

Everything runs in a process of its own, as a user would run it: a traceback or a hang anywhere would show.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

BUG = "import torch\nmodel = torch.nn.Linear(2, 1)\nloss = model(torch.ones(3, 2)).mean().detach()\nloss.backward()\n"
LIMIT = 60  # seconds; the slowest of these takes a few


def check(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    run = subprocess.run(
        [sys.executable, "-m", "gradline", "check", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        **options,
    )
    assert "Traceback" not in run.stderr, run.stderr
    assert "crashed" not in run.stderr, run.stderr
    assert run.returncode in (0, 1, 2)
    return run


def codes(run: subprocess.CompletedProcess) -> list[str]:
    return [record["code"] for record in json.loads(run.stdout)]


@pytest.fixture
def folder(tmp_path):
    """A folder with one file that has a bug: whatever else lies there, that bug is found."""
    (tmp_path / "bug.py").write_text(BUG)
    return tmp_path


def test_the_bug_is_found(folder):
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run), run.stderr) == (1, ["GL102"], "")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = 1\ny = '\xff'\n", "other.py can't be decoded: line 2"),
        (b"# coding: klingon\n", "other.py can't be decoded: unknown encoding"),
        (b"\xff\xfex\x00=\x001\x00", "other.py can't be decoded: the file is UTF-16"),
        (random.Random(0).randbytes(5000), "other.py can't be decoded: line "),
    ],
)
def test_undecodable(folder, data, message):
    (folder / "other.py").write_bytes(data)
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (2, ["GL102"])
    assert message in run.stderr


@pytest.mark.parametrize(
    ("data", "python"),
    [
        (b"", True),
        (b"\n\n\n", True),
        (b"\xef\xbb\xbf", True),
        (b"\x00\x00\x00", False),
        (b"x = 1\x00\ny = 2\n", False),
        (b"\x0c\x1a\x04", False),
        (b"def f(:\n  class\n'''", False),
        (b"\\", False),
        (b"\t \t\n \tx\n\t y", False),
        (("é = '\u2028\u2029\x85'\n" * 50).encode(), True),
    ],
    ids=range(10),
)
def test_odd_texts(folder, data, python):
    (folder / "other.py").write_bytes(data)
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])
    if python:
        assert run.stderr == ""
    else:
        assert re.fullmatch(r"gradline: warning: other\.py is not valid Python .*; what can be read .*\n", run.stderr)


@pytest.mark.parametrize("brackets", ["()", "[]", "{}"])
@pytest.mark.parametrize("closed", [True, False])
def test_500_nested_brackets(folder, brackets, closed):
    deep = "x = " + brackets[0] * 500 + (brackets[1] * 500 if closed else "") + "\n"
    (folder / "deep.py").write_text(deep)
    (folder / "both.py").write_text(deep + BUG)
    run = check(folder, "--output-format", "json")
    assert run.returncode == 1
    assert codes(run).count("GL102") >= 1


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "-" * 3000 + "1\n",
        "x = " + " + ".join(["1"] * 5000) + "\n",
        "x = a" + ".b" * 3000 + "\n",
        "x = f" + "(1)" * 3000 + "\n",
        "".join("    " * depth + "if x:\n" for depth in range(95)) + "    " * 95 + "pass\n",
        "".join("    " * depth + f"def f{depth}():\n" for depth in range(95)) + "    " * 95 + "pass\n",
        "x = " + "lambda: " * 2000 + "1\n",
        "if x:\n    pass\n" + "elif x:\n    pass\n" * 2000,
    ],
    ids=["minus", "plus", "attributes", "calls", "ifs", "defs", "lambdas", "elifs"],
)
def test_deep_texts(folder, text):
    (folder / "deep.py").write_text(text)
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


def test_50000_generated_lines(folder):
    lines = ["import torch", "table = {}"]
    lines += [f"table[{number}] = torch.zeros({number % 7 + 1}).sum() * {number}" for number in range(25_000)]
    lines += [f"def function_{number}(a, b=({number}, 'x')):\n    return a + b[0]" for number in range(12_500)]
    (folder / "generated.py").write_text("\n".join(lines) + "\n")
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


def test_one_long_line(folder):
    (folder / "long.py").write_text("data = [" + ", ".join(map(str, range(200_000))) + "]\n")
    (folder / "text.py").write_text("data = '" + "x" * 2_000_000 + "'\n")
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


def test_a_folder_without_rights(folder):
    closed = folder / "closed"
    closed.mkdir()
    (closed / "a.py").write_text(BUG)
    closed.chmod(0)
    try:
        if os.access(closed, os.R_OK):
            pytest.skip("this user may read everything")
        run = check(folder, "--output-format", "json")
    finally:
        closed.chmod(0o755)
    assert (run.returncode, codes(run)) == (2, ["GL102"])
    assert "closed can't be listed: permission denied" in run.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("pyproject.toml", "[tool.gradline\n", "pyproject.toml:1: is no valid TOML"),
        ("pyproject.toml", "[tool.gradline]\nselect = 3\n", "pyproject.toml:2: 'select' must be a list of strings"),
        ("pyproject.toml", "[tool.gradline]\nselct = []\n", "did you mean 'select'?"),
        ("gradline.toml", "\x00", "gradline.toml:1: is no valid TOML"),
        ("gradline.toml", "x = " + "1" * 5000, "gradline.toml:1: is no valid TOML"),
        ("gradline.toml", "x = " + "[" * 50_000, "gradline.toml:1: is no valid TOML"),
        ("gradline.toml", 'environment = "\\u0000"', "'environment' must be a path"),
        ("gradline.toml", 'extend = "\\u0000"', "names a file that is not there"),
        ("gradline.toml", 'plugins = ["a.py"]', "unknown setting 'plugins'"),
    ],
)
def test_broken_settings(folder, name, text, message):
    (folder / name).write_text(text)
    run = check(folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_a_folder_named_like_a_file(folder):
    (folder / "models.py").mkdir()
    (folder / "models.py" / "inner.py").write_text("x = 1\n")
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_named_like_a_file_is_not_waited_for(folder):
    os.mkfifo(folder / "pipe.py")
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused(folder):
    os.mkfifo(folder / "pipe.py")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(folder)  # the name of a socket must be short
        try:
            listener.bind("s.py")
        finally:
            os.chdir(here)
        run = check(folder, "--output-format", "json", "pipe.py", "s.py", "/dev/zero", "bug.py")
    assert (run.returncode, codes(run)) == (2, ["GL102"])
    said = {line.split(" and no file")[0] for line in run.stderr.splitlines()}
    assert said == {
        f"gradline: error: {what}" for what in ("pipe.py is a pipe", "s.py is a socket", "/dev/zero is a device")
    }
    run = check(folder, "--config", "pipe.py")
    assert (run.returncode, run.stdout) == (2, "")
    assert "pipe.py: is no file" in run.stderr


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "name", [".gitignore", ".venv/pyvenv.cfg", ".venv/lib/python3/site-packages/a.pth", "gradline.toml"]
)
def test_pipes_in_place_of_settings_are_not_waited_for(folder, name):
    (folder / ".venv/lib/python3/site-packages").mkdir(parents=True)
    (folder / ".venv/pyvenv.cfg").touch()
    (folder / ".git").mkdir()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run), run.stderr) == (1, ["GL102"], "")


def test_absurd_sizes(folder):
    (folder / "gradline.toml").write_bytes(b"#" * 4_000_001)
    run = check(folder)
    assert (run.returncode, run.stdout) == (2, "")
    assert "gradline.toml: is larger than 4 MB: that can't be settings" in run.stderr
    (folder / "gradline.toml").unlink()
    for name in ("n.ipynb", "archive.zip", "data.py"):
        with open(folder / name, "wb") as file:
            file.truncate(50_000_001)  # takes no space on most file systems
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])
    warnings = [f"gradline: warning: {name} is larger than 50 MB and was not read" for name in ("data.py", "n.ipynb")]
    assert run.stderr.splitlines() == warnings
    run = check(folder, "archive.zip", "n.ipynb")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.count("is larger than 50 MB and was not read") == 2


def test_more_lines_than_anybody_writes(folder):
    (folder / "data.py").write_text("x\n" * 1_000_001)
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": ["x\n"] * 1_000_001}
    (folder / "n.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])
    said = [
        f"gradline: warning: {name} has more than 1,000,000 lines and was not read" for name in ("data.py", "n.ipynb")
    ]
    assert run.stderr.splitlines() == said


def test_imports_in_a_circle(folder):
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        (folder / f"{name}.py").write_text(f"from {other} import *\nimport {other} as x\nfrom . import {other}\n")
    run = check(folder, "--output-format", "json")
    assert (run.returncode, codes(run)) == (1, ["GL102"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"cells": 3}',
        '{"cells": [{"cell_type": "code"}]}',
        '{"cells": [{"cell_type": "code", "source": 3}], "metadata": [], "nbformat": 4}',
        "[" * 2000,
        '{"cells": [{"cell_type": "code", "source": ["%%bash\\n", "echo ("]}], "nbformat": 4, "nbformat_minor": 5}',
    ],
    ids=range(9),
)
def test_odd_notebooks(folder, text):
    (folder / "n.ipynb").write_text(text)
    run = check(folder, "--output-format", "json")
    assert run.returncode in (1, 2)
    assert codes(run) == ["GL102"]
    if run.returncode == 2:
        assert "n.ipynb" in run.stderr


def test_fixing_what_is_broken_leaves_it_as_it_is(folder):
    for name, data in (("a.py", b"def f(:\r\n\x0c"), ("b.py", b"\xff"), ("c.ipynb", b"{")):
        (folder / name).write_bytes(data)
    check(folder, "--fix", "--unsafe-fixes")
    assert (folder / "a.py").read_bytes() == b"def f(:\r\n\x0c"
    assert (folder / "b.py").read_bytes() == b"\xff"
    assert (folder / "c.ipynb").read_bytes() == b"{"
