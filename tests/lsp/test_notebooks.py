"""Notebooks: cells that are put in, moved, edited and taken out, and findings in the right one."""

from __future__ import annotations

from typing import Any

from .client import FAKE, Client, places

NOTEBOOK = "file:///folder/explore.ipynb"
FIRST, SECOND, THIRD = (f"vscode-notebook-cell:/folder/explore.ipynb#{name}" for name in "abc")
CALL = "loss.item().backward()"


def cell(uri: str) -> dict[str, Any]:
    return {"kind": 2, "document": uri}


def text(uri: str, content: str) -> dict[str, Any]:
    return {"uri": uri, "languageId": "python", "version": 1, "text": content}


def change(client: Client, version: int, **cells: Any) -> None:
    notebook = {"uri": NOTEBOOK, "version": version}
    client.notify("notebookDocument/didChange", {"notebookDocument": notebook, "change": {"cells": cells}})


def test_cells() -> None:
    text_document = {"publishDiagnostics": {"relatedInformation": True}}
    with Client(FAKE, notebookDocument={"synchronization": {}}, textDocument=text_document) as client:
        assert client.initialized["capabilities"]["notebookDocumentSync"]["notebookSelector"]
        document = {
            "uri": NOTEBOOK,
            "notebookType": "jupyter-notebook",
            "version": 1,
            "cells": [cell(FIRST), cell(SECOND)],
        }
        texts = [text(FIRST, "loss = 1\n%matplotlib inline"), text(SECOND, f"!ls\n'\u2028'; {CALL}")]
        client.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": texts})
        assert client.diagnostics(FIRST, 1) == []
        (found,) = client.diagnostics(SECOND, 1)
        assert places([found]) == [("GL101", (1, 9), (1, 16))]
        assert found["relatedInformation"][0]["location"]["uri"] == FIRST

        # a text
        edit = {
            "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}},
            "text": f"{CALL}\n",
        }
        change(client, 2, textContent=[{"document": {"uri": FIRST, "version": 2}, "changes": [edit]}])
        assert places(client.diagnostics(FIRST, 2)) == [("GL101", (0, 4), (0, 11))]
        assert places(client.diagnostics(SECOND, 1)) == [("GL101", (1, 9), (1, 16))]

        # a cell put in between
        array = {"start": 1, "deleteCount": 0, "cells": [cell(THIRD)]}
        change(client, 3, structure={"array": array, "didOpen": [text(THIRD, f"\n\n{CALL}")]})
        assert places(client.diagnostics(THIRD, 1)) == [("GL101", (2, 4), (2, 11))]

        # hover, tokens and a fix in a cell
        here = {"textDocument": {"uri": THIRD}, "position": {"line": 2, "character": 6}}
        assert client.request("textDocument/hover", here)["range"]["start"] == {"line": 2, "character": 5}
        tokens = client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": THIRD}})
        assert tokens["data"] == [2, 5, 4, 0, 1, 0, 7, 8, 2, 0]
        at = {"start": here["position"], "end": here["position"]}
        params = {"textDocument": {"uri": THIRD}, "range": at, "context": {"diagnostics": []}}
        fix = client.request("textDocument/codeAction", params)[0]
        (uri,) = fix["edit"]["changes"]
        assert uri == THIRD
        assert fix["edit"]["changes"][uri][0]["range"]["start"] == {"line": 2, "character": 4}

        # a cell taken out takes its findings with it
        array = {"start": 1, "deleteCount": 1}
        change(client, 4, structure={"array": array, "didClose": [{"uri": THIRD}]})
        assert client.diagnostics(THIRD, None) == []

        # so does a notebook that is closed and is no file
        closed = {"notebookDocument": {"uri": NOTEBOOK}, "cellTextDocuments": [{"uri": FIRST}, {"uri": SECOND}]}
        client.notify("notebookDocument/didClose", closed)
        assert client.diagnostics(FIRST, None) == []
        assert client.diagnostics(SECOND, None) == []
