"""`gradline why` as people type it: input of all kinds, exit codes, and commands that it runs without being noticed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from .test_tracebacks import MESSAGE, PROJECT

WHY = [sys.executable, "-m", "gradline", "why"]
TRACEBACK = f"""Traceback (most recent call last):
  File "/home/ana/bug/train.py", line 17, in <module>
    step(torch.ones(2, 4))
  File "/home/ana/bug/train.py", line 12, in step
    loss.backward()
  File "/home/ana/venv/lib/python3.11/site-packages/torch/_tensor.py", line 623, in backward
    torch.autograd.backward(
RuntimeError: {MESSAGE}
"""
UNKNOWN = """Traceback (most recent call last):
  File "train.py", line 12, in step
    loss.backward()
KeyError: 'batch'
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(PROJECT, tmp_path / "bug"))
    (folder / "pyproject.toml").write_text("")
    return folder


def why(folder: Path, *arguments: str, text: bytes | str = b"") -> subprocess.CompletedProcess[bytes]:
    given = text.encode() if isinstance(text, str) else text
    return subprocess.run([*WHY, *arguments], cwd=folder, input=given, capture_output=True, timeout=120)


# ---------------------------------------------------------------- what it reads


def test_a_file_and_standard_input_say_the_same(project: Path) -> None:
    (project / "error.txt").write_text(TRACEBACK)
    by_file, by_stdin = why(project, "error.txt"), why(project, text=TRACEBACK)
    assert by_file.returncode == by_stdin.returncode == 0
    assert by_file.stdout == by_stdin.stdout
    said = by_file.stdout.decode()
    assert "RuntimeError: element 0 of tensors" in said and "train.py:12 in step, called from train.py:17" in said
    assert "error[GL102] detached-loss" in said and "features.py:3:12" in said
    assert "-     return hidden.detach()" in said and "gradline check --fix --unsafe-fixes train.py features.py" in said


def test_the_command_that_is_offered_mends_it(project: Path) -> None:
    said = why(project, text=TRACEBACK).stdout.decode()
    (command,) = (line.partition("To mend it: gradline ")[2] for line in said.splitlines() if "To mend it" in line)
    subprocess.run([sys.executable, "-m", "gradline", *command.split()], cwd=project, capture_output=True, timeout=120)
    assert "detach" not in (project / "features.py").read_text()


def test_json(project: Path) -> None:
    done = why(project, "--output-format", "json", text=TRACEBACK)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["error"]["type"] == "RuntimeError" and told["error"]["name"] == "no-graph" and told["error"]["known"]
    assert [(frame["location"]["row"], frame["function"]) for frame in told["frames"]] == [
        (17, "<module>"),
        (12, "step"),
    ]
    first = told["answers"][0]
    assert first["certainty"] == "sure" and first["finding"]["code"] == "GL102"
    assert first["trail"][-1]["filename"] == str(project / "features.py") and first["trail"][-1]["location"]["row"] == 3
    assert first["finding"]["fix"]["edits"] and told["probe"] == "gradline probe train.py"
    assert "loss.requires_grad" in told["check"]


def test_markdown(project: Path) -> None:
    said = why(project, "--output-format", "markdown", text=TRACEBACK).stdout.decode()
    assert said.startswith("### RuntimeError: element 0") and "```diff" in said and "`features.py:3`" in said


SAID = """Traceback (most recent call last):
  File "train.py", line 17, in <module>
    step(x)
  File "train.py", line 12, in __call__
    loss.backward()
{watching}TypeError: __init__() got <class 'torch.Tensor'>, not *args of a_b
"""
WATCHING = '  File "/opt/lib/gradline/probe/agent/cuts.py", line 186, in __torch_function__\n    result = func(*args)\n'


def test_what_the_program_has_named_means_nothing_in_markdown(project: Path) -> None:
    said = why(project, "--output-format", "markdown", text=SAID.format(watching="")).stdout.decode()
    assert said.startswith(r"### TypeError: \_\_init\_\_() got \<class 'torch.Tensor'\>, not \*args of a_b" + "\n")
    assert "raised at `train.py:12` in `__call__`, called from `train.py:17`\n" in said


