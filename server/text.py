"""Text and the places in it: the only file that counts characters.

An *offset* counts code points from the start of a text. A *position* is a line and a column, both from 0, the column in
code points. A *units* column counts what an editor counts: bytes of UTF-8, code units of UTF-16, or code points
("utf-32"). Lines break at `\\n`, `\\r\\n` and `\\r` and nowhere else: a form feed or U+2028 inside a line is a character
like any other (`str.splitlines` would break there, Python and LSP do not).
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .notebooks import Notebook

ENCODINGS = ("utf-8", "utf-16", "utf-32")

_BREAK = re.compile(r"\r\n|\r|\n")
_NEWLINE = re.compile("\n")
# PEP 263; the second line counts only if the first holds no code
_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)")


def line_starts(text: str) -> list[int]:
    """The offset at which each line starts; never empty, the first is 0."""
    breaks = _BREAK if "\r" in text else _NEWLINE
    starts = [0]
    starts.extend([found.end() for found in breaks.finditer(text)])
    return starts


class Source:
    """A text, the path it is held under, and the way between offsets, positions and an editor's columns.

    `cells` is set if the text is the joined program of a notebook (see `notebooks.py`).
    """

    def __init__(self, text: str, path: str = "", cells: Notebook | None = None) -> None:
        self.text = text
        self.path = path
        self.cells = cells

    def __repr__(self) -> str:
        return f"Source({self.path!r}, {len(self.text)} characters)"

    @cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line starts; never empty, the first is 0."""
        return line_starts(self.text)

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset, both from 0, the column in code points. Offsets outside are clamped."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self.line_starts, offset) - 1
        return line, offset - self.line_starts[line]

    def offset(self, line: int, column: int) -> int:
        """The offset of a position; a column past the end of its line means that end, a line past the last the end."""
        if line < 0:
            return 0
        if line >= len(self.line_starts):
            return len(self.text)
        start, end = self._line(line)
        return min(start + max(column, 0), end)

    def line_text(self, line: int) -> str:
        """The text of a line without its line break; empty if there is no such line."""
        if not 0 <= line < len(self.line_starts):
            return ""
        start, end = self._line(line)
        return self.text[start:end]

    def to_units(self, line: int, column: int, encoding: str) -> int:
        """The column as an editor that counts in `encoding` ("utf-8", "utf-16", "utf-32") has it."""
        _known(encoding)
        before = self.line_text(line)[: max(column, 0)]
        if encoding == "utf-32" or before.isascii():
            return len(before)
        if encoding == "utf-16":
            return len(before) + sum(char > "\uffff" for char in before)
        return sum(_utf8_length(char) for char in before)

    def from_units(self, line: int, column: int, encoding: str) -> int:
        """The column in code points; a column in the midst of a character means its start, one past the line its end."""
        _known(encoding)
        text = self.line_text(line)
        column = max(column, 0)
        if encoding == "utf-32" or text.isascii():
            return min(column, len(text))
        for index, char in enumerate(text):
            column -= (1 + (char > "\uffff")) if encoding == "utf-16" else _utf8_length(char)
            if column < 0:
                return index
        return len(text)

    def _line(self, line: int) -> tuple[int, int]:
        start = self.line_starts[line]
        if line + 1 == len(self.line_starts):
            return start, len(self.text)
        end = self.line_starts[line + 1] - 1
        if end > start and self.text[end] == "\n" and self.text[end - 1] == "\r":
            end -= 1
        return start, end


def _known(encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise ValueError(f"unknown position encoding {encoding!r}: one of {', '.join(ENCODINGS)} is needed")


def _utf8_length(char: str) -> int:
    # a lone surrogate has three bytes, as any character of its range
    return 1 if char < "\x80" else 2 if char < "\u0800" else 3 if char <= "\uffff" else 4


def utf8_columns(line: str) -> list[int]:
    """For each byte offset into the UTF-8 form of `line`, its end included, the code point that holds it."""
    columns: list[int] = []
    for index, char in enumerate(line):
        columns.extend([index] * _utf8_length(char))
    columns.append(len(line))
    return columns


class UndecodableError(ValueError):
    """Bytes that are no text. `offset` is the byte at fault and `line` its line, from 1; both None if it is no place."""

    def __init__(self, message: str, offset: int | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset
        self.line = line


class Decoded(NamedTuple):
    """What `decode` found; `encode` is the way back."""

    text: str
    encoding: str
    bom: bool

    def encode(self, text: str) -> bytes:
        """`text` in the encoding of the file that this was decoded from. Raises UnicodeEncodeError if it cannot be."""
        return (codecs.BOM_UTF8 if self.bom else b"") + text.encode(self.encoding)


def decode(data: bytes) -> Decoded:
    """The text of a Python file: UTF-8 unless a coding cookie says otherwise; newlines stay as they are.

    A byte order mark is taken off and remembered. Raises UndecodableError with what is wrong and where.
    """
    bom = data.startswith(codecs.BOM_UTF8)
    if bom:
        data = data[len(codecs.BOM_UTF8) :]
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UndecodableError("the file is UTF-16, which Python does not read as source", 0, 1)
    encoding, line = _cookie(data)
    if encoding is None:
        encoding = "utf-8"
    else:
        try:
            codec = codecs.lookup(encoding).name
        except (LookupError, ValueError):
            raise UndecodableError(f"unknown encoding {encoding!r} in the coding line", None, line) from None
        if bom and codec not in ("utf-8", "utf-8-sig"):
            raise UndecodableError(f"the byte order mark says UTF-8, the coding line says {encoding!r}", None, line)
        encoding = "utf-8" if codec == "utf-8-sig" else codec
    try:
        return Decoded(data.decode(encoding), encoding, bom)
    except UnicodeDecodeError as error:
        at = error.start
        line = len(re.findall(rb"\r\n|\r|\n", data[:at])) + 1
        byte = f"0x{data[at]:02x}" if at < len(data) else "end of file"
        offset = at + (len(codecs.BOM_UTF8) if bom else 0)
        what = f"line {line}: {byte} at byte {offset} is not {encoding} ({error.reason})"
        raise UndecodableError(what, offset, line) from None
    except LookupError:
        raise UndecodableError(f"{encoding!r} in the coding line is not a text encoding", None, line) from None
    except (UnicodeError, ValueError) as error:
        raise UndecodableError(f"the file is not {encoding} ({error})", None, None) from None


def _cookie(data: bytes) -> tuple[str | None, int]:
    if found := _COOKIE.match(data):
        return found[1].decode("ascii", "replace"), 1
    blank = _BLANK.match(data)
    if blank and (found := _COOKIE.match(data, blank.end())):
        return found[1].decode("ascii", "replace"), 2
    return None, 1
