"""`gradline why`: explains a traceback, from a file, standard input, or a command that it runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import FAILURE, FINDINGS, INTERRUPTED, OK, command

if TYPE_CHECKING:
    from ..why import Explanation

STDIN = "-"
BYTES_LIMIT = 64_000_000  # of a file; the traceback is looked for at its end
BINARY_SHARE = 0.1  # of control characters, from which on bytes are no text

EPILOG = """\
  gradline why error.txt                        a file that holds a traceback, such as a log
  python train.py 2>&1 | gradline why           standard input
  gradline why -- python train.py --epochs 1    run it; its output and exit code are as ever, a failure is explained

exit codes: 0 a cause was found in the code that is here, 1 the error is told but no cause was found, 2 there is no
traceback to read. With a command, the code is the command's.
"""


def register(commands: Any, help_class: type[argparse.HelpFormatter]) -> None:
    parser = command(commands, help_class, "why", "explain a traceback by the code that it comes from", run)
    parser.usage = "gradline why [-h] [options] [FILE | -- COMMAND ...]"
    parser.epilog = EPILOG
    parser.formatter_class = _Examples
    parser.add_argument(
        "file", nargs="?", default=STDIN, metavar="FILE", help="what the program wrote (default: standard input)"
    )
    parser.add_argument("--folder", metavar="DIR", help="where the program ran (default: the current folder)")
    parser.add_argument(
        "--output-format", choices=("text", "json", "markdown"), default="text", help="how to write it (default: text)"
    )
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="(default: auto)")
    parser.add_argument("--config", metavar="FILE", help="take the settings from this file alone")
    parser.add_argument("--isolated", action="store_true", help="heed no settings file")


class _Examples(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=80)


def run(arguments: argparse.Namespace) -> int:
    if arguments.output_format == "json":  # programs are told in English
        from ..messages import ENGLISH, use

        use(ENGLISH)
    program: list[str] | None = arguments.program
    if arguments.folder is not None and not os.path.isdir(arguments.folder):
        return _refuse(f"--folder {arguments.folder}: there is no such folder")
    if program is not None:
        return _run_program(program, arguments)
    data = _read(arguments.file)
    if isinstance(data, int):
        return data
    text = _decoded(data)
    name = "standard input" if arguments.file == STDIN else arguments.file
    if text is None:
        return _refuse(f"{name} is no text: what a program wrote to its terminal or log is wanted")
    if not text.strip():
        return _refuse(f"{name} is empty: a traceback is wanted, such as `python train.py 2>&1 | gradline why` gives")
    explained = _explain(text, arguments, ())
    if explained is None:
        return _refuse(
            f"no traceback in {name}: none of its {text.count(chr(10)) + 1} lines begins one, and none is an error that is known"
        )
    _write(explained, arguments, sys.stdout)
    return OK if explained.found else FINDINGS


def _refuse(message: str) -> int:
    print(f"gradline: {message}", file=sys.stderr)
    return FAILURE


def _read(name: str) -> bytes | int:
    """The bytes to look at, or the exit code if there are none."""
    try:
        if name == STDIN:
            if sys.stdin.isatty():
                print("gradline: paste the traceback, then press Ctrl-D (Ctrl-Z and Enter on Windows)", file=sys.stderr)
            return sys.stdin.buffer.read(BYTES_LIMIT)
        if os.path.isdir(name):
            return _refuse(f"{name} is a folder: the file that holds the traceback is wanted")
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > BYTES_LIMIT:
                file.seek(size - BYTES_LIMIT)
            return file.read(BYTES_LIMIT)
    except OSError as error:
        return _refuse(f"{name} can't be read: {(error.strerror or str(error)).lower()}")


def _decoded(data: bytes) -> str | None:
    """The text of an output; None if it is none. PowerShell redirects as UTF-16."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    text = data.decode("utf-8-sig", "replace")
    head = text[:100_000]
    odd = sum(1 for char in head if (char < " " and char not in "\t\n\r\x08\x1b\x0c\x07") or char == "\ufffd")
    return None if odd > BINARY_SHARE * max(len(head), 1) else text


def _explain(text: str, arguments: argparse.Namespace, program: Sequence[str]) -> Explanation | None:
    from ..config import Configuration, Overrides
    from ..why import explain
    from ..workspace import Workspace

    def opened(roots: list[str]) -> Workspace:
        return Workspace(roots, Configuration(arguments.config, Overrides(), arguments.isolated))

    return explain(text, arguments.folder, opened, program)


def _write(explained: Explanation, arguments: argparse.Namespace, stream: Any) -> None:
    if arguments.output_format == "json":
        import json

        from ..why.json import as_json

        json.dump(as_json(explained), stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    elif arguments.output_format == "markdown":
        from ..why import markdown

        stream.write(markdown.write(explained, markdown.report(explained)) + "\n")
    else:
        from ..report.terminal import terminal_width, wants_color
        from ..why import terminal

        terminal.write(explained, stream, wants_color(arguments.color, stream), terminal_width(stream))
    _say_problems(explained)


def _say_problems(explained: Explanation) -> None:
    from ..report import here, one_line

    base = here().rstrip("/") + "/"
    for problem in explained.workspace.disk.problems:
        print(f"gradline: warning: {problem.path.removeprefix(base)} {one_line(problem.message)}", file=sys.stderr)


def _run_program(program: list[str], arguments: argparse.Namespace) -> int:
    """Runs the command; if it fails, explains on standard error, so that the command's own output stays what it is."""
    from ..why import running

    if not program:
        return _refuse("there is no command behind `--`")
    if arguments.file != STDIN:
        return _refuse(f"give either a file ({arguments.file}) or a command behind `--`, not both")
    try:
        code, output = running.run(program)
    except FileNotFoundError:
        print(f"gradline: {program[0]}: there is no such command", file=sys.stderr)
        return running.NOT_FOUND
    except OSError as error:
        print(f"gradline: {program[0]} can't be run: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return running.NOT_STARTED
    if code in (OK, INTERRUPTED):
        return code
    try:
        text = _decoded(output)
        explained = _explain(text, arguments, program) if text else None
        if explained is None:
            print(
                f"gradline: the command failed with exit code {code}, and wrote no traceback to explain",
                file=sys.stderr,
            )
        else:
            print(file=sys.stderr)
            _write(explained, arguments, sys.stderr)
    except Exception as error:  # whatever goes wrong here, the exit code is the command's
        if os.environ.get("GRADLINE_DEBUG"):
            raise
        print(f"gradline: the failure can't be explained: {type(error).__name__}: {error}", file=sys.stderr)
    return code