def test_who_watches_the_program_has_not_raised(project: Path) -> None:
    """A program that prints its own traceback under the probe shows frames of the probe."""
    told = [why(project, text=SAID.format(watching=watching)).stdout for watching in ("", WATCHING)]
    assert b"train.py:12 in __call__" in told[0] and told[0] == told[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b" \n\n\t ", "is empty"),
        (os.urandom(20_000), "is no text"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 5000, "is no text"),
        (b"epoch 1\nepoch 2\nall is well\n", "no traceback"),
        ("Traceback of nothing: 日本語\n".encode(), "no traceback"),
        (b"loss 0.12345 accuracy 0.9\n" * 400_000, "no traceback"),
    ],
    ids=["empty", "blank", "random bytes", "a program", "a log", "other words", "10 MB"],
)  # fmt: skip
def test_garbage_is_refused(project: Path, text: bytes, words: str) -> None:
    done = why(project, text=text)
    assert done.returncode == 2 and not done.stdout
    assert b"standard input" in done.stderr and words in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1


def test_what_can_not_be_read_is_said(project: Path) -> None:
    for arguments, words in (
        (["nowhere.txt"], "nowhere.txt can't be read: no such file or directory"),
        (["."], "is a folder"),
        (["--folder", "nowhere", "x"], "there is no such folder"),
        (["x.txt", "--", "true"], "not both"),
        (["--"], "no command behind"),
    ):
        done = why(project, *arguments)
        assert done.returncode == 2 and words in done.stderr.decode(), arguments


def test_powershell_redirects_as_utf_16(project: Path) -> None:
    (project / "error.txt").write_bytes(TRACEBACK.replace("\n", "\r\n").encode("utf-16"))
    assert b"GL102" in why(project, "error.txt").stdout


def test_a_traceback_at_the_end_of_a_large_log(project: Path) -> None:
    (project / "error.txt").write_text("loss 0.12345\n" * 800_000 + TRACEBACK)
    assert b"GL102" in why(project, "error.txt").stdout


def test_an_unknown_error_is_said_to_be_unknown(project: Path) -> None:
    done = why(project, text=UNKNOWN)
    said = " ".join(done.stdout.decode().split())
    assert done.returncode == 1
    assert "gradline does not know this error" in said and "may have nothing to do with it" in said
    told = json.loads(why(project, "--output-format", "json", text=UNKNOWN).stdout)
    assert told["error"]["known"] is False and told["answers"][0]["certainty"] == "possible"


def test_exit_code_1_where_the_error_is_known_and_no_cause_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "main.py").write_text("from elsewhere import losses\n\nfor loss in losses():\n    loss.backward()\n")
    text = f'Traceback (most recent call last):\n  File "main.py", line 4, in <module>\n    loss.backward()\nRuntimeError: {MESSAGE}\n'
    done = why(tmp_path, text=text)
    said = done.stdout.decode()
    assert done.returncode == 1
    assert "Not sure:" in said and "Look at" in said
    # what would tell
    assert (
        "print(loss.requires_grad, loss.grad_fn, torch.is_grad_enabled())" in said and "gradline probe main.py" in said
    )


def test_files_that_are_not_here_are_said_to_be_missing(tmp_path: Path) -> None:
    done = why(tmp_path, text=TRACEBACK)
    assert done.returncode == 1 and b"none of the traceback's own files is here" in done.stdout


def test_what_a_comment_silences_is_told_all_the_same(project: Path) -> None:
    text = (project / "train.py").read_text().replace("loss.backward()", "loss.backward()  # gradline: ignore[GL102]")
    (project / "train.py").write_text(text)
    said = why(project, text=TRACEBACK.replace("loss.backward()", "loss.backward()  # gradline: ignore[GL102]")).stdout
    assert b"GL102" in said and b"silence this" in said


