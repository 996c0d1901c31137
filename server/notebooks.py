"""A notebook as one program: its code cells joined by newlines, in their order.

What IPython adds to Python (`%magic`, `!command`, `%%cell`, `x = !ls`, `name?`) is masked with text of the same length,
so that every offset in the program is one in its cell. `_` stands where a value would, a comment hides the rest:

    %matplotlib inline       _#atplotlib inline
    files = !ls              files = _#s
    %time y = model(x)       _;    y = model(x)

The JSON is read with the places of its values, so an edit rewrites the source of the cells it touches and nothing else.
"""

from __future__ import annotations

import itertools
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the stubs
from typing import Any, NamedTuple

from .text import Source, line_starts
from .units import OPAQUE

MAX_CHARACTERS = 64_000_000  # of JSON: more than any notebook that an editor opens; about a second of reading


class NotebookError(ValueError):
    """Text that is no notebook that can be read; the message says what is wrong, and where if that is known."""


class Cell(NamedTuple):
    """A code cell: its number in the notebook, counted over all cells, its text, and where that starts in the program."""

    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    text: str
    start: int


class Notebook:
    """A notebook: `program` is what its code cells say to Python, `cells` are those cells."""

    def __init__(self, raw: str, cells: tuple[Cell, ...], program: str, spans: dict[int, tuple[int, int]]) -> None:
        self.cells = cells
        self.program = program
        self._raw = raw
        self._spans = spans  # where in the JSON the source of each code cell stands
        self._starts = [cell.start for cell in cells]

    def source(self, path: str) -> Source:
        """The program as a source that knows its notebook."""
        return Source(self.program, path, self)

    def position(self, offset: int) -> tuple[int, int, int]:
        """The cell's number in the notebook, the line in it and the column, all from 0, of an offset in the program."""
        cell = self._cell(offset)
        return cell.index, *Source(cell.text).position(offset - cell.start)

    def offset(self, index: int, line: int, column: int) -> int:
        """The offset in the program of a line and column, from 0, of cell number `index`.

        Raises KeyError if that is no code cell.
        """
        for cell in self.cells:
            if cell.index == index:
                return cell.start + Source(cell.text).offset(line, column)
        raise KeyError(index)

    def edited(self, edits: Iterable[tuple[int, int, str]]) -> str:
        """The notebook's JSON with `(start, end, content)` of the program replaced; all else stays as it is written.

        Raises ValueError if edits overlap or one reaches over the end of a cell.
        """
        changed: dict[int, list[tuple[int, int, str]]] = {}
        for start, end, content in sorted(edits):
            cell = self._cell(start)
            start, end = start - cell.start, end - cell.start
            before = changed.setdefault(cell.index, [])
            if not 0 <= start <= end <= len(cell.text):
                raise ValueError("an edit reaches over the end of a cell")
            if before and before[-1][1] > start:
                raise ValueError("edits overlap")
            before.append((start, end, content))
        raw = self._raw
        for cell in sorted(self.cells, reverse=True):
            if cell.index not in changed:
                continue
            text = cell.text
            for start, end, content in reversed(changed[cell.index]):
                text = text[:start] + content + text[end:]
            a, b = self._spans[cell.index]
            raw = raw[:a] + _written(text, raw[a:b], raw[:a]) + raw[b:]
        return raw

    def _cell(self, offset: int) -> Cell:
        if not self.cells:
            raise ValueError("the notebook has no code cell")
        return self.cells[max(bisect_right(self._starts, offset) - 1, 0)]


