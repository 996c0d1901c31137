"""Files that change on the disk: the client tells of those that it watches, and all are looked at now and then.

Neovim on Linux watches none, VS Code none outside of its folders, and a watcher may fail. What was read is compared with
the disk when a document is opened, saved or closed, which is also when somebody comes back from what has changed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lsprotocol import types

from .convert import path_of

if TYPE_CHECKING:
    from .server import GradlineServer

PATTERNS = ("**/*.{py,ipynb}", "**/{pyproject,gradline,.gradline}.toml", "**/{.gitignore,.ignore}", "**/pyvenv.cfg")


class Watch:
    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._is_due = False

    def is_asked(self) -> bool:
        """Whether the client watches what it is asked to."""
        return self._server.client_has("workspace.did_change_watched_files.dynamic_registration")

    def look_soon(self) -> None:
        self._is_due = True
        self._server.analysis.wake()

    def look(self) -> Iterator[None]:
        if not self._is_due:
            return
        found: dict[str, bool] = {}
        for one in self._server.engine.altered():
            if one is None:
                yield
            else:
                found[one[0]] = one[1]
        self._is_due = False
        if found:
            self.changed(found)

    def changed(self, found: dict[str, bool]) -> None:
        """These files have changed; True: have come or gone."""
        self._server.engine.touch(found)
        if any(found.values()) or any(not path.endswith((".py", ".ipynb")) for path in found):
            self._server.analysis.rescan()
        else:
            self._server.analysis.refresh()


def register(server: GradlineServer) -> None:
    server.analysis_idle.append(server.watch.look)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.watch.look_soon()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved_notebook(params: types.DidSaveNotebookDocumentParams) -> None:
        server.watch.look_soon()

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        changes = params.changes
        server.watch.changed({path_of(one.uri): one.type != types.FileChangeType.Changed for one in changes})
