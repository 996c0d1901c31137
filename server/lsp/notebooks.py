"""Notebooks: the client's cells as one program, which the project holds at the notebook's path."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lsprotocol import types

from .. import notebooks
from ..text import Source
from . import convert

# All cells, as cells are counted: people and the probe say "cell 3" of the third one, whatever is in the others.
OPTIONS = types.NotebookDocumentSyncOptions(
    notebook_selector=[types.NotebookDocumentFilterWithNotebook(notebook="jupyter-notebook")], save=True
)
LANGUAGES = ("python", "python3")  # what clients call it


class Cell:
    """A code cell as the client has it."""

    __slots__ = ("source", "uri", "version")

    def __init__(self, uri: str, version: int, text: str) -> None:
        self.uri = uri
        self.version = version
        self.source = Source(text)


class Notebook:
    """An open notebook; `source` is its program, made anew after each change."""

    def __init__(
        self,
        document: types.NotebookDocument,
        texts: Iterable[types.TextDocumentItem],
        path_of: Callable[[str], str],
    ) -> None:
        self.uri = document.uri
        self.path = path_of(document.uri)
        self._texts = {
            item.uri: Cell(item.uri, item.version, item.text) for item in texts if item.language_id in LANGUAGES
        }
        self._order = [cell.document for cell in document.cells]
        self._join()

    @property
    def cells(self) -> list[str]:
        """The addresses of the cells, in their order."""
        return [cell.uri for cell, _ in self.placed()]

    def placed(self) -> list[tuple[Cell, int]]:
        """Each cell with the offset in the program at which its text stands."""
        return list(zip(self._shown, self._starts, strict=True))

    def change(self, change: types.NotebookDocumentChangeEvent, encoding: str) -> bool:
        """Applies what the client says was changed: cells put in, moved and taken out, and texts.

        Returns whether the program or the numbers of its cells are others now.
        """
        if change.cells is None:
            return False
        is_changed = False
        if (structure := change.cells.structure) is not None:
            is_changed = True
            for item in structure.did_open or ():
                if item.language_id in LANGUAGES:
                    self._texts[item.uri] = Cell(item.uri, item.version, item.text)
            at = structure.array
            self._order[at.start : at.start + at.delete_count] = [cell.document for cell in at.cells or ()]
            for closed in structure.did_close or ():
                self._texts.pop(closed.uri, None)
        for content in change.cells.text_content or ():
            cell = self._texts.get(content.document.uri)
            if cell is not None:
                cell.source = Source(convert.changed(cell.source, content.changes, encoding))
                cell.version = content.document.version
                is_changed = True
        if is_changed:
            self._join()
        return is_changed

    def _join(self) -> None:
        numbered = [(index, self._texts[uri]) for index, uri in enumerate(self._order) if uri in self._texts]
        self._shown = [cell for _, cell in numbered]
        cells: list[notebooks.Cell] = []
        start = 0
        for index, cell in numbered:
            cells.append(notebooks.Cell(index, cell.source.text, start))
            start += len(cell.source.text) + 1
        program = "\n".join(notebooks.mask(cell.text) for cell in cells)
        self.source = notebooks.Notebook("", tuple(cells), program, {}).source(self.path)
        self._starts = [cell.start for cell in cells]


def register(server: object) -> None:
    """Nothing to register: notebooks are synchronised by the protocol's own messages (see `server.py`)."""