def read(raw: str) -> Notebook:
    """The notebook that this JSON is (nbformat 4). Raises NotebookError.

    A notebook in another language than Python has no code cells.
    """
    if len(raw) > MAX_CHARACTERS:
        raise NotebookError(f"the notebook has {len(raw):,} characters; at most {MAX_CHARACTERS:,} are read")
    try:
        return _read(raw)
    except json.JSONDecodeError as error:
        raise NotebookError(f"not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise NotebookError("the JSON is nested too deep to be a notebook") from None
    except ValueError as error:  # NotebookError too; an int of more digits than Python reads
        raise NotebookError(str(error)) from None


def _read(raw: str) -> Notebook:
    json.loads(raw)  # raises with a place if any of it is no JSON
    top = dict(_members(raw, _blank(raw, 0), "the notebook"))
    version = _value(raw, top.get("nbformat"))
    if not isinstance(version, int) or "cells" not in top:
        raise NotebookError("not a notebook: `nbformat` and `cells` are missing" if "cells" not in top else
                            "not a notebook: `nbformat` is no number")  # fmt: skip
    if version != 4:
        raise NotebookError(f"nbformat {version} is not read, only 4: `jupyter nbconvert --to notebook` converts it")
    python = _language(_value(raw, top.get("metadata"))) in (None, "python", "ipython", "python3")
    cells: list[Cell] = []
    masked: list[str] = []
    spans: dict[int, tuple[int, int]] = {}
    start = 0
    for index, span in enumerate(_items(raw, top["cells"][0])):
        cell = dict(_members(raw, span[0], f"cell {index}"))
        if not python or _value(raw, cell.get("cell_type")) != "code":
            continue
        source = _value(raw, cell.get("source"))
        if source is None:
            continue  # a cell without text, as some tools write it, says nothing; the others do
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise NotebookError(f"cell {index}: `source` is neither text nor a list of lines")
        cells.append(Cell(index, source, start))
        masked.append(mask(source))
        spans[index] = cell["source"]
        start += len(source) + 1
    return Notebook(raw, tuple(cells), "\n".join(masked), spans)


def _language(metadata: Any) -> str | None:
    if not isinstance(metadata, dict):
        return None
    for key, field in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key)
        if isinstance(part, dict) and isinstance(part.get(field), str):
            return part[field].lower()
    return None


# ---------------------------------------------------------------- JSON with places

_decoder = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")


def _blank(raw: str, at: int) -> int:
    return _SPACE.match(raw, at).end()  # type: ignore[union-attr]


def _value(raw: str, span: tuple[int, int] | None) -> Any:
    return None if span is None else _decoder.raw_decode(raw, span[0])[0]


