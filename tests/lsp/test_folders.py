"""Workspaces of several folders, each with its own settings; files on the disk, and buffers that win over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .client import REAL, Client

NUMBER = """import torch

w = torch.ones(2, requires_grad=True)
loss = (w * 2).sum()
loss.item().backward()
kept = loss.detach()
kept.backward()
"""


def shown(client: Client, uri: str, codes: list[str]) -> None:
    """Waits until these are the findings of a file."""

    def wanted(message: dict[str, Any]) -> bool:
        params = message.get("params") or {}
        is_it = message.get("method") == "textDocument/publishDiagnostics" and params["uri"] == uri
        return is_it and [item["code"] for item in params["diagnostics"]] == codes

    client.wait(wanted)


def watched(client: Client, path: Path, kind: int) -> None:
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": path.as_uri(), "type": kind}]})


class Folders(Client):
    """A client with several folders, that answers for each what its settings are."""

    def __init__(self, folders: dict[Path, dict[str, Any]]) -> None:
        self.settings = {folder.as_uri(): given for folder, given in folders.items()}
        super().__init__(REAL, workspace={"configuration": True, "workspaceFolders": True})

    def request(self, method: str, params: Any) -> Any:
        if method == "initialize":
            params["workspaceFolders"] = [{"uri": uri, "name": uri.rpartition("/")[2]} for uri in self.settings]
        return super().request(method, params)

    def answer_settings(self) -> None:
        question = self.wait(lambda message: message.get("method") == "workspace/configuration")
        self.reply(
            question["id"], [self.settings.get(item.get("scopeUri"), {}) for item in question["params"]["items"]]
        )


def test_each_folder_has_its_settings(tmp_path: Path) -> None:
    one, two, three = (tmp_path.resolve() / name for name in ("one", "two", "three"))
    for folder in (one, two, three):
        folder.mkdir()
        (folder / "main.py").write_text(NUMBER)
    (two / "gradline.toml").write_text('ignore = ["GL101"]\n')
    uris = {folder: (folder / "main.py").as_uri() for folder in (one, two, three)}
    with Folders({one: {}, two: {"inlayHints": "off"}, three: {"enable": False}}) as client:
        client.answer_settings()
        shown(client, uris[one], ["GL101", "GL102"])
        shown(client, uris[two], ["GL102"])  # its own gradline.toml
        everything = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        counts = []
        for folder in (one, two):
            client.open(uris[folder], NUMBER)
            client.diagnostics(uris[folder])
            params = {"textDocument": {"uri": uris[folder]}, "range": everything}
            counts.append(len(client.request("textDocument/inlayHint", params)))
        assert counts[0] > 0 and counts[1] == 0
        client.open(uris[three], NUMBER)
        assert client.diagnostics(uris[three]) == []

        # the settings of a project change
        (two / "gradline.toml").write_text('ignore = ["GL102"]\n')
        watched(client, two / "gradline.toml", 2)
        shown(client, uris[two], ["GL101"])

        # a folder is taken out: nothing of it stays; and comes back
        client.notify("textDocument/didClose", {"textDocument": {"uri": uris[one]}})
        gone = {"removed": [{"uri": one.as_uri(), "name": "one"}], "added": []}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": gone})
        client.answer_settings()
        shown(client, uris[one], [])
        back = {"removed": [], "added": [{"uri": one.as_uri(), "name": "one"}]}
        client.notify("workspace/didChangeWorkspaceFolders", {"event": back})
        client.answer_settings()
        shown(client, uris[one], ["GL101", "GL102"])
        assert not client.errors


def test_buffers_win_over_files_that_change(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "switch.py").write_text("import torch\n")
    (root / "main.py").write_text(
        "import switch\nimport torch\n\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()\n"
    )
    main, switch = (root / "main.py").as_uri(), (root / "switch.py").as_uri()
    with Client(REAL, root) as client:
        # the buffer of a file that another one imports, not saved
        client.open(switch, "import torch\n")
        client.diagnostics(switch)
        client.change(switch, ((1, 0), (1, 0), "torch.set_grad_enabled(False)\n"))
        shown(client, main, ["GL202"])
        # what is on the disk does not matter as long as it is open
        (root / "switch.py").write_text("import torch\n\n")
        watched(client, root / "switch.py", 2)
        client.notify("textDocument/didClose", {"textDocument": {"uri": switch}})
        shown(client, main, [])
        # a file that is made, and one that is removed
        (root / "more.py").write_text(NUMBER)
        watched(client, root / "more.py", 1)
        shown(client, (root / "more.py").as_uri(), ["GL101", "GL102"])
        (root / "more.py").unlink()
        watched(client, root / "more.py", 3)
        shown(client, (root / "more.py").as_uri(), [])
        assert not client.errors


@pytest.mark.parametrize("given", [{"enable": False}, {"settings": {"enable": False}}, {"gradline": {"enable": False}}])
def test_a_client_that_answers_for_no_section_keeps_the_settings_it_started_with(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    uri = (tmp_path / "main.py").as_uri()
    with Client(REAL, tmp_path, workspace={"configuration": True}, options=given) as client:
        question = client.wait(lambda message: message.get("method") == "workspace/configuration")
        client.reply(question["id"], [None for _ in question["params"]["items"]])
        client.open(uri, NUMBER)
        assert client.diagnostics(uri) == []
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        question = client.wait(lambda message: message.get("method") == "workspace/configuration")
        client.reply(question["id"], [{"enable": True} for _ in question["params"]["items"]])
        shown(client, uri, ["GL101", "GL102"])
