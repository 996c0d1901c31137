"""The documents as the client has them: opened, changed, closed.

pygls has a store of its own, which is not used: it breaks lines where `str.splitlines` does (at form feeds, U+2028
and others), the protocol does not, and so it corrupts the text at the next incremental change. Here lines are those
of `text.Source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lsprotocol import types

from ..text import Source
from . import convert
from .notebooks import LANGUAGES, Notebook


@dataclass(frozen=True)
class View:
    """A document that the client shows: a file, or a cell of a notebook, which is a part of the notebook's program.

    `path` is what the project holds it under, `start` the offset at which the text of the document stands in the
    text that the project has there.
    """

    uri: str
    path: str
    version: int
    source: Source
    start: int
    encoding: str

    @property
    def end(self) -> int:
        return self.start + len(self.source.text)

    def offset(self, position: types.Position) -> int:
        """The offset in the project's text."""
        return self.start + convert.offset(self.source, position, self.encoding)

    def range(self, start: int, end: int) -> types.Range:
        """The span of the project's text in the document's positions; what lies outside is cut off."""
        return convert.span(self.source, start - self.start, end - self.start, self.encoding)

    def holds(self, start: int, end: int) -> bool:
        return self.start <= start and end <= self.end


class Document:
    """A text that the client has open."""

    __slots__ = ("path", "source", "uri", "version")

    def __init__(self, uri: str, path: str, version: int, text: str) -> None:
        self.uri = uri
        self.path = path
        self.version = version
        self.source = Source(text, path)


class Documents:
    """Open documents and notebooks.

    `changed(path, source)` is called after each change, with None when closed; `gone(uri)` when a cell is no more.
    """

    def __init__(self, changed: Callable[[str, Source | None], None], gone: Callable[[str], None]) -> None:
        self.encoding = "utf-16"
        self._gone = gone
        self._changed = changed
        self._documents: dict[str, Document] = {}
        self._notebooks: dict[str, Notebook] = {}
        self._cells: dict[str, Notebook] = {}
        self._by_path: dict[str, Document | Notebook] = {}

    # Text documents

    def open(self, item: types.TextDocumentItem) -> None:
        path = convert.path_of(item.uri)
        if item.language_id not in LANGUAGES and not path.endswith((".py", ".pyi")):
            return
        document = Document(item.uri, path, item.version, item.text)
        self._documents[item.uri] = self._by_path[path] = document
        self._changed(path, document.source)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        document = self._documents.get(params.text_document.uri)
        if document is None:
            return
        text = convert.changed(document.source, params.content_changes, self.encoding)
        document.source = Source(text, document.path)
        document.version = params.text_document.version
        self._changed(document.path, document.source)

    def close(self, uri: str) -> None:
        document = self._documents.pop(uri, None)
        if document is not None:
            self._by_path.pop(document.path, None)
            self._changed(document.path, None)

    # Notebooks

    def open_notebook(self, params: types.DidOpenNotebookDocumentParams) -> None:
        notebook = Notebook(params.notebook_document, params.cell_text_documents, convert.path_of)
        self._notebooks[notebook.uri] = self._by_path[notebook.path] = notebook
        self._settle(notebook)

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        notebook = self._notebooks.get(params.notebook_document.uri)
        if notebook is not None and notebook.change(params.change, self.encoding):
            self._settle(notebook)

    def close_notebook(self, params: types.DidCloseNotebookDocumentParams) -> None:
        notebook = self._notebooks.pop(params.notebook_document.uri, None)
        if notebook is not None:
            self._by_path.pop(notebook.path, None)
            self._changed(notebook.path, None)
            self._own(notebook, [])

    def _settle(self, notebook: Notebook) -> None:
        self._changed(notebook.path, notebook.source)
        self._own(notebook, notebook.cells)

    def _own(self, notebook: Notebook, cells: list[str]) -> None:
        before = [uri for uri, owner in self._cells.items() if owner is notebook and uri not in cells]
        for uri in before:
            del self._cells[uri]
        self._cells.update(dict.fromkeys(cells, notebook))
        for uri in before:
            self._gone(uri)

    # What is open

    def view(self, uri: str) -> View | None:
        """The open document or cell at this address."""
        document = self._documents.get(uri)
        if document is not None:
            return View(uri, document.path, document.version, document.source, 0, self.encoding)
        notebook = self._cells.get(uri)
        return next((view for view in self.views(notebook.path) if view.uri == uri), None) if notebook else None

    def views(self, path: str) -> list[View]:
        """The document open at this path, or the cells of the notebook open there, in their order."""
        found = self._by_path.get(path)
        if found is None:
            return []
        if isinstance(found, Notebook):
            return [
                View(cell.uri, path, cell.version, cell.source, start, self.encoding) for cell, start in found.placed()
            ]
        return [View(found.uri, path, found.version, found.source, 0, self.encoding)]

    def paths(self) -> list[str]:
        """The paths of the open documents and notebooks, those opened last first."""
        return list(reversed(self._by_path))
