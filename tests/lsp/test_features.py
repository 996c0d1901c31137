"""Each feature as three editors see it: VS Code (utf-16), Neovim (utf-8 first) and Emacs (utf-32 first)."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as t
from pytest_lsp import ClientServerConfig, LanguageClient

from gradline.lsp import convert

from .client import FAKE

TEXT = 'loss = model(x)\nname = "\U0001f600"; loss.item().backward()\n'
COLUMN = {"utf-8": 19, "utf-16": 17, "utf-32": 16}  # of `.item()` in the second line
URI = "file:///folder/a.py"


@pytest_lsp.fixture(params=["visual_studio_code", "neovim", "emacs"], config=ClientServerConfig(server_command=FAKE))
async def client(request, lsp_client: LanguageClient):
    capabilities = pytest_lsp.client_capabilities(request.param)
    # what these versions can do is fixed in files; here diagnostics are pushed, `test_diagnostics.py` pulls
    capabilities.text_document.diagnostic = None
    for request in (
        t.CLIENT_REGISTER_CAPABILITY,
        t.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        t.WORKSPACE_INLAY_HINT_REFRESH,
        t.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(request)(lambda *params: None)
    answer = await lsp_client.initialize_session(
        t.InitializeParams(capabilities=capabilities, root_uri="file:///folder")
    )
    lsp_client.column = COLUMN[answer.capabilities.position_encoding]
    text_document = capabilities.text_document
    lsp_client.resolves = text_document.code_action.resolve_support is not None
    lsp_client.relates = bool(text_document.publish_diagnostics.related_information)
    yield
    await lsp_client.shutdown_session()


async def opened(client: LanguageClient, text: str = TEXT, uri: str = URI) -> list[t.Diagnostic]:
    client.text_document_did_open(t.DidOpenTextDocumentParams(t.TextDocumentItem(uri, "python", 1, text)))
    while uri not in client.diagnostics:
        await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(client.diagnostics[uri])


DOCUMENT = t.TextDocumentIdentifier(URI)


@pytest.mark.asyncio
async def test_diagnostics(client: LanguageClient) -> None:
    (found,) = await opened(client)
    assert found.range == t.Range(t.Position(1, client.column), t.Position(1, client.column + 7))
    assert (found.code, found.source, found.severity) == ("GL101", "gradline", t.DiagnosticSeverity.Error)
    assert found.code_description.href == "https://example.org/number-backward"
    if not client.relates:
        assert found.message == "a number\n  `loss` is made here (a.py:1)"
        assert found.related_information is None
        return
    (origin,) = found.related_information
    assert origin.message == "`loss` is made here"
    assert origin.location == t.Location(URI, t.Range(t.Position(0, 0), t.Position(0, 15)))


@pytest.mark.asyncio
async def test_quick_fix_is_completed_when_resolved(client: LanguageClient) -> None:
    (found,) = await opened(client)
    context = t.CodeActionContext([found], only=[t.CodeActionKind.QuickFix])
    actions = await client.text_document_code_action_async(t.CodeActionParams(DOCUMENT, found.range, context))
    assert [action.title for action in actions] == ["Drop .item()", "Ignore number-backward (GL101) here"]
    fix, ignore = actions
    assert fix.is_preferred and list(fix.diagnostics) == [found]
    assert (fix.edit is None) == client.resolves
    assert _edits((await client.code_action_resolve_async(fix)).edit) == {URI: [(found.range, "")]}
    end = t.Position(1, client.column + 18)
    assert _edits((await client.code_action_resolve_async(ignore)).edit) == {
        URI: [(t.Range(end, end), "  # gradline: ignore[GL101]")]
    }


@pytest.mark.asyncio
async def test_fix_all(client: LanguageClient) -> None:
    """What somebody has to look at is left out."""
    *found, _ = await opened(client, TEXT + "loss.item().backward()\nloss.item().backward()  # unsafe\n")
    everywhere = t.Range(t.Position(0, 0), t.Position(0, 0))
    context = t.CodeActionContext([], only=["source.fixAll"])
    (action,) = await client.text_document_code_action_async(t.CodeActionParams(DOCUMENT, everywhere, context))
    assert action.kind == "source.fixAll.gradline"
    done = await client.code_action_resolve_async(action)
    assert _edits(done.edit) == {URI: [(item.range, "") for item in found]}


def _edits(edit: t.WorkspaceEdit) -> dict[str, list[tuple[t.Range, str]]]:
    if edit.changes is not None:
        return {uri: [(item.range, item.new_text) for item in items] for uri, items in edit.changes.items()}
    for change in edit.document_changes:
        assert change.text_document.version == 1
    return {
        change.text_document.uri: [(item.range, item.new_text) for item in change.edits]
        for change in edit.document_changes
    }


@pytest.mark.asyncio
async def test_an_action_from_before_an_edit_has_no_edit(client: LanguageClient) -> None:
    if not client.resolves:
        pytest.skip("this editor takes edits at once")
    (found,) = await opened(client)
    context = t.CodeActionContext([found], only=[t.CodeActionKind.QuickFix])
    fix, _ = await client.text_document_code_action_async(t.CodeActionParams(DOCUMENT, found.range, context))
    start = t.Position(0, 0)
    change = t.TextDocumentContentChangePartial(t.Range(start, start), "import torch\n")
    client.text_document_did_change(t.DidChangeTextDocumentParams(t.VersionedTextDocumentIdentifier(2, URI), [change]))
    await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert (await client.code_action_resolve_async(fix)).edit is None


@pytest.mark.asyncio
async def test_hover(client: LanguageClient) -> None:
    await opened(client)
    at = t.Position(1, client.column + 2)
    answer = await client.text_document_hover_async(t.HoverParams(DOCUMENT, at))
    assert answer.contents.value == "**cut**"
    assert answer.range == t.Range(t.Position(1, client.column + 1), t.Position(1, client.column + 5))
    assert await client.text_document_hover_async(t.HoverParams(DOCUMENT, t.Position(0, 0))) is None


@pytest.mark.asyncio
async def test_semantic_tokens_full_range_and_delta(client: LanguageClient) -> None:
    await opened(client)
    item = [1, client.column + 1, 4, 0, 1]
    backward = [0, 7, 8, 2, 0]
    full = await client.text_document_semantic_tokens_full_async(t.SemanticTokensParams(DOCUMENT))
    assert list(full.data) == item + backward
    first_line = t.Range(t.Position(0, 0), t.Position(1, 0))
    part = await client.text_document_semantic_tokens_range_async(t.SemanticTokensRangeParams(DOCUMENT, first_line))
    assert list(part.data) == []
    start = t.Position(0, 0)
    change = t.TextDocumentContentChangePartial(t.Range(start, start), "\n")
    client.text_document_did_change(t.DidChangeTextDocumentParams(t.VersionedTextDocumentIdentifier(2, URI), [change]))
    delta = await client.text_document_semantic_tokens_full_delta_async(
        t.SemanticTokensDeltaParams(DOCUMENT, full.result_id)
    )
    assert [(edit.start, edit.delete_count, list(edit.data)) for edit in delta.edits] == [(0, 1, [2])]
    again = await client.text_document_semantic_tokens_full_delta_async(
        t.SemanticTokensDeltaParams(DOCUMENT, "an id of long ago")
    )
    assert list(again.data) == [2, *item[1:], *backward]


@pytest.mark.asyncio
async def test_inlay_hint_leads_to_its_origin(client: LanguageClient) -> None:
    await opened(client)
    everywhere = t.Range(t.Position(0, 0), t.Position(9, 0))
    (hint,) = await client.text_document_inlay_hint_async(t.InlayHintParams(DOCUMENT, everywhere))
    assert hint.position == t.Position(1, client.column + 7)
    assert hint.label[0].value == "⊘ cut at line 1"
    assert hint.label[0].location.uri == URI


@pytest.mark.asyncio
async def test_related_information_leads_into_other_files(client: LanguageClient, tmp_path: Path) -> None:
    train, loader = tmp_path.joinpath("train.py").as_uri(), tmp_path.joinpath("loader.py").as_uri()
    await opened(client, "from loader import *\nloss.backward()\n", train)
    await opened(client, "x = 1\ntorch.set_grad_enabled(False)\n", loader)
    while not client.diagnostics[train]:
        await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    (found,) = client.diagnostics[train]
    assert found.code == "GL202"
    if client.relates:
        at = t.Range(t.Position(1, 6), t.Position(1, 29))
        assert found.related_information[0].location == t.Location(loader, at)
    # mended in one file, the finding goes from the other
    line = t.Range(t.Position(1, 0), t.Position(2, 0))
    client.text_document_did_change(
        t.DidChangeTextDocumentParams(
            t.VersionedTextDocumentIdentifier(2, loader), [t.TextDocumentContentChangePartial(line, "")]
        )
    )
    while client.diagnostics[train]:
        await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("`x` is a number: call it on the tensor", "`x` is a number: call it on the tensor"),  # short enough
        (
            'what `{"a": b; c: d}` holds (one: two) is not registered: no optimizer trains it, and `parameters()` leaves it out of what it gives',
            'what `{"a": b; c: d}` holds (one: two) is not registered\n'
            "no optimizer trains it, and `parameters()` leaves it out of what it gives",
        ),
        (
            "`switch(False)` turns gradients off for all that runs later, and the loss that is to be trained is computed then",
            "`switch(False)` turns gradients off for all that runs later\n"
            "and the loss that is to be trained is computed then",
        ),
        ("word " * 30 + "\nconfirmed", "word " * 30 + "\nconfirmed"),  # nowhere to break it
    ],
)
def test_a_long_message_has_a_headline(message: str, shown: str) -> None:
    assert convert.headline(message) == shown
