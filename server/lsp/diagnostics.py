"""Diagnostics: given when asked, with result ids, to clients that can be told to ask again; else pushed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from lsprotocol import types

from ..messages import tell
from . import convert

if TYPE_CHECKING:
    from .server import GradlineServer

SCAN_SHOWN = 50  # a first scan of fewer files is over before anybody could read of it
OPTIONS = types.DiagnosticOptions(
    identifier="gradline", inter_file_dependencies=True, workspace_diagnostics=True, work_done_progress=True
)


class Publisher:
    """Brings findings to the client, and remembers what it has, so that nothing is sent twice."""

    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._sent: dict[str, list[types.Diagnostic]] = {}  # by address, pushed
        self._given: dict[str, tuple[str, list[types.Diagnostic]]] = {}  # by address: result id and what it stands for

    @property
    def is_pulled(self) -> bool:
        """Whether the client asks for diagnostics. One that could may say that it wants them pushed all the same.

        One that cannot be told to ask again, as Neovim, would keep what an edit of another file has changed.
        """
        if not self._server.client_has("text_document.diagnostic") or self._server.options.get("diagnostics") == "push":
            return False
        is_refreshed = self._server.client_has("workspace.diagnostics.refresh_support")
        return is_refreshed or not self._server.client_has("text_document.publish_diagnostics")

    def show(self, paths: list[str], edited: bool) -> None:
        """The findings of these files are to be shown anew; `edited`: because the client has edited the one file."""
        if self.is_pulled:
            # the client asks by itself for what it edits; it cannot know what that does to other open documents
            if not edited and any(self._server.documents.views(path) for path in paths):
                self._server.refresh_diagnostics()
            return
        for path in paths:
            for uri, version, found in self.of(path):
                if version is None and found == self._sent.get(uri, []):
                    continue
                self._sent[uri] = found
                if not found and version is None:
                    del self._sent[uri]
                self._server.text_document_publish_diagnostics(
                    types.PublishDiagnosticsParams(uri=uri, diagnostics=found, version=version)
                )

    def of(self, path: str) -> list[tuple[str, int | None, list[types.Diagnostic]]]:
        """For each document at a path (a notebook has many): its address, its version if open, its diagnostics."""
        views = self._server.documents.views(path)
        found = self._diagnostics(path)
        if not views:
            return [(convert.uri_of(path), None, [item for _, item in found])]
        by_uri: dict[str, list[types.Diagnostic]] = {view.uri: [] for view in views}
        for uri, item in found:
            by_uri.setdefault(uri, []).append(item)
        return [(view.uri, view.version, by_uri[view.uri]) for view in views]

    def _diagnostics(self, path: str) -> list[tuple[str, types.Diagnostic]]:
        server = self._server
        related = server.client_has("text_document.publish_diagnostics.related_information") or server.client_has(
            "text_document.diagnostic.related_information"
        )
        found = []
        for finding in [*map(server.verdicts.told, server.analysis.findings(path)), *server.verdicts.seen(path)]:
            at = server.location(finding.place)
            item = convert.diagnostic(finding, server, server.engine.url(finding), related)
            if at is not None and item is not None:
                found.append((at.uri, item))
        return found

    def clear(self, uri: str) -> None:
        """A cell has been taken out, or its notebook closed: nothing of it may stay behind."""
        if self._sent.pop(uri, None):
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))

    def report(self, uri: str, found: list[types.Diagnostic], previous: str | None) -> tuple[str, bool]:
        """The result id of these diagnostics, and whether the client already has them under `previous`."""
        known = self._given.get(uri)
        if known is None or known[1] != found:
            known = self._given[uri] = (uuid.uuid4().hex, found)
        return known[0], known[0] == previous

    def given(self) -> list[str]:
        """The addresses for which the client has been given diagnostics."""
        return [uri for uri, (_, found) in self._given.items() if found]


class ScanProgress:
    """Shows how far the first scan of a workspace is, if it takes its time, and lets the user end it."""

    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._token: str | None = None
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        progress = self._server.work_done_progress
        if self._token is None:
            if total - done >= SCAN_SHOWN and self._server.client_has("window.work_done_progress"):
                self._token = uuid.uuid4().hex
                self._server.later(self._begin(self._token))
        elif self._is_shown and progress.tokens[self._token].cancelled():
            self._end()
            self._server.analysis.give_up()
        elif done == total:
            self._end()
        elif self._is_shown and done % (total // 20 + 1) == 0:
            report = types.WorkDoneProgressReport(
                message=tell("{done} of {total} files", done=done, total=total), percentage=100 * done // total
            )
            progress.report(self._token, report)

    def _end(self) -> None:
        if self._token is not None and self._is_shown:
            self._server.work_done_progress.end(self._token, types.WorkDoneProgressEnd())
        self._token, self._is_shown = None, False

    async def _begin(self, token: str) -> None:
        await self._server.ask(self._server.work_done_progress.create_async(token))
        if token == self._token:
            begin = types.WorkDoneProgressBegin(tell("gradline: following gradients"), percentage=0, cancellable=True)
            self._server.work_done_progress.begin(token, begin)
            self._is_shown = True


def negotiate(server: GradlineServer) -> None:
    """Takes back the offer to be asked, to a client that does not ask: some would otherwise get everything twice."""
    if not server.publisher.is_pulled:
        for method in (types.TEXT_DOCUMENT_DIAGNOSTIC, types.WORKSPACE_DIAGNOSTIC):
            server.protocol.fm.features.pop(method, None)


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DIAGNOSTIC, OPTIONS)
    async def document(params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
        uri = params.text_document.uri
        view = server.view(uri)
        if view is None:
            return types.RelatedFullDocumentDiagnosticReport(items=[])
        await server.analysis.settled(view.path)
        found = next((found for address, _, found in server.publisher.of(view.path) if address == uri), [])
        result, known = server.publisher.report(uri, found, params.previous_result_id)
        if known:
            return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
        return types.RelatedFullDocumentDiagnosticReport(items=found, result_id=result)

    @server.feature(types.WORKSPACE_DIAGNOSTIC)
    async def workspace(params: types.WorkspaceDiagnosticParams) -> types.WorkspaceDiagnosticReport:
        """Answers when something differs from what the client has; clients ask again after each answer.

        To a client that takes partial results, what is found meanwhile is sent as it is found.
        """
        previous = {item.uri: item.value for item in params.previous_result_ids}
        token = params.partial_result_token
        streamed = False
        while True:
            is_current = server.analysis.is_current
            reports = _workspace_reports(server, previous) if is_current or token is not None else []
            if is_current and (reports or streamed):
                return types.WorkspaceDiagnosticReport(reports)
            if reports and token is not None:
                part = types.WorkspaceDiagnosticReportPartialResult(reports)
                server.progress(types.ProgressParams(token, part))
                previous.update({report.uri: str(report.result_id) for report in reports})
                streamed = True
            await server.analysis.news()


def _workspace_reports(
    server: GradlineServer, previous: dict[str, str]
) -> list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport]:
    """Reports for all whose diagnostics differ from those known as `previous`, open or not.

    Clients know best which of the open ones they ask for one by one: VS Code's does so only for those that it shows,
    leaves the diagnostics of others as they were, and does not name them in `previous`. What was given is compared too.
    """
    given = server.publisher.given()
    current: dict[str, tuple[int | None, list[types.Diagnostic]]] = {uri: (None, []) for uri in (*previous, *given)}
    for path in {*server.analysis.paths(), *server.documents.paths()}:
        for uri, version, found in server.publisher.of(path):
            current[uri] = version, found
    reports: list[types.WorkspaceFullDocumentDiagnosticReport | types.WorkspaceUnchangedDocumentDiagnosticReport] = []
    for uri, (version, found) in current.items():
        result, known = server.publisher.report(uri, found, previous.get(uri))
        if not known and (found or uri in previous or uri in given):
            reports.append(
                types.WorkspaceFullDocumentDiagnosticReport(uri=uri, items=found, version=version, result_id=result)
            )
    return reports
