"""Colour and width of text on a terminal, by rich's knowledge of both."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TextIO

STYLES: Mapping[str, str] = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;34",
    "hint": "1;36",
    "name": "1",
    "place": "1",
    "gutter": "34",
    "number": "1;35",
    "note": "35",
    "fix": "1;36",
    "good": "1;32",
    "add": "32",
    "remove": "31",
    "dim": "2",
}
MAX_WIDTH = 100  # longer lines of prose are hard to read
TAB = "    "


class Painter:
    """Wraps text in the escape codes of a style, or leaves it as it is."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.color and text else text


def wants_color(choice: str, stream: TextIO) -> bool:
    """Whether to write colours, by `--color` and, when that is "auto", as the conventions of terminals have it."""
    if choice != "auto":
        return choice == "always"
    environ = os.environ
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR") or environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb" and _ready(stream)


def _ready(stream: TextIO) -> bool:
    """Windows' old console knows no escape codes until it is told to."""
    if sys.platform != "win32":
        return True
    from rich.console import Console

    return not Console(file=stream).legacy_windows


def terminal_width(stream: TextIO) -> int:
    """How wide to write: the terminal's columns within reason, 80 when it is none."""
    if not stream.isatty():
        return 80
    return max(40, min(shutil.get_terminal_size().columns, MAX_WIDTH))


def wrap(text: str, width: int, first: str = "", later: str | None = None) -> list[str]:
    """`text` in lines of at most `width` columns; words longer than that (paths, links) are kept whole."""
    later = first if later is None else later
    if not text.isascii():
        return _wrap_wide(text, width, first, later)
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


# Chinese, Japanese and full-width signs: a line may end after each, but not before a closing sign.
_PIECE = re.compile(
    r"[\u2e80-\u9fff\uff00-\uffef][\u3001\u3002\uff01\uff09\uff0c\uff1a\uff1b\uff1f]*|\s+|[^\s\u2e80-\u9fff\uff00-\uffef]+"
)


def _wrap_wide(text: str, width: int, first: str, later: str) -> list[str]:
    """The same for a text in whose script words are not told apart by spaces, and a character may take two columns."""
    lines: list[str] = []
    line = first
    for piece in _PIECE.findall(text):
        if cells(line + piece.rstrip()) > width and line.strip() and line not in (first, later):
            lines.append(line.rstrip())
            line = later + piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()]


def shown(char: str) -> str:
    """A character of a source line as it may be written to a terminal: nothing that the terminal would act on."""
    if char == "\t":
        return TAB
    return char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"


def cells(text: str) -> int:
    """The columns that `text` takes; ASCII needs no table."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