def test_torch_is_not_needed(project: Path) -> None:
    program = (
        "import sys; from gradline.cli import main; code = main(['why']); sys.exit('torch' in sys.modules or code)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=project, input=TRACEBACK, text=True, capture_output=True)
    assert done.returncode == 0 and "GL102" in done.stdout


# ---------------------------------------------------------------- what it runs


def failing(folder: Path) -> list[str]:
    """A program that writes on both outputs, and then what torch would write; torch itself takes long to load."""
    (folder / "fails.py").write_text(
        f"import sys\nprint('on stdout \\u00e9')\nsys.stdout.flush()\nsys.stderr.write({TRACEBACK!r})\nsys.exit(int(sys.argv[1]))\n"
    )
    return [sys.executable, "-X", "utf8", "fails.py"]


def test_a_command_that_fails_is_explained(project: Path) -> None:
    done = why(project, "--", *failing(project), "7")
    assert done.returncode == 7
    assert done.stdout == "on stdout é\n".encode()  # to the byte
    own, explained = done.stderr[: len(TRACEBACK)], done.stderr[len(TRACEBACK) :]
    assert own == TRACEBACK.encode() and b"GL102" in explained and b"features.py:3" in explained


def test_a_real_program_is_run_and_explained(project: Path) -> None:
    pytest.importorskip("torch")
    done = why(project, "--", sys.executable, "train.py", "--epochs", "3")
    assert done.returncode == 1 and not done.stdout
    assert b"error[GL102] detached-loss" in done.stderr


def test_a_command_that_succeeds_is_left_alone(project: Path) -> None:
    done = why(project, "--", *failing(project), "0")  # it writes a traceback, but it does not fail
    assert done.returncode == 0
    assert done.stdout == "on stdout é\n".encode() and done.stderr == TRACEBACK.encode()


def test_a_command_that_fails_without_a_traceback(project: Path) -> None:
    done = why(project, "--", sys.executable, "-c", "import sys; sys.exit(3)")
    assert done.returncode == 3 and b"exit code 3, and wrote no traceback" in done.stderr


def test_a_command_that_is_not_there(project: Path) -> None:
    done = why(project, "--", "no-such-command-at-all")
    assert done.returncode == 127 and b"there is no such command" in done.stderr


def test_a_command_that_is_killed(project: Path) -> None:
    done = why(project, "--", sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 128 + signal.SIGKILL


def test_input_goes_to_the_command(project: Path) -> None:
    done = why(project, "--", sys.executable, "-c", "print(input()[::-1])", text="abc\n")
    assert done.returncode == 0 and done.stdout == b"cba\n"


def test_much_output_goes_through(project: Path) -> None:
    program = "import sys\nfor n in range(300_000): print(n, 'x' * 40)\nsys.stderr.write('e' * 3_000_000)"
    done = why(project, "--", sys.executable, "-c", program)
    assert len(done.stdout.splitlines()) == 300_000 and len(done.stderr) == 3_000_000


def test_on_a_terminal_the_command_has_one_too(project: Path) -> None:
    """Colours and progress bars stay; newlines are the terminal's to translate, once."""
    (project / "asks.py").write_text(
        textwrap.dedent("""
            import os, sys
            print(sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.isatty(), os.get_terminal_size(1).columns)
        """)
    )
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 97, 0, 0))
    process = subprocess.Popen(
        [*WHY, "--", sys.executable, "asks.py"], cwd=project, stdin=theirs, stdout=theirs, stderr=theirs
    )
    assert process.wait(60) == 0
    assert os.read(ours, 1000) == b"True True True 97\r\n"
    os.close(ours)
    os.close(theirs)


def test_ctrl_c_is_the_commands(project: Path) -> None:
    """The command cleans up and ends as it likes; its exit code is ours."""
    (project / "waits.py").write_text(
        textwrap.dedent("""
            import sys, time
            try:
                print("ready", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                print("saved", flush=True)
                sys.exit(5)
        """)
    )
    process = subprocess.Popen(
        [*WHY, "--", sys.executable, "waits.py"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the foreground
    out, _ = process.communicate(timeout=60)
    assert out == b"saved\n" and process.returncode == 5


def test_an_interrupted_command_needs_no_explanation(project: Path) -> None:
    done = why(project, "--", sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    assert done.returncode == 130 and b"gradline" not in done.stderr


def test_who_stops_us_stops_the_command(project: Path) -> None:
    (project / "waits.py").write_text(
        textwrap.dedent("""
            import signal, sys, time
            signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(6)))
            print("ready", flush=True)
            time.sleep(60)
        """)
    )
    process = subprocess.Popen(
        [*WHY, "--", sys.executable, "waits.py"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert out == b"saved\n" and process.returncode == 6
