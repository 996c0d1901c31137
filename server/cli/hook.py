"""`gradline hook`: what a coding assistant runs when it has edited files, and is told of what it has broken.

An assistant describes the edit on standard input, as JSON. Claude Code and Codex say it alike, and pass the error stream
on to the model where the exit code is 2; Cursor has other words, and passes on what the answer has as
`additional_context`. Whatever is not understood is no reason to stop an assistant: nothing is said then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from . import OK, command

TOLD = 2  # the assistant reads the error stream
SUFFIXES = (".py", ".pyi", ".ipynb")
FIELDS = ("file_path", "notebook_path", "path")
PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: (.+)$", re.MULTILINE)  # in the patches that Codex applies
CURSOR = ("afterFileEdit", "postToolUse")  # events of Cursor, whose first letter is small
INPUT_LIMIT = 64_000_000  # bytes

EPILOG = """\
  gradline hook               reads what was edited from standard input, as Claude Code, Codex and Cursor write it
  gradline hook train.py      the same for files that are named

exit codes: 0 nothing to say, 2 errors or warnings were found, and are told on the error stream
"""


def register(commands: Any, help_class: type[argparse.HelpFormatter]) -> None:
    parser = command(commands, help_class, "hook", "tell a coding assistant what its edit has broken", run)
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="*", metavar="FILE", help="what was edited (default: what standard input says)")


def run(arguments: argparse.Namespace) -> int:
    said = {} if arguments.files else _read()
    files = arguments.files or list(dict.fromkeys(_edited(said)))
    there = [file for file in files if file.endswith(SUFFIXES) and os.path.isfile(file)]
    if not there:
        return OK
    from ..mcp import tools
    from ..messages import ENGLISH, use

    use(ENGLISH)
    try:
        text, findings = tools.check_edited(there)
    except tools.Refused as error:
        print(f"gradline: {error}", file=sys.stderr)
        return OK  # what is wrong with the settings is not the assistant's to mend
    if not findings:
        return OK
    text = f"gradline: this program loses gradients.\n\n{text}"
    if said.get("hook_event_name") in CURSOR:
        print(json.dumps({"additional_context": text}))
        return OK
    print(text, file=sys.stderr)
    return TOLD


def _read() -> dict[str, Any]:
    """What the assistant says; nothing where that is no object."""
    try:
        return _object(json.loads(sys.stdin.buffer.read(INPUT_LIMIT)))
    except ValueError:
        return {}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # type: ignore[reportUnknownVariableType]


def _edited(said: dict[str, Any]) -> Iterator[str]:
    """The files that an edit was made to, as far as they are said. Relative ones begin where the assistant says it is."""
    base = next(iter(_texts(said, ("cwd",))), "")
    tool = _object(said.get("tool_input"))
    patches = [file.strip() for text in _texts(tool, tuple(tool)) for file in PATCHED.findall(text)]
    for file in (*_texts(said, FIELDS), *_texts(tool, FIELDS), *patches):
        yield os.path.join(base, file)


def _texts(some: dict[str, Any], fields: tuple[str, ...]) -> list[str]:
    return [value for field in fields if isinstance(value := some.get(field), str)]
