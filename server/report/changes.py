"""What edits make of a text: of a file, or of the cells of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .. import notebooks
from ..edits import Edit, apply
from ..text import Source


class Part(NamedTuple):
    """A text that stands for itself: a file, or a code cell of a notebook. `cell` is its number from 1, else None."""

    source: Source
    start: int  # where it begins in the text of the whole
    cell: int | None = None


def parts(source: Source) -> list[Part]:
    """The file, or the code cells of the notebook, as they are written."""
    if source.cells is None:
        return [Part(source, 0)]
    return [Part(Source(cell.text, source.path), cell.start, cell.index + 1) for cell in source.cells.cells]


def part_at(source: Source, offset: int) -> Part:
    """The part that holds an offset in the text of the whole."""
    found = [part for part in parts(source) if part.start <= offset]
    return found[-1] if found else Part(source, 0)


def is_possible(source: Source, edits: Iterable[Edit]) -> bool:
    """Whether edits of the program can be made in the file: in a notebook, each in one cell, and in no magic."""
    if source.cells is None:
        return True
    for edit in edits:
        part = part_at(source, edit.start)
        start, end = edit.start - part.start, edit.end - part.start
        if end > len(part.source.text) or part.source.text[start:end] != source.text[edit.start : edit.end]:
            return False
    return True


def applied(source: Source, edits: Sequence[Edit]) -> Source:
    """`source` after the edits; a notebook stays one. Raises ValueError where `is_possible` says no."""
    if source.cells is None:
        return Source(apply(source.text, edits), source.path)
    raw = source.cells.edited([(edit.start, edit.end, edit.content) for edit in edits])
    return notebooks.read(raw).source(source.path)


def raw(source: Source) -> str:
    """The text of the file that `source` was read from: of a notebook, the JSON."""
    return source.text if source.cells is None else source.cells.edited(())


def changed(before: Source, after: Source) -> Iterator[tuple[Part, Part]]:
    """The parts that differ, as they were and as they are."""
    for old, new in zip(parts(before), parts(after), strict=True):
        if old.source.text != new.source.text:
            yield old, new
