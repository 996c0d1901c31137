"""Every feature of the real server, as VS Code, Neovim and Emacs negotiate it, on one project and one notebook."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as t
from pytest_lsp import ClientServerConfig, LanguageClient

from .client import PATIENCE, REAL

MAIN = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def score(x):
    torch.set_grad_enabled(False)
    return model(x).mean().item()


name = "\U0001f600"; loss = model(torch.randn(8, 4)).pow(2).mean()
optimizer.zero_grad()
loss.item().backward()
optimizer.step()
whole = model(torch.randn(8, 4)).mean()
whole.backward()
kept = whole.detach()
kept.backward()
"""
OTHER = """import torch

w = torch.ones(2, requires_grad=True)
out = (w * 2).sum()
out.item().backward()
"""
WIDTH = {"utf-8": 4, "utf-16": 2, "utf-32": 1}


def soon(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A test that does not wait for ever for what does not come."""

    @functools.wraps(test)
    async def limited(client: LanguageClient) -> None:
        await asyncio.wait_for(test(client), PATIENCE)

    return limited


class Seen:
    """What a session shares: the client, the project, and how columns are counted."""

    def __init__(self, client: LanguageClient, root: Path, encoding: str) -> None:
        self.client, self.root, self.encoding = client, root, encoding
        self.uri = (root / "main.py").as_uri()
        self.document = t.TextDocumentIdentifier(self.uri)

    def at(self, code: str, text: str = MAIN) -> t.Position:
        """Where a piece of code starts."""
        before = text[: text.index(code)]
        line = before[before.rfind("\n") + 1 :]
        column = sum(WIDTH[self.encoding] if character == "\U0001f600" else 1 for character in line)
        return t.Position(before.count("\n"), column)

    def span(self, code: str, text: str = MAIN) -> t.Range:
        start = self.at(code, text)
        return t.Range(start, t.Position(start.line, start.character + len(code)))

    async def diagnostics(self, uri: str) -> list[t.Diagnostic]:
        while not self.client.diagnostics.get(uri):
            await self.client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        return list(self.client.diagnostics[uri])

    async def actions(self, place: t.Range, only: list[str] | None = None) -> list[t.CodeAction]:
        context = t.CodeActionContext([], only=only)
        params = t.CodeActionParams(self.document, place, context)
        return list(await self.client.text_document_code_action_async(params) or [])

    async def edit(self, action: t.CodeAction) -> t.WorkspaceEdit:
        """The edit of an action, at once or when it is chosen, as the editor has it."""
        if action.edit is None:
            action = await self.client.code_action_resolve_async(action)
        assert action.edit is not None
        return action.edit


@pytest_lsp.fixture(params=["visual_studio_code", "neovim", "emacs"], config=ClientServerConfig(server_command=REAL))
async def client(request, lsp_client: LanguageClient, tmp_path_factory: pytest.TempPathFactory):
    root = tmp_path_factory.mktemp("project").resolve()
    (root / "main.py").write_text(MAIN, encoding="utf-8")
    (root / "other.py").write_text(OTHER)
    capabilities = pytest_lsp.client_capabilities(request.param)
    capabilities.text_document.diagnostic = None  # pushed here; `test_diagnostics.py` pulls
    if capabilities.workspace is not None:
        capabilities.workspace.configuration = False
    for method in (
        t.CLIENT_REGISTER_CAPABILITY,
        t.WORKSPACE_SEMANTIC_TOKENS_REFRESH,
        t.WORKSPACE_INLAY_HINT_REFRESH,
        t.WORKSPACE_CODE_LENS_REFRESH,
    ):
        lsp_client.feature(method)(lambda *params: None)
    answer = await lsp_client.initialize_session(
        t.InitializeParams(
            capabilities=capabilities,
            root_uri=root.as_uri(),
            workspace_folders=[t.WorkspaceFolder(root.as_uri(), "project")],
            initialization_options={"commands": ["gradline.showPlaces"], "probe": True, "inlayHints": "all"},
        )
    )
    lsp_client.seen = Seen(lsp_client, root, answer.capabilities.position_encoding)
    lsp_client.editor = request.param
    yield
    await lsp_client.shutdown_session()


@pytest.mark.asyncio
@soon
async def test_a_file(client: LanguageClient) -> None:
    seen: Seen = client.seen
    client.text_document_did_open(t.DidOpenTextDocumentParams(t.TextDocumentItem(seen.uri, "python", 1, MAIN)))

    # findings, with where the loss is made; those of a file that is not open
    found = await seen.diagnostics(seen.uri)
    (number,) = (one for one in found if one.code == "GL101")
    assert number.range.start.line == seen.at("loss.item()").line
    assert (await seen.diagnostics((seen.root / "other.py").as_uri()))[0].code == "GL101"

    # hover
    hover = await client.text_document_hover_async(t.HoverParams(seen.document, seen.at("item().backward")))
    assert "`.item()` copies the value" in hover.contents.value
    hover = await client.text_document_hover_async(t.HoverParams(seen.document, seen.at("loss = model")))
    assert "scalar tensor, **attached**" in hover.contents.value
    assert hover.range == seen.span("loss")  # behind a character beyond the BMP

    # colours: all, of some lines, and what has changed
    full = await client.text_document_semantic_tokens_full_async(t.SemanticTokensParams(seen.document))
    top = t.Range(t.Position(0, 0), t.Position(10, 0))
    part = await client.text_document_semantic_tokens_range_async(t.SemanticTokensRangeParams(seen.document, top))
    assert 0 < len(part.data) < len(full.data) and list(full.data)[: len(part.data)] == list(part.data)
    delta = await client.text_document_semantic_tokens_full_delta_async(
        t.SemanticTokensDeltaParams(seen.document, full.result_id)
    )
    assert list(delta.edits) == []

    # the line of a value
    where = t.DocumentHighlightParams(seen.document, seen.at("loss = model"))
    lit = await client.text_document_document_highlight_async(where)
    kinds = {(one.range.start.line, one.kind) for one in lit}
    bound, cut = seen.at("loss = model").line, seen.at("loss.item()").line
    assert (bound, t.DocumentHighlightKind.Write) in kinds and (cut, t.DocumentHighlightKind.Text) in kinds
    where = t.DocumentHighlightParams(seen.document, seen.at("optimizer.zero_grad"))
    assert await client.text_document_document_highlight_async(where) is None, "others may have something to show"

    # hints, completed when they are shown
    while True:
        everything = t.Range(t.Position(0, 0), t.Position(99, 0))
        hints = await client.text_document_inlay_hint_async(t.InlayHintParams(seen.document, everything))
        if hints:
            break
        await asyncio.sleep(0.1)
    (hint,) = (one for one in hints if one.label[0].location is not None)
    assert hint.label[0].location == t.Location(seen.uri, seen.span("whole.detach()"))
    if hint.tooltip is None:
        hint = await client.inlay_hint_resolve_async(hint)
    assert "kept = whole.detach()" in hint.tooltip.value

    # lenses
    while True:
        lenses = await client.text_document_code_lens_async(t.CodeLensParams(seen.document)) or []
        probes = [one.command for one in lenses if one.command.command == "gradline.probe"]
        if probes:
            break
        await asyncio.sleep(0.1)
    assert list(probes[0].arguments) == [seen.uri, seen.at("loss.item()").line]

    # quick fixes, of one finding and of all that are alike; suppression
    quick = await seen.actions(number.range, [t.CodeActionKind.QuickFix])
    assert quick[0].is_preferred and "ignore" in quick[-1].title.lower()
    edit = await seen.edit(quick[0])
    assert list(_texts(edit)) == [seen.uri]
    project = [one for one in quick if "in the project" in one.title]
    if client.capabilities.text_document.code_action.resolve_support is not None:
        edit = await seen.edit(project[0])
        assert set(_texts(edit)) == {seen.uri, (seen.root / "other.py").as_uri()}
    else:
        assert not project, "it would be computed for nothing"
    (everything,) = await seen.actions(t.Range(t.Position(0, 0), t.Position(0, 0)), ["source.fixAll.gradline"])
    assert list(_texts(await seen.edit(everything))) == [seen.uri]

    # a refactoring: not safe, so those who can ask
    at = seen.at("torch.set_grad_enabled")
    offered = await seen.actions(t.Range(at, at), [t.CodeActionKind.Refactor])
    titles = [one.title for one in offered]
    assert "Put what follows under `with torch.no_grad():`" in titles
    edit = await seen.edit(offered[0])
    assert "with torch.no_grad():" in _texts(edit)[seen.uri]
    workspace_edit = client.capabilities.workspace.workspace_edit
    if workspace_edit.change_annotation_support and workspace_edit.document_changes:
        (annotation,) = edit.change_annotations.values()
        assert annotation.needs_confirmation and edit.document_changes[0].text_document.version == 1


@pytest.mark.asyncio
@soon
async def test_a_notebook_that_was_never_saved(client: LanguageClient) -> None:
    """Cells put in, moved, edited and taken out; everything that is known of a file is known in a cell."""
    if client.editor == "emacs":
        pytest.skip("eglot has no notebooks")
    seen: Seen = client.seen
    notebook = "untitled:Untitled-1.ipynb?jupyter-notebook"
    head, tail, more = (f"vscode-notebook-cell:Untitled-1.ipynb?jupyter-notebook#{name}" for name in "abc")
    cells = {
        head: "import torch\n%matplotlib inline\nmodel = torch.nn.Linear(4, 1)\n",
        tail: "loss = model(torch.randn(8, 4)).mean()\n!ls\nloss.item().backward()\n",
    }

    def cell(uri: str) -> t.NotebookCell:
        return t.NotebookCell(t.NotebookCellKind.Code, uri)

    def text(uri: str, content: str) -> t.TextDocumentItem:
        return t.TextDocumentItem(uri, "python", 1, content)

    def change(version: int, **what: object) -> None:
        client.notebook_document_did_change(
            t.DidChangeNotebookDocumentParams(
                t.VersionedNotebookDocumentIdentifier(version, notebook),
                t.NotebookDocumentChangeEvent(cells=t.NotebookDocumentCellChanges(**what)),
            )
        )

    async def comes(uri: str, codes: list[str]) -> None:
        while uri not in client.diagnostics or [one.code for one in client.diagnostics[uri]] != codes:
            await client.wait_for_notification(t.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)

    client.diagnostics.clear()
    document = t.NotebookDocument(notebook, "jupyter-notebook", 1, [cell(head), cell(tail)])
    client.notebook_document_did_open(
        t.DidOpenNotebookDocumentParams(document, [text(uri, content) for uri, content in cells.items()])
    )
    (found,) = await seen.diagnostics(tail)
    assert (found.code, found.range.start) == ("GL101", t.Position(2, 0))

    hover = await client.text_document_hover_async(t.HoverParams(t.TextDocumentIdentifier(tail), t.Position(0, 1)))
    assert "scalar tensor, **attached**" in hover.contents.value and hover.range.start == t.Position(0, 0)
    tokens = await client.text_document_semantic_tokens_full_async(
        t.SemanticTokensParams(t.TextDocumentIdentifier(tail))
    )
    assert list(tokens.data)[:3] == [2, 5, 4]
    where = t.DocumentHighlightParams(t.TextDocumentIdentifier(tail), t.Position(0, 1))
    lit = await client.text_document_document_highlight_async(where)
    assert {one.range.start.line for one in lit} == {0, 2}
    context = t.CodeActionContext([], only=[t.CodeActionKind.QuickFix])
    quick = await client.text_document_code_action_async(
        t.CodeActionParams(t.TextDocumentIdentifier(tail), found.range, context)
    )
    assert list(_texts(await seen.edit(quick[0]))) == [tail]

    # the cell that makes the loss is put behind the one that uses it: then there is no loss, and nothing is known
    moved = t.NotebookCellArrayChange(0, 2, [cell(tail), cell(head)])
    change(2, structure=t.NotebookDocumentCellChangeStructure(moved))
    await comes(tail, [])
    change(
        3, structure=t.NotebookDocumentCellChangeStructure(t.NotebookCellArrayChange(0, 2, [cell(head), cell(tail)]))
    )
    await comes(tail, ["GL101"])
    # a cell in between gives the name another value
    between = t.NotebookCellArrayChange(1, 0, [cell(more)])
    change(
        4, structure=t.NotebookDocumentCellChangeStructure(between, [text(more, "with torch.no_grad():\n    y = 1\n")])
    )
    await comes(more, [])
    # a text: the cut goes
    start, end = t.Position(2, 4), t.Position(2, 11)
    edit = t.TextDocumentContentChangePartial(t.Range(start, end), "")
    content = t.NotebookDocumentCellContentChanges(t.VersionedTextDocumentIdentifier(2, tail), [edit])
    change(5, text_content=[content])
    await comes(tail, [])
    hints = t.InlayHintParams(t.TextDocumentIdentifier(tail), t.Range(t.Position(0, 0), t.Position(9, 0)))
    while not (shown := await client.text_document_inlay_hint_async(hints)):
        await asyncio.sleep(0.1)
    assert (shown[0].position.line, shown[0].label[0].value) == (0, "grad · scalar")
    # taken out, with the model: of what is left nothing is said
    change(
        6,
        structure=t.NotebookDocumentCellChangeStructure(
            t.NotebookCellArrayChange(0, 1), None, [t.TextDocumentIdentifier(head)]
        ),
    )
    await comes(tail, [])
    client.notebook_document_did_close(
        t.DidCloseNotebookDocumentParams(t.NotebookDocumentIdentifier(notebook), [t.TextDocumentIdentifier(tail)])
    )


def _texts(edit: t.WorkspaceEdit) -> dict[str, list[str]]:
    """The new texts by address."""
    if edit.changes is not None:
        return {uri: [one.new_text for one in items] for uri, items in edit.changes.items()}
    return {one.text_document.uri: [item.new_text for item in one.edits] for one in edit.document_changes}
