"""The client is asked to ask again when another file has changed what it was told, and only then."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from .client import Client
from .test_real import SERVER

ORIGIN = "import torch\n\ntorch.set_grad_enabled(False)\n"
TRAIN = """\
import torch
import origin
from torch import nn

model = nn.Linear(4, 1)
loss = model(torch.ones(2, 4)).mean()
loss.backward()
"""
REFRESH = {"refreshSupport": True}
WORKSPACE = {"semanticTokens": REFRESH, "inlayHint": REFRESH, "codeLens": REFRESH}
EVERYTHING = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}


class Editor:
    """A client that shows documents: it asks for lenses, hints and colours, and asks again when it is told to."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.asked = 0  # how often it was told to ask again

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str) -> None:
        self.client.open(self.uri(name), (self.folder / name).read_text())

    def lenses(self, name: str) -> list[str]:
        answer = self.client.request("textDocument/codeLens", {"textDocument": {"uri": self.uri(name)}})
        return [lens["command"]["title"] for lens in answer]

    def hints(self, name: str) -> list[str]:
        params = {"textDocument": {"uri": self.uri(name)}, "range": EVERYTHING}
        return [hint["label"][0]["value"] for hint in self.client.request("textDocument/inlayHint", params)]

    def tokens(self, name: str) -> list[int]:
        params = {"textDocument": {"uri": self.uri(name)}}
        return self.client.request("textDocument/semanticTokens/full", params)["data"]

    def comes(self, kind: str, ask: Any, wanted: Any) -> None:
        """Asks, and asks again only when the server says so, until the answer is as wanted."""
        while not wanted(answer := ask()):
            told = self.client.wait(lambda message: message.get("method") == f"workspace/{kind}/refresh")
            self.client.reply(told["id"], None)
        assert wanted(answer)

    def refreshes(self) -> list[str]:
        """What the server has asked to be asked for until it has been at rest for a second."""
        found = []
        while True:
            try:
                told = self.client.wait(lambda message: message.get("method", "").endswith("/refresh"), 1.0)
            except queue.Empty:
                return found
            self.client.reply(told["id"], None)
            found.append(told["method"])


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    (tmp_path / "origin.py").write_text(ORIGIN)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "other.py").write_text("x = 1\n")
    with Client(SERVER, tmp_path, options={"commands": ["gradline.showPlaces"]}, workspace=WORKSPACE) as client:
        yield Editor(client, tmp_path)


def says(text: str) -> Any:
    return lambda answers: any(text in answer for answer in answers)


def lacks(text: str) -> Any:
    return lambda answers: not any(text in answer for answer in answers)


def test_mending_the_origin_takes_its_lens_away_though_the_victim_is_not_open(editor: Editor) -> None:
    editor.open("origin.py")
    lenses = partial(editor.lenses, "origin.py")
    editor.comes("codeLens", lenses, says("origin of 1 finding"))
    editor.client.change(editor.uri("origin.py"), ((2, 0), (2, 0), "# "))
    editor.comes("codeLens", lenses, lacks("origin"))
    editor.client.change(editor.uri("origin.py"), ((2, 0), (2, 2), ""))
    editor.comes("codeLens", lenses, says("origin of 1 finding"))


def test_mending_the_victim_takes_the_lens_over_the_origin_away(editor: Editor) -> None:
    editor.open("origin.py")
    editor.open("train.py")
    lenses = partial(editor.lenses, "origin.py")
    editor.comes("codeLens", lenses, says("origin of 1 finding"))
    editor.client.change(editor.uri("train.py"), ((6, 0), (6, 15), "pass"))
    editor.comes("codeLens", lenses, lacks("origin"))


def test_mending_the_origin_changes_hints_and_colours_of_the_victim(editor: Editor) -> None:
    editor.open("origin.py")
    editor.open("train.py")
    hints, tokens = partial(editor.hints, "train.py"), partial(editor.tokens, "train.py")
    editor.comes("inlayHint", hints, says("grad off since origin.py:3"))
    editor.comes("semanticTokens", tokens, lambda data: any(data[4::5]))
    editor.client.change(editor.uri("origin.py"), ((0, 0), (0, 0), "\n"))
    editor.comes("inlayHint", hints, says("grad off since origin.py:4"))
    editor.client.change(editor.uri("origin.py"), ((3, 0), (3, 0), "# "))
    editor.comes("inlayHint", hints, lacks("grad off"))
    editor.comes("semanticTokens", tokens, lambda data: not any(data[4::5]))


def test_an_edit_that_changes_nothing_elsewhere_asks_for_nothing(editor: Editor) -> None:
    for name in ("origin.py", "train.py", "other.py"):
        editor.open(name)
    editor.comes("codeLens", partial(editor.lenses, "origin.py"), says("origin of 1 finding"))
    editor.comes("inlayHint", partial(editor.hints, "train.py"), says("grad off since origin.py:3"))
    editor.tokens("train.py")
    editor.refreshes()
    editor.client.change(editor.uri("other.py"), ((0, 0), (0, 0), "y = 2\n"))
    assert editor.refreshes() == []
