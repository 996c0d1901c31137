"""The command `gradline`: reads the arguments, and calls the module of the subcommand, which is loaded only then.

Exit codes are ruff's: 0 nothing found, 1 findings, 2 the check could not be made as asked.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

from .. import __version__

OK, FINDINGS, FAILURE = 0, 1, 2
INTERRUPTED = 130  # what shells call a program that was stopped with Ctrl-C

DESCRIPTION = "Shows where a PyTorch program loses its gradients, and puts it right."


class Help(argparse.HelpFormatter):
    """The width of a page, whatever the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=80)


class Parser(argparse.ArgumentParser):
    """Takes options between the paths, too: `gradline check a.py --fix b.py`."""

    _within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # type: ignore[override]
        if self._within:
            return super().parse_known_args(args, namespace)
        self._within = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._within = False


class Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print("gradline", __version__)
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (by default the process's own) and returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started this: nobody wants to hear
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal must not stop a report
    _speak()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        if argv is None and sys.argv[1:2] == ["check"]:
            gc.freeze()  # the process ends: to search what it has made for garbage took a tenth of a check
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `gradline check | head`
        _give_up_output()
        return FINDINGS
    except OSError as error:
        if os.environ.get("GRADLINE_DEBUG"):
            raise
        _give_up_output()
        print(f"gradline: {_refused(error)}", file=sys.stderr)
        return FAILURE
    except Exception as error:
        from ..config import ConfigError

        if isinstance(error, ConfigError):
            from ..report import clean

            print(f"gradline: {clean(str(error))}", file=sys.stderr)
        elif os.environ.get("GRADLINE_DEBUG"):
            raise
        else:
            print(
                f"gradline: crashed, which is a bug: {type(error).__name__}: {error}\n"
                "gradline: GRADLINE_DEBUG=1 shows where; please report that with the file it happened on",
                file=sys.stderr,
            )
        return FAILURE


def _give_up_output() -> None:
    """Whatever is still to be written to standard output goes nowhere, so that Python does not complain at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> str:
    """What the system would not do, in a sentence."""
    from ..report import clean

    try:
        os.getcwd()
    except OSError:
        return "the current folder is gone: change to one that is there"
    reason = (error.strerror or str(error)).lower()
    name = f"{clean(str(error.filename))}: " if error.filename is not None else "the output can't be written: "
    return name + reason


def _speak() -> None:
    """In the language of the environment; English, which most are told, costs nothing."""
    names = ("GRADLINE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")
    if sys.platform == "win32" or any(name in os.environ for name in names):
        from .. import language

        language.for_terminal()


def _dispatch(argv: list[str]) -> int:
    # the server and the probe have arguments of their own, and must not pay for the others
    if argv[:1] == ["server"] and _there("lsp"):
        from .. import lsp

        return lsp.main(argv[1:]) or OK
    if argv[:1] == ["probe"] and _there("probe"):
        from .. import probe

        return probe.main(argv[1:]) or OK
    program = None
    if argv[:1] == ["why"]:
        argv, program = why_arguments(argv)
    parser = _parser()
    arguments = parser.parse_args(argv)
    arguments.program = program
    if arguments.command is None:
        parser.print_help()
        return FAILURE
    return arguments.run(arguments)


def why_arguments(argv: list[str]) -> tuple[list[str], list[str] | None]:
    """What stands before `--`, and the command behind it, whose options are not ours to read."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :] if at < len(argv) else None


def _there(package: str) -> bool:
    """Whether this installation has the face `package`."""
    module = importlib.import_module(f"..{package}", __name__)
    return hasattr(module, "main")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradline", description=DESCRIPTION, formatter_class=Help)
    parser.add_argument("--version", action=Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)

    from . import check, hook, mcp, rules, why

    check.register(commands, Help)
    rules.register(commands, Help)
    why.register(commands, Help)
    mcp.register(commands, Help)
    hook.register(commands, Help)
    if _there("lsp"):
        commands.add_parser("server", help="speak LSP with an editor", formatter_class=Help, add_help=False)
    if _there("probe"):
        commands.add_parser(
            "probe", help="run a training script and watch its gradients", formatter_class=Help, add_help=False
        )
    return parser


def command(
    commands: Any, help_class: type[argparse.HelpFormatter], name: str, summary: str, run: Any
) -> argparse.ArgumentParser:
    """Adds the subcommand `name`, which calls `run(arguments)`."""
    parser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + ".", formatter_class=help_class
    )
    parser.set_defaults(run=run)
    return parser