def _members(raw: str, at: int, what: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The keys of the object at `at` with the spans of their values; `raw` is JSON."""
    if raw[at : at + 1] != "{":
        raise NotebookError(f"{what} is no JSON object")
    at = _blank(raw, at + 1)
    while raw[at] != "}":
        key, at = scanstring(raw, at + 1, True)
        start = _blank(raw, _blank(raw, at) + 1)
        _, end = _decoder.raw_decode(raw, start)
        yield key, (start, end)
        at = _blank(raw, end)
        if raw[at] == ",":
            at = _blank(raw, at + 1)


def _items(raw: str, at: int) -> Iterator[tuple[int, int]]:
    """The spans of the items of the array at `at`; `raw` is JSON."""
    if raw[at] != "[":
        raise NotebookError("`cells` is no list")
    at = _blank(raw, at + 1)
    while raw[at] != "]":
        _, end = _decoder.raw_decode(raw, at)
        yield at, end
        at = _blank(raw, end)
        if raw[at] == ",":
            at = _blank(raw, at + 1)


_FIRST = re.compile(r'\[([ \t\n\r]*)"')
_LINE_INDENT = re.compile(r"(?:^|\n)([ \t]*)[^\n]*\Z")


def _written(text: str, old: str, before: str) -> str:
    """`text` as JSON in the manner of the value `old`, which stands behind `before`: one string or a list of lines."""
    escaped = old.isascii() and "\\u" in old
    if old.startswith('"'):
        return json.dumps(text, ensure_ascii=escaped)
    starts = line_starts(text)
    lines = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True) if a < b]
    if not lines:
        return "[]"
    if found := _FIRST.match(old):
        gap = found[1]
        close = old[: old.rindex("]")][len(old[: old.rindex("]")].rstrip(" \t\n\r")) :]
    else:  # it was empty: as Jupyter writes it, one blank deeper than its key
        indent = _LINE_INDENT.search(before)[1]  # type: ignore[index]
        gap, close = ("\n" + indent + " ", "\n" + indent) if "\n" in before else ("", "")
    items = list(itertools.islice(_items(old, 0), 2))
    only = "," + (gap or ("" if before.endswith(":") else " "))  # how a list of one line would go on
    between = old[items[0][1] : items[1][0]] if len(items) == 2 else only
    return "[" + gap + between.join([json.dumps(line, ensure_ascii=escaped) for line in lines]) + close + "]"


# ---------------------------------------------------------------- IPython

# Cell magics whose cell is Python that runs in the notebook; the cell of any other is masked as a whole
_PYTHON_CELL = frozenset(["time", "timeit", "capture", "prun", "debug", "memit", "snakeviz", "wandb", "heat", "mprun"])

_TOKEN = re.compile(OPAQUE.pattern + r"| [()\[\]{}] | \\\r?\n | \n", re.X | re.S)
_MAGIC = re.compile(r"[ \t]*([%!?])")
_CELL = re.compile(r"\s*%%(\w+)")
_TIME = re.compile(r"[ \t]*(%time[ \t]+)(?=[^\s\-])")
_ASSIGNED = re.compile(r"[ \t]*[\w.,\[\]'\" \t*]*[^=!<>%\s][ \t]*=[ \t]*([!%])(?![ \t=])")
_HELP = re.compile(r"[ \t]*([\w.*\[\]]+\?\??)[ \t]*\r?$")
_COMPOUND = re.compile(r"(?:if|for|while|with|try|def|class|async|@)\b")


def mask(text: str) -> str:
    """The text of a cell with what is not Python masked, as long as before and with the same line breaks."""
    found = _CELL.match(text)
    if found and found[1] not in _PYTHON_CELL:
        return "".join([_hidden(line, 0, "#") for line in _lines(text)])
    masked: list[str] = []
    at = 0
    if found:
        at = _line_end(text, found.start(1))
        masked += [_hidden(line, 0, "#") for line in _lines(text[:at])]
    while at < len(text):
        end = _line_end(text, at)
        line = text[at:end]
        if (place := _foreign(line)) is not None:
            masked.append(_foreign_masked(line, place))
            # a command goes on after a backslash
            while line.rstrip("\r\n").endswith("\\") and end < len(text):
                at, end = end, _line_end(text, end)
                line = text[at:end]
                masked.append(_hidden(line, 0, "#"))
        else:
            end = _statement_end(text, at)
            masked.append(text[at:end])
        at = end
    return "".join(masked)


def _foreign(line: str) -> int | None:
    """Where on a line that begins a statement IPython's own language begins."""
    found = _MAGIC.match(line) or _HELP.match(line) or _ASSIGNED.match(line)
    return None if found is None else found.start(1)


def _foreign_masked(line: str, place: int) -> str:
    timed = _TIME.match(line)
    if timed and not _COMPOUND.match(line, timed.end()):
        return line[: timed.start(1)] + "_;" + " " * (timed.end() - timed.start(1) - 2) + line[timed.end() :]
    return _hidden(line, place, "_#")


def _hidden(line: str, place: int, by: str) -> str:
    """The line with `by` over what stands from `place` on; its line break stays."""
    length = len(line.rstrip("\r\n")) - place
    by = by[:length]
    return line[:place] + by + line[place + len(by) :]


def _line_end(text: str, at: int) -> int:
    """The start of the next line."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _lines(text: str) -> list[str]:
    starts = line_starts(text)
    return [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]


def _statement_end(text: str, at: int) -> int:
    """The start of the line after the logical line that begins at `at`: past brackets, strings and backslashes."""
    depth = 0
    for found in _TOKEN.finditer(text, at):
        token = found[0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        elif token == "\n" and depth <= 0:
            return found.end()
    return len(text)
