"""`gradline hook`: an assistant has edited a file, and is told what that has broken in the way that it listens to."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOST = """import torch

w = torch.ones(3, requires_grad=True)
loss = (w * 2).sum().detach()
loss.backward()
"""
KEPT = LOST.replace(".detach()", "")


@pytest.fixture
def hook(tmp_path: Path):
    """Runs the hook in a folder beside the edited files; returns exit code, standard output and the error stream."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def run(said: object, *arguments: str):
        text = said if isinstance(said, str) else json.dumps(said)
        command = [sys.executable, "-m", "gradline", "hook", *arguments]
        done = subprocess.run(command, cwd=elsewhere, input=text, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(LOST)
    return tmp_path / "train.py"


def claude(file: Path, tool: str = "Edit") -> dict:
    """What Claude Code writes to a PostToolUse hook."""
    return {
        "session_id": "1",
        "cwd": str(file.parent),
        "hook_event_name": "PostToolUse",
        "tool_name": tool,
        "tool_input": {"file_path": str(file), "old_string": "a", "new_string": "b"},
        "tool_response": {"success": True},
    }


def test_claude_code_is_told_on_the_error_stream(hook, file):
    code, out, err = hook(claude(file))
    assert (code, out) == (2, "")
    assert "error[GL102] detached-loss: `loss` has lost its graph" in err
    assert "train.py:4:8" in err and "detaches the value from its graph here" in err, "with the trail"


def test_nothing_is_said_of_what_is_right(hook, file):
    file.write_text(KEPT)
    assert hook(claude(file)) == (0, "", "")


def test_advice_does_not_stop_an_assistant(hook, file):
    file.write_text("import torch\n\nscaler = torch.cuda.amp.GradScaler()\n")
    found = subprocess.run(
        [sys.executable, "-m", "gradline", "check", "--no-cache", str(file)], capture_output=True, text=True
    )
    assert "GL604" in found.stdout, "there is advice to be given"
    assert hook(claude(file)) == (0, "", "")


def test_what_settings_exclude_is_not_judged(hook, file):
    (file.parent / "gradline.toml").write_text('extend-exclude = ["train.py"]\n')
    assert hook(claude(file)) == (0, "", "")


def test_the_patches_of_codex(hook, file):
    patch = "*** Begin Patch\n*** Update File: train.py\n@@\n-a\n+b\n*** End Patch\n"
    said = {**claude(file, "apply_patch"), "tool_input": {"command": patch}}
    code, out, err = hook(said)
    assert (code, out) == (2, "") and "GL102" in err


@pytest.mark.parametrize("event", ["afterFileEdit", "postToolUse"])
def test_cursor_is_told_in_its_answer(hook, file, event):
    code, out, err = hook({"hook_event_name": event, "file_path": str(file), "edits": []})
    assert (code, err) == (0, "")
    assert "GL102" in json.loads(out)["additional_context"]


def test_files_that_are_named(hook, file):
    assert hook("", str(file))[0] == 2
    file.write_text(KEPT)
    assert hook("", str(file)) == (0, "", "")


@pytest.mark.parametrize("said", ["", "no JSON", [], {}, {"tool_input": {"command": "ls"}}, {"tool_input": 1, "cwd": 2}],
                         ids=["nothing", "text", "a list", "empty", "a command", "numbers"])  # fmt: skip
def test_what_is_not_understood_stops_nobody(hook, said):
    assert hook(said) == (0, "", "")


def test_other_files_and_files_that_are_gone(hook, file):
    assert hook(claude(file.with_suffix(".md"))) == (0, "", "")
    assert hook(claude(file.with_name("gone.py"))) == (0, "", "")


def test_settings_that_cannot_be_used_are_said_and_stop_nobody(hook, file):
    (file.parent / "gradline.toml").write_text("ignore = ['GL999']\n")
    code, out, err = hook(claude(file))
    assert (code, out) == (0, "") and "GL999" in err
