"""The server on the real engine: the story of `examples/midnight` from its first finding to its fix."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from .client import Client, span

SERVER = [sys.executable, "-m", "gradline", "server"]
MIDNIGHT = Path(__file__).parents[2] / "examples" / "midnight"
NUMBER = """import torch
from torch import nn

model = nn.Linear(4, 1)
name = "\U0001f600"; loss = model(torch.randn(8, 4)).pow(2).mean()
loss.item().backward()
"""
CAPABILITIES = {
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True},
        "codeAction": {"resolveSupport": {"properties": ["edit"]}},
        "hover": {"contentFormat": ["markdown"]},
    },
    "workspace": {"workspaceEdit": {"documentChanges": True}},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MIDNIGHT, tmp_path / "midnight", ignore=shutil.ignore_patterns("__pycache__")))


def test_from_the_victim_to_the_origin_and_its_fix(project: Path) -> None:
    train, loader = (project / "train.py").as_uri(), (project / "utils" / "data_loader.py").as_uri()
    text = (project / "utils" / "data_loader.py").read_text()
    line = text[: text.index("torch.set_grad_enabled(False)")].count("\n")
    with Client(SERVER, project, **CAPABILITIES) as client:
        # files that are not open are checked too
        (origin,) = client.diagnostics(loader, None)
        assert (origin["code"], origin["range"]["start"]["line"]) == ("GL201", line)
        (victim,) = client.diagnostics(train, None)
        assert victim["code"] == "GL202"
        assert victim["codeDescription"]["href"].endswith("backward_under_grad_off.md")
        client.open(train, (project / "train.py").read_text())
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        client.diagnostics(train)
        hints = {"textDocument": {"uri": train}, "range": everything}
        found = client.request("textDocument/inlayHint", hints)
        (hint,) = (one for one in found if one["position"]["line"] == victim["range"]["start"]["line"])
        assert hint["label"][0]["value"] == f"⊘ grad off since data_loader.py:{line + 1}"
        client.notify("textDocument/didClose", {"textDocument": {"uri": train}})
        last = victim["relatedInformation"][-1]["location"]
        assert (last["uri"], last["range"]["start"]["line"]) == (loader, line)

        client.open(loader, text)
        client.diagnostics(loader)
        params = {"textDocument": {"uri": loader}, "range": origin["range"], "context": {"diagnostics": [origin]}}
        fix = client.request("textDocument/codeAction", params)[0]
        assert fix["isPreferred"] and fix["diagnostics"] == [origin] and "edit" not in fix
        edit = client.request("codeAction/resolve", fix)["edit"]["documentChanges"]
        (change,) = edit
        assert change["textDocument"] == {"uri": loader, "version": 1}
        changes = [(*span(item["range"]), item["newText"]) for item in change["edits"]]
        for start, end, new in sorted(changes, reverse=True):  # from the end, so that each fits the text before it
            client.change(loader, (start, end, new))
        assert client.diagnostics(loader) == []
        # the victim is not open; it is well again all the same
        assert client.diagnostics(train, None) == []
        assert not client.errors


def test_the_fix_of_a_line_and_its_suppression() -> None:
    uri = "file:///folder/number.py"
    with Client(SERVER, **CAPABILITIES) as client:
        client.open(uri, NUMBER)
        (found,) = client.diagnostics(uri)
        assert (found["code"], found["range"]["start"]["line"]) == ("GL101", 5)
        params = {"textDocument": {"uri": uri}, "range": found["range"], "context": {"diagnostics": [found]}}
        actions = client.request("textDocument/codeAction", params)
        ignore = client.request("codeAction/resolve", actions[-1])
        (edit,) = ignore["edit"]["documentChanges"][0]["edits"]
        assert edit["newText"] == "  # gradline: ignore[GL101]"
        client.change(uri, (*span(edit["range"]), edit["newText"]))
        assert client.diagnostics(uri) == []
        assert not client.errors


def test_words_are_explained_and_coloured() -> None:
    uri = "file:///folder/number.py"
    with Client(SERVER, **CAPABILITIES) as client:
        client.open(uri, NUMBER)
        client.diagnostics(uri)
        hover = {"textDocument": {"uri": uri}, "position": {"line": 5, "character": 7}}
        answer = client.request("textDocument/hover", hover)
        assert "`.item()` copies the value" in answer["contents"]["value"]
        assert span(answer["range"]) == ((5, 5), (5, 9))
        tokens = client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": uri}})["data"]
        assert tokens[:4] == [5, 5, 4, 0]
        assert tokens[4] & 1, "the word that the finding is about is marked as the cut"


def test_what_is_seen_when_nobody_types(project: Path) -> None:
    text = NUMBER.replace("loss.item().backward()", "loss.backward()\nprint(loss.item())")
    uri = (project / "main.py").as_uri()
    capabilities = {"workspace": {"semanticTokens": {"refreshSupport": True}}}
    options = {"commands": ["gradline.showPlaces"], "lines": True, "inlayHints": "all"}
    with Client(SERVER, project, options=options, **capabilities) as client:
        client.open(uri, text)
        document = {"textDocument": {"uri": uri}}

        def harmless() -> list[int]:
            """The lines of words that are marked as harmless."""
            data = client.request("textDocument/semanticTokens/full", document)["data"]
            lines, line = [], 0
            for at in range(0, len(data), 5):
                line += data[at]
                if data[at + 4] == 4:
                    lines.append(line)
            return lines

        end = time.monotonic() + 30
        while harmless() != [6] and time.monotonic() < end:
            refresh = client.wait(lambda message: message.get("method") == "workspace/semanticTokens/refresh")
            client.reply(refresh["id"], None)
        assert harmless() == [6]
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        (hint,) = client.request("textDocument/inlayHint", {**document, "range": everything})
        assert (hint["label"][0]["value"], hint["position"]["line"]) == ("grad · scalar", 4)
        (lens,) = client.request("textDocument/codeLens", document)
        assert lens["command"]["title"] == "reaches model"
        regions = client.request("gradline/lines", document)["regions"]
        assert {region["mode"] for region in regions} == {"on"}
        hover = client.request("textDocument/hover", {**document, "position": {"line": 5, "character": 1}})
        assert "scalar tensor, **attached**" in hover["contents"]["value"]
        # at once after an edit, what it did not touch looks as before
        client.change(uri, ((0, 0), (0, 0), "\n\n"))
        assert harmless() == [8]
        assert not client.errors


def test_a_notebook_is_one_program() -> None:
    first, second = "vscode-notebook-cell:/n.ipynb#a", "vscode-notebook-cell:/n.ipynb#b"
    cells = [
        "import torch\n%matplotlib inline\nmodel = torch.nn.Linear(4, 1)",
        "loss = model(torch.randn(8, 4)).mean()\n!ls\nloss.item().backward()",
    ]
    notebook = {
        "uri": "file:///n.ipynb",
        "notebookType": "jupyter-notebook",
        "version": 1,
        "cells": [{"kind": 2, "document": uri} for uri in (first, second)],
    }
    texts = [
        {"uri": uri, "languageId": "python", "version": 1, "text": text}
        for uri, text in zip((first, second), cells, strict=True)
    ]
    with Client(SERVER, **CAPABILITIES) as client:
        client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": texts})
        assert client.diagnostics(first, 1) == []
        (found,) = client.diagnostics(second, 1)
        assert (found["code"], found["range"]["start"]["line"]) == ("GL101", 2)


def test_what_is_said_of_another_cell_names_it_as_people_count() -> None:
    """All cells are counted, whatever is in them; a line is counted in its cell."""
    contents = [
        ("markdown", "# loss.item().backward()"),
        ("python", "import torch\nmodel = torch.nn.Linear(4, 1)\ntorch.set_grad_enabled(False)"),
        ("markdown", "Words"),
        ("python", "loss = model(torch.randn(8, 4)).mean()\nloss.backward()"),
    ]
    uris = [f"vscode-notebook-cell:/a%20b/n.ipynb#{name}" for name in "abcd"]
    cells = [
        {"kind": 2 if how == "python" else 1, "document": uri} for uri, (how, _) in zip(uris, contents, strict=True)
    ]
    notebook = {"uri": "file:///a%20b/n.ipynb", "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
    texts = [
        {"uri": uri, "languageId": how, "version": 1, "text": text}
        for uri, (how, text) in zip(uris, contents, strict=True)
    ]
    everything = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
    with Client(SERVER, **CAPABILITIES) as client:

        def shown() -> tuple[str, str]:
            document = {"textDocument": {"uri": uris[3]}}
            hints = client.request("textDocument/inlayHint", {**document, "range": everything})
            hover = client.request("textDocument/hover", {**document, "position": {"line": 1, "character": 1}})
            return hints[-1]["label"][0]["value"], hover["contents"]["value"]

        client.notify("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": texts})
        assert [item["code"] for item in client.diagnostics(uris[3], 1)] == ["GL202"]
        hint, hover = shown()
        assert hint == "⊘ grad off since cell 2, line 3" and "(cell 2, line 3)" in hover
        assert client.request("textDocument/codeLens", {"textDocument": {"uri": uris[0]}}) == []

        array = {"start": 0, "deleteCount": 1}  # the first words are taken out
        change = {"cells": {"structure": {"array": array, "didClose": [{"uri": uris[0]}]}}}
        document = {"uri": notebook["uri"], "version": 2}
        client.notify("notebookDocument/didChange", {"notebookDocument": document, "change": change})
        client.diagnostics(uris[3], 1)
        hint, hover = shown()
        assert hint == "⊘ grad off since cell 1, line 3" and "(cell 1, line 3)" in hover


def test_a_broken_settings_file_is_told_once(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.gradline]\nselect = ['GL999']\n")
    with Client(SERVER, project, **CAPABILITIES) as client:
        message = client.wait(lambda message: message.get("method") == "window/showMessage")
        assert "GL999" in message["params"]["message"]
        (project / "pyproject.toml").write_text("[tool.gradline]\nselect = ['GL202']\n")
        changes = [{"uri": (project / "pyproject.toml").as_uri(), "type": 2}]
        client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
        assert [item["code"] for item in client.diagnostics((project / "train.py").as_uri(), None)] == ["GL202"]
