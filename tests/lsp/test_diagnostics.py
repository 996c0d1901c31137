"""Diagnostics for clients that ask, and for files that are not open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .client import FAKE, Client, places

TEXT = "loss = model(x)\nloss.item().backward()\n"
CUT = ("GL101", (1, 4), (1, 11))
PULLS: dict[str, Any] = {
    "textDocument": {"diagnostic": {"relatedDocumentSupport": False}},
    "workspace": {"diagnostics": {"refreshSupport": True}},
}
URI = "file:///a.py"


def pull(client: Client, uri: str, previous: str | None = None) -> dict[str, Any]:
    params = {"textDocument": {"uri": uri}, "previousResultId": previous}
    return client.request("textDocument/diagnostic", params)


def test_pulled_diagnostics_are_of_the_newest_text_and_not_sent_twice() -> None:
    with Client(FAKE, **PULLS) as client:
        provider = client.initialized["capabilities"]["diagnosticProvider"]
        assert provider["interFileDependencies"] is True and provider["workspaceDiagnostics"] is True
        assert pull(client, "file:///unknown.py") == {"kind": "full", "items": []}
        client.open(URI, TEXT)
        first = pull(client, URI)
        assert (first["kind"], places(first["items"])) == ("full", [CUT])
        assert pull(client, URI, first["resultId"]) == {"kind": "unchanged", "resultId": first["resultId"]}
        client.change(URI, ((0, 0), (0, 0), "\n"))
        second = pull(client, URI, first["resultId"])
        assert places(second["items"]) == [("GL101", (2, 4), (2, 11))]
        assert second["resultId"] != first["resultId"]
        assert not [item for item in client.seen if item.get("method") == "textDocument/publishDiagnostics"]


def test_a_client_that_pulls_is_told_when_another_file_changes_its_findings() -> None:
    with Client(FAKE, **PULLS) as client:
        client.open(URI, "loss.backward()\n")
        assert pull(client, URI)["items"] == []
        client.open("file:///b.py", "torch.set_grad_enabled(False)\n")
        client.wait(lambda message: message.get("method") == "workspace/diagnostic/refresh")
        assert [item["code"] for item in pull(client, URI)["items"]] == ["GL202"]


def test_files_that_are_not_open_are_pushed_and_pulled(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    uri = (tmp_path / "a.py").as_uri()
    with Client(FAKE, tmp_path) as client:
        assert places(client.diagnostics(uri, None)) == [CUT]
        # an unsaved buffer wins over the disk, and the disk again when it is closed
        client.open(uri, "x = 1\n")
        assert client.diagnostics(uri) == []
        client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert places(client.diagnostics(uri, None)) == [CUT]
        (tmp_path / "a.py").write_text("")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 2}]})
        assert client.diagnostics(uri, None) == []
    (tmp_path / "a.py").write_text(TEXT)
    with Client(FAKE, tmp_path, **PULLS) as client:
        answer = client.request("workspace/diagnostic", {"previousResultIds": []})
        (report,) = answer["items"]
        assert (report["uri"], places(report["items"])) == (uri, [CUT])
        # the next one waits until something has changed
        previous = [{"uri": uri, "value": report["resultId"]}]
        identifier = client.ask("workspace/diagnostic", {"previousResultIds": previous})
        (tmp_path / "a.py").write_text("")
        client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 2}]})
        (report,) = client.answer(identifier)["result"]["items"]
        assert (report["uri"], report["items"]) == (uri, [])


def test_only_open_files_and_folders_that_are_switched_on(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    uri = (tmp_path / "a.py").as_uri()
    with Client(FAKE, tmp_path, options={"settings": {"diagnosticMode": "openFiles"}}) as client:
        client.open(URI, TEXT)
        assert places(client.diagnostics(URI)) == [CUT]
        assert not [item for item in client.seen if (item.get("params") or {}).get("uri") == uri]
        client.notify("workspace/didChangeConfiguration", {"settings": {"gradline": {"diagnosticMode": "project"}}})
        assert places(client.diagnostics(uri, None)) == [CUT]
        client.notify("workspace/didChangeConfiguration", {"settings": {"gradline": {"enable": False}}})
        assert client.diagnostics(uri, None) == []


def test_settings_of_each_folder_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    workspace = {"configuration": True}
    with Client(FAKE, tmp_path, workspace=workspace) as client:
        question = client.wait(lambda message: message.get("method") == "workspace/configuration")
        assert [item.get("scopeUri") for item in question["params"]["items"]] == [None, tmp_path.as_uri()]
        uri = (tmp_path / "a.py").as_uri()
        assert places(client.diagnostics(uri, None)) == [CUT]
        client.reply(question["id"], [{}, {"enable": False, "inlayHints": "loud"}])
        assert client.diagnostics(uri, None) == []
    assert any("gradline.inlayHints is 'loud'" in line for line in client.errors)


def test_a_file_whose_analysis_fails_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TEXT)
    (tmp_path / "b.py").write_text("crash\n")
    uri = (tmp_path / "a.py").as_uri()
    with Client(FAKE, tmp_path) as client:
        assert places(client.diagnostics(uri, None)) == [CUT]


def test_what_a_closed_document_had_is_taken_back() -> None:
    with Client(FAKE, **PULLS) as client:
        client.open(URI, TEXT)
        assert places(pull(client, URI)["items"]) == [CUT]
        identifier = client.ask("workspace/diagnostic", {"previousResultIds": []})
        client.notify("textDocument/didClose", {"textDocument": {"uri": URI}})
        (report,) = client.answer(identifier)["result"]["items"]
        if report["items"]:  # it was answered before the document was closed
            previous = [{"uri": URI, "value": report["resultId"]}]
            identifier = client.ask("workspace/diagnostic", {"previousResultIds": previous})
            (report,) = client.answer(identifier)["result"]["items"]
        assert (report["uri"], report["items"]) == (URI, [])


def test_a_client_may_want_pushed_diagnostics_all_the_same() -> None:
    with Client(FAKE, options={"diagnostics": "push"}, **PULLS) as client:
        assert "diagnosticProvider" not in client.initialized["capabilities"]
        client.open(URI, TEXT)
        assert places(client.diagnostics(URI)) == [CUT]


def test_a_client_that_could_not_be_told_to_ask_again_is_pushed_what_another_file_changes() -> None:
    asks = {"diagnostic": {}, "publishDiagnostics": {}}  # as Neovim says
    with Client(FAKE, textDocument=asks) as client:
        assert "diagnosticProvider" not in client.initialized["capabilities"]
        client.open(URI, "loss.backward()\n")
        assert client.diagnostics(URI) == []
        client.open("file:///b.py", "torch.set_grad_enabled(False)\n")
        client.wait(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == URI
                and [item["code"] for item in message["params"]["diagnostics"]] == ["GL202"]
            )
        )
    with Client(FAKE, textDocument={"diagnostic": {}}) as client:  # takes nothing that is pushed
        client.open(URI, TEXT)
        assert places(pull(client, URI)["items"]) == [CUT]


def test_what_is_found_during_the_scan_comes_in_parts(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / f"{name}.py").write_text(TEXT + "slow\n")
    with Client(FAKE, tmp_path, **PULLS) as client:
        identifier = client.ask("workspace/diagnostic", {"previousResultIds": [], "partialResultToken": "part"})
        uris: list[str] = []
        parts = 0
        while True:
            message = client.wait(
                lambda message: message.get("method") == "$/progress" or message.get("id") == identifier
            )
            items = message["params"]["value"]["items"] if "method" in message else message["result"]["items"]
            uris += [item["uri"] for item in items]
            if "method" not in message:
                break
            assert message["params"]["token"] == "part"
            parts += 1
    assert parts >= 2
    assert sorted(uris) == [(tmp_path / f"{name}.py").as_uri() for name in "abcdef"], "each file once"


def test_the_first_scan_can_be_ended(tmp_path: Path) -> None:
    for number in range(80):
        (tmp_path / f"{number}.py").write_text(TEXT + "slow\n" * (number != 79))
    with Client(FAKE, tmp_path, window={"workDoneProgress": True}) as client:
        create = client.wait(lambda message: message.get("method") == "window/workDoneProgress/create")
        client.reply(create["id"], None)
        token = create["params"]["token"]

        def progress(kind: str) -> dict[str, Any]:
            return client.wait(
                lambda m: m.get("method") == "$/progress" and m["params"]["value"]["kind"] == kind
            )["params"]["value"]  # fmt: skip

        assert progress("begin")["cancellable"] is True
        client.notify("window/workDoneProgress/cancel", {"token": token})
        progress("end")
        # open documents are looked at all the same, and everything again when the workspace becomes another one
        client.open(URI, TEXT)
        assert places(client.diagnostics(URI)) == [CUT]
        client.notify("workspace/didChangeConfiguration", {"settings": {"gradline": {"inlayHints": "all"}}})
        client.wait(lambda message: message.get("method") == "window/workDoneProgress/create")
