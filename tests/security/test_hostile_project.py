"""A project in which everything that could be imported or run leaves a mark: none is left by any face that only reads.

Besides, Python itself reports (`hook/sitecustomize.py`) every program that is started, every connection, and every piece
of code of the project that is executed. Not tried here: `gradline probe` and `gradline why -- COMMAND`, whose purpose is
to run what they are given.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from lsp.client import Client

from gradline.config import KEYS

HOOK = Path(__file__).with_name("hook")
COMMAND = Path(sys.executable).with_name("gradline.exe" if sys.platform == "win32" else "gradline")
MARK = "import os\nwith open({mark!r}, 'a') as file:\n    file.write({name!r} + chr(10))\n"
LOSS = """import torch
from helper import double

model = torch.nn.Linear(2, 1)
loss = double(model(torch.ones(3, 2))).mean().detach()
loss.backward()
"""

TRACEBACK = """\
Traceback (most recent call last):
  File "{file}", line 6, in <module>
    loss.backward()
RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
"""

# What Python, pytest, build tools, editors, or a careless import would run.
PROGRAMS = (
    *(
        "sitecustomize.py usercustomize.py conftest.py setup.py noxfile.py helper.py __init__.py plugin.py tasks.py".split()
    ),
    *(
        f"{name}/__init__.py"
        for name in "torch numpy libcst pygls lsprotocol rich pathspec platformdirs attrs cattrs".split()
    ),
    *(f"{name}.py" for name in "json argparse dataclasses inspect random tokenize ast marshal gc tomllib".split()),
)


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """The project's folder. `marks()` on it says what has run."""
    if not COMMAND.exists():
        pytest.skip(f"needs the command {COMMAND}: install gradline in this environment")
    project = tmp_path / "project"
    project.mkdir()
    mark = tmp_path / "marks"

    def put(name: str, text: str, executable: bool = False) -> None:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if executable:
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    for name in PROGRAMS:
        put(name, MARK.format(mark=str(mark), name=name) + "def double(x):\n    return 2 * x\n")
    # beside the folder `torch` these would be programs of that torch, of which nothing is known
    put("runs/train.py", LOSS + MARK.format(mark=str(mark), name="train.py"))
    script = f"#!/bin/sh\necho $0 >> '{mark}'\n"
    for name in ("bin/python", "bin/python3", "bin/ruff", "Scripts/python.exe"):
        put(f".venv/{name}", script, executable=True)
    put(".venv/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n")
    site = ".venv/lib/python3.11/site-packages"
    put(f"{site}/evil.pth", f"import os; open({str(mark)!r}, 'a').write('pth')\n../../../../more\n")
    put(f"{site}/evil/__init__.py", MARK.format(mark=str(mark), name="evil"))
    put(".python-version", "evil\n")
    put("traceback.txt", TRACEBACK.format(file=project / "runs" / "train.py"))
    put(".envrc", script)
    put(".env", f"PYTHONSTARTUP={project / 'plugin.py'}\n")
    put("pyproject.toml", (
        '[build-system]\nrequires = []\nbuild-backend = "plugin"\nbackend-path = ["."]\n'
        '[tool.pytest.ini_options]\naddopts = "-p plugin"\n[tool.ruff]\nextend = "plugin.py"\n'
        '[tool.gradline]\nenvironment = ".venv/bin/python"\nsrc = [".", ".venv/bin", "/", "~"]\n'
    ))  # fmt: skip
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
        for source in (f"!echo notebook >> '{mark}'", f"%%bash\necho notebook >> '{mark}'", "%run plugin.py", LOSS)
    ]
    put("runs/note.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))

    log = tmp_path / "log"
    monkeypatch.chdir(project)
    monkeypatch.setenv("PYTHONPATH", str(HOOK))
    monkeypatch.setenv("WATCHED", str(project))
    monkeypatch.setenv("WATCH_LOG", str(log))
    monkeypatch.setenv("GRADLINE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)

    def marks() -> str:
        return "".join(path.read_text() for path in (mark, log) if path.exists())

    return project, marks


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, **options)


def test_the_marks_are_left_by_who_runs_things(hostile):
    project, marks = hostile
    run(sys.executable, "-c", "import sys; sys.path.insert(0, ''); import helper")
    assert "helper.py" in marks() and "exec (" in marks()
    run(sys.executable, "-c", "import subprocess; subprocess.run(['.venv/bin/python'])")
    assert ".venv/bin/python\n" in marks() and "subprocess.Popen" in marks()
    run(sys.executable, "-c", "import socket; socket.socket().connect(('127.0.0.1', 9))")
    assert "socket.connect" in marks()
    assert sum(project.joinpath(name).is_file() for name in PROGRAMS) == len(PROGRAMS)


@pytest.mark.parametrize("start", [[str(COMMAND)], [sys.executable, "-m", "gradline"]], ids=["command", "module"])
def test_the_command(hostile, start):
    _, marks = hostile
    for arguments in (
        ["check", "--no-cache", "--output-format", "json"],
        ["check"],
        ["check"],  # from the cache
        ["check", "--diff", "--unsafe-fixes"],
        ["check", "--output-format", "sarif", "runs/train.py", "runs/note.ipynb"],
        ["explain", "GL101"],
        ["rules"],
        ["why", "traceback.txt"],
        ["hook", "runs/train.py"],
    ):
        done = run(*start, *arguments)
        if arguments[0] != "hook":  # which tells an assistant by its exit code and the error stream
            assert done.returncode in (0, 1), (arguments, done.stderr)
            assert "error" not in done.stderr and "Traceback" not in done.stderr, arguments
        assert marks() == "", arguments
    records = json.loads(run(*start, "check", "--output-format", "json").stdout)
    assert {"train.py", "note.ipynb"} <= {Path(record["filename"]).name for record in records}


def test_a_gradline_of_the_project_is_not_taken_for_ours(hostile):
    """By the command. `python -m gradline` is Python's choice, which prefers the current folder; SECURITY.md says so."""
    project, marks = hostile
    (project / "gradline").mkdir()
    (project / "gradline" / "__init__.py").write_text((project / "plugin.py").read_text())
    done = run(str(COMMAND), "check", "runs/train.py")
    assert (done.returncode, done.stderr, marks()) == (1, "", "")
    done = run(sys.executable, *(["-P"] if sys.version_info >= (3, 11) else ["-I"]), "-m", "gradline", "rules")
    assert (done.returncode, done.stderr, marks()) == (0, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio on Windows connects to itself")
def test_the_server(hostile):
    project, marks = hostile
    evil = str(project / ".venv" / "bin" / "python")
    settings = {"interpreter": [evil], "path": [evil], "command": evil, "environment": evil, "plugins": [str(project)]}
    with Client([str(COMMAND), "server"], project, options={"settings": settings, **settings}) as client:
        uri = (project / "runs" / "train.py").as_uri()
        client.open(uri, LOSS)
        assert client.diagnostics(uri)
        client.notify("workspace/didChangeConfiguration", {"settings": {"gradline": settings}})
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 6, "character": 0}}
        document = {"textDocument": {"uri": uri}}
        client.request("textDocument/hover", {**document, "position": {"line": 4, "character": 0}})
        client.request("textDocument/codeAction", {**document, "range": everything, "context": {"diagnostics": []}})
        client.request("textDocument/inlayHint", {**document, "range": everything})
        client.request("textDocument/semanticTokens/full", document)
        assert client.request("gradline/explain", {"rule": "GL101"})["code"] == "GL101"
    assert marks() == ""


def test_no_setting_names_a_program():
    """Settings come with the project: none may be a command, a plugin or code. `environment` is a folder to be read."""
    assert set(KEYS) == {
        "select", "extend-select", "ignore", "per-file-ignores", "severity", "exclude", "extend-exclude", "include",
        "respect-gitignore", "src", "environment", "extend",
    }  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a device to write to")
def test_nothing_is_written_but_reports_and_the_cache(hostile):
    project, marks = hostile
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    run(str(COMMAND), "check", "--no-cache", "-v", "--timings")
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before
    assert marks() == ""
