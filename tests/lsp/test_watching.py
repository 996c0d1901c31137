"""Files that change on the disk, for a client that does not watch them: seen when a document is opened, saved or closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .client import REAL, Client

VICTIM = """import torch
import utils.switch

w = torch.ones(2, requires_grad=True)
(w * 2).sum().backward()
"""
OFF = "import torch\n\ntorch.set_grad_enabled(False)\n"
ON = "import torch\n"
OTHER = "x = 1\n"


class Session:
    """A client that watches nothing, with the victim open, and what it has been told of it."""

    def __init__(self, client: Client, root: Path) -> None:
        self.client, self.root = client, root
        self.victim = (root / "victim.py").as_uri()
        self.other = (root / "other.py").as_uri()
        client.open(self.victim, VICTIM)

    def come_back(self, how: str) -> None:
        document = {"textDocument": {"uri": self.other}}
        if how == "open":
            self.client.open(self.other, OTHER)
            self.client.notify("textDocument/didClose", document)
        elif how == "save a notebook":
            self.client.notify(
                "notebookDocument/didSave", {"notebookDocument": {"uri": (self.root / "n.ipynb").as_uri()}}
            )
        else:
            self.client.notify("textDocument/didSave", {"textDocument": {"uri": self.victim}})

    def has(self, *codes: str) -> None:
        """Waits until the client is told just these findings of the victim."""

        def told(message: dict) -> bool:
            params = message.get("params") or {}
            return (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == self.victim
                and [item["code"] for item in params["diagnostics"]] == list(codes)
            )

        self.client.wait(told)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "__init__.py").write_text("")
    (tmp_path / "utils" / "switch.py").write_text(ON)
    (tmp_path / "victim.py").write_text(VICTIM)
    (tmp_path / "other.py").write_text(OTHER)
    with Client(REAL, tmp_path, textDocument={"publishDiagnostics": {"relatedInformation": True}}) as client:
        session = Session(client, tmp_path)
        session.has()
        yield session


def _edited(root: Path) -> None:
    (root / "utils" / "switch.py").write_text(OFF)


def _replaced(root: Path) -> None:  # as most editors save
    (root / "utils" / "new").write_text(OFF)
    (root / "utils" / "new").replace(root / "utils" / "switch.py")


def _became_a_package(root: Path) -> None:
    (root / "utils" / "switch.py").unlink()
    (root / "utils" / "switch").mkdir()
    (root / "utils" / "switch" / "__init__.py").write_text(OFF)


@pytest.mark.parametrize("how", ["open", "save", "save a notebook"])
@pytest.mark.parametrize("change", [_edited, _replaced, _became_a_package])
def test_a_change_is_seen(session: Session, change: Callable[[Path], None], how: str) -> None:
    change(session.root)
    session.come_back(how)
    session.has("GL202")


def test_a_file_that_comes_and_goes_is_seen(session: Session) -> None:
    (session.root / "utils" / "switch.py").unlink()
    session.come_back("save")
    (session.root / "utils" / "switch.py").write_text(OFF)
    session.come_back("save")
    session.has("GL202")
    (session.root / "utils" / "switch.py").unlink()
    session.come_back("save")
    session.has()


def test_settings_are_seen(session: Session) -> None:
    _edited(session.root)
    session.come_back("save")
    session.has("GL202")
    (session.root / "pyproject.toml").write_text("[tool.gradline]\nignore = ['GL202']\n")
    session.come_back("save")
    session.has()
    (session.root / "pyproject.toml").write_text("[tool.gradline]\nignore = ['GL101']\n")
    session.come_back("save")
    session.has("GL202")
