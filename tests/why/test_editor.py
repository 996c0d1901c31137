"""The editor's way to the same answers: `workspace/executeCommand gradline.why`, and the request `gradline/why`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from lsp.client import Client

from .test_command import TRACEBACK
from .test_tracebacks import PROJECT, RECORDED

SERVER = [sys.executable, "-m", "gradline", "server"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(PROJECT, tmp_path / "bug"))
    (folder / "pyproject.toml").write_text("")
    return folder


def test_the_command_answers(project: Path) -> None:
    with Client(SERVER, project) as client:
        assert "gradline.why" in client.initialized["capabilities"]["executeCommandProvider"]["commands"]
        told = client.request(
            "workspace/executeCommand", {"command": "gradline.why", "arguments": [{"text": TRACEBACK}]}
        )
        assert told["markdown"].startswith("### RuntimeError: element 0 of tensors")
        first = told["answers"][0]
        assert first["code"] == "GL102" and first["fixable"] and first["title"] and "features.py:3" in first["markdown"]
        assert first["location"]["uri"] == (project / "train.py").as_uri()
        assert first["location"]["range"]["start"] == {"line": 11, "character": 4}
        assert client.request("gradline/why", {"text": TRACEBACK}) == told
        assert client.request("gradline/why", {"text": "nothing failed"}) is None
        assert "error" in client.answer(client.ask("gradline/why", {"folder": project.as_uri()}))


def test_open_documents_count(project: Path) -> None:
    """What is typed and not yet saved is what is explained."""
    uri = (project / "train.py").as_uri()
    with Client(SERVER, project) as client:
        client.open(uri, "# a line that is not on the disk\n" + (project / "train.py").read_text())
        told = client.request("gradline/why", {"text": TRACEBACK})
        assert told["answers"][0]["location"]["range"]["start"] == {"line": 12, "character": 4}
        assert "has changed since" in told["markdown"]


def test_a_folder_that_is_not_open(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Client(SERVER, tmp_path / "other") as client:
        told = client.request("gradline/why", {"text": TRACEBACK, "folder": project.as_uri()})
        assert told["answers"][0]["code"] == "GL102"


def test_a_notebook_that_is_open(project: Path) -> None:
    notebook = json.loads((project / "study.ipynb").read_text())
    uri = (project / "study.ipynb").as_uri()
    cells = [
        {"kind": 2 if cell["cell_type"] == "code" else 1, "document": f"{uri}#c{number}"}
        for number, cell in enumerate(notebook["cells"])
    ]
    documents = [
        {"uri": f"{uri}#c{number}", "languageId": "python", "version": 1, "text": "".join(cell["source"])}
        for number, cell in enumerate(notebook["cells"])
        if cell["cell_type"] == "code"
    ]
    with Client(SERVER, project) as client:
        notebook_document = {"uri": uri, "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
        client.notify(
            "notebookDocument/didOpen", {"notebookDocument": notebook_document, "cellTextDocuments": documents}
        )
        told = client.request("gradline/why", {"text": (RECORDED / "jupyter.txt").read_text()})
        first = told["answers"][0]
        assert first["location"]["uri"] == f"{uri}#c3" and first["location"]["range"]["start"]["line"] == 5
