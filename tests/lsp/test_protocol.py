"""The server as a process: what it says of itself, and that nothing a client sends brings it down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .client import FAKE, Client, places, span

TEXT = "loss = model(x)\nloss.item().backward()\n"
CUT = ("GL101", (1, 4), (1, 11))


@pytest.fixture
def client():
    with Client(FAKE) as client:
        yield client


def test_capabilities(client: Client) -> None:
    answer = client.initialized
    assert answer["serverInfo"]["name"] == "gradline"
    capabilities = answer["capabilities"]
    assert capabilities["positionEncoding"] == "utf-16"
    assert capabilities["textDocumentSync"]["change"] == 2
    assert capabilities["textDocumentSync"]["openClose"] is True
    assert capabilities["codeActionProvider"]["resolveProvider"] is True
    assert capabilities["codeActionProvider"]["codeActionKinds"] == [
        "quickfix",
        "source.fixAll.gradline",
        "refactor.rewrite",
    ]
    assert "diagnosticProvider" not in capabilities, "this client does not ask for diagnostics"
    assert capabilities["hoverProvider"] is not None
    tokens = capabilities["semanticTokensProvider"]
    assert tokens["full"] == {"delta": True}
    assert tokens["range"] is True
    assert tokens["legend"]["tokenTypes"] == ["gradientCut", "gradientSwitch", "gradientFlow"]
    assert tokens["legend"]["tokenModifiers"] == ["cut", "off", "harmless"]


def test_broken_messages_are_answered_and_harm_nothing(client: Client) -> None:
    client.send(b"{not json")
    assert client.answer(None)["error"]["code"] == -32700
    client.send(b"[]")
    assert client.answer(None)["error"]["code"] == -32600
    client.send(b'{"id": 900, "method": "textDocument/hover"}')
    assert client.answer(900)["error"]["code"] == -32600
    for number, params in enumerate(
        ({}, [], None, {"textDocument": 3}, {"textDocument": {"uri": "file:///a.py"}}), 901
    ):
        message = {"jsonrpc": "2.0", "id": number, "method": "textDocument/hover", "params": params}
        client.send(json.dumps(message).encode())
        assert client.answer(number)["error"]["code"] in (-32602, -32603)
    client.send(b'{"jsonrpc": "2.0", "id": 950, "method": "gradline/nothing", "params": {}}')
    assert client.answer(950)["error"]["code"] == -32601
    client.process.stdin.write(b"Nonsense: 1\r\n\r\n")
    client.notify("textDocument/didChange", {"textDocument": {"uri": "file:///never-opened.py", "version": 2}})
    client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///never-opened.py"}})
    client.notify("workspace/didChangeWatchedFiles", {"changes": "all of them"})
    client.open("file:///a.py", TEXT)
    assert places(client.diagnostics("file:///a.py")) == [CUT]


def test_requests_about_unknown_documents_have_empty_answers(client: Client) -> None:
    document = {"textDocument": {"uri": "file:///unknown.py"}}
    here = {"line": 0, "character": 0}
    everywhere = {"start": here, "end": here}
    assert client.request("textDocument/hover", {**document, "position": here}) is None
    assert client.request("textDocument/semanticTokens/full", document) is None
    assert client.request("textDocument/inlayHint", {**document, "range": everywhere}) == []
    assert client.request("textDocument/codeLens", document) == []
    action = {**document, "range": everywhere, "context": {"diagnostics": []}}
    assert client.request("textDocument/codeAction", action) == []
    assert client.request("gradline/lines", document) is None


def test_positions_outside_the_text_are_taken_to_its_edge(client: Client) -> None:
    client.open("file:///a.py", TEXT)
    client.diagnostics("file:///a.py")
    document = {"textDocument": {"uri": "file:///a.py"}}
    assert client.request("textDocument/hover", {**document, "position": {"line": 99, "character": 99}}) is None
    client.change("file:///a.py", ((99, 0), (120, 5), "y = 1\n"))
    assert places(client.diagnostics("file:///a.py")) == [CUT]


def test_a_failing_analysis_keeps_the_server_and_the_findings(client: Client) -> None:
    client.open("file:///a.py", TEXT)
    assert places(client.diagnostics("file:///a.py")) == [CUT]
    client.change("file:///a.py", ((2, 0), (2, 0), "crash\n"))
    assert places(client.diagnostics("file:///a.py")) == [CUT]
    client.change("file:///a.py", ((0, 0), (3, 0), ""))
    assert client.diagnostics("file:///a.py") == []
    assert any("RuntimeError: crash" in line for line in client.errors)


def test_requests_are_served_while_an_analysis_runs(client: Client) -> None:
    client.open("file:///slow.py", "slow\nloss.item()\n")
    position = {"textDocument": {"uri": "file:///slow.py"}, "position": {"line": 1, "character": 6}}
    for _ in range(5):
        assert client.request("textDocument/hover", position)["contents"]["value"] == "**cut**"
    assert not [item for item in client.seen if item.get("method") == "textDocument/publishDiagnostics"]
    client.diagnostics("file:///slow.py")


def test_a_waiting_request_can_be_cancelled(client: Client) -> None:
    client.open("file:///slow.py", "slow\n")
    identifier = client.ask("gradline/lines", {"textDocument": {"uri": "file:///slow.py"}})
    client.notify("$/cancelRequest", {"id": identifier})
    assert client.answer(identifier)["error"]["code"] == -32800


def test_nothing_but_the_protocol_reaches_stdout(tmp_path: Path) -> None:
    import sys

    script = tmp_path / "printing.py"
    script.write_text(
        "import os, sys\nsys.path.insert(0, sys.argv[1])\n"
        "import fake\n"
        "class Printing(fake.Fake):\n"
        "    def tokens(self, path):\n"
        "        print('to stdout'); os.write(1, b'to descriptor 1')\n"
        "        return super().tokens(path)\n"
        "sys.exit(fake.main([], Printing))\n"
    )
    with Client([sys.executable, str(script), str(Path(__file__).parent)]) as client:
        client.open("file:///a.py", TEXT)
        assert client.request("textDocument/semanticTokens/full", {"textDocument": {"uri": "file:///a.py"}})["data"]


def test_the_server_ends_when_the_client_goes_away() -> None:
    client = Client(FAKE)
    client.process.stdin.close()
    assert client.process.wait(10) == 1
    client.process.stdout.close()


def test_exit_without_shutdown_is_an_error() -> None:
    client = Client(FAKE)
    client.notify("exit", None)
    assert client.process.wait(10) == 1
    client.process.stdin.close()
    client.process.stdout.close()


def test_lines(client: Client) -> None:
    client.open("file:///a.py", "x = 1\ntorch.set_grad_enabled(False)\nloss.item()\n")
    lines = client.request("gradline/lines", {"textDocument": {"uri": "file:///a.py"}})
    assert [(region["mode"], *span(region["range"])) for region in lines["regions"]] == [
        ("on", (0, 0), (1, 6)),
        ("off", (1, 6), (3, 0)),
    ]
    assert span(lines["regions"][1]["origin"]["range"]) == ((1, 6), (1, 29))
    assert [span(cut) for cut in lines["cuts"]] == [((2, 5), (2, 9))]
