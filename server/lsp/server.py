"""The server: what its features share, and its life from `initialize` to `exit`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from .. import __version__, language
from ..findings import Place
from . import (
    answers,
    code_actions,
    code_lens,
    config,
    convert,
    custom,
    diagnostics,
    highlight,
    hover,
    inlay_hints,
    looking,
    notebooks,
    probe,
    semantic_tokens,
    watching,
    why,
)
from .analysis import Analysis
from .engine import Engine
from .sync import Documents, View
from .transport import Inbox, deliver, own_stdout

LOG = logging.getLogger(__name__)

FEATURES = (
    config,
    diagnostics,
    hover,
    highlight,
    semantic_tokens,
    inlay_hints,
    code_actions,
    code_lens,
    notebooks,
    custom,
    looking,
    answers,
    probe,
    why,
    watching,
)

Answer = TypeVar("Answer")


class GradlineProtocol(LanguageServerProtocol):
    """pygls' protocol with our documents in the place of its own.

    Where pygls' methods yield the handlers that are to come after them, these have none and return None.
    """

    def _documents(self) -> Documents:
        assert isinstance(self._server, GradlineServer)
        return self._server.documents

    def _come_or_gone(self) -> Documents:
        assert isinstance(self._server, GradlineServer)
        self._server.watch.look_soon()
        return self._server.documents

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> Any:
        self._come_or_gone().open(params.text_document)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> Any:
        self._documents().change(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> Any:
        self._come_or_gone().close(params.text_document.uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> Any:
        self._come_or_gone().open_notebook(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> Any:
        self._documents().change_notebook(params)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: types.DidCloseNotebookDocumentParams) -> Any:
        self._come_or_gone().close_notebook(params)


class GradlineServer(LanguageServer):
    """A language server with an engine, documents, settings, and an analysis that keeps findings up to date."""

    analysis: Analysis

    def __init__(self, engine: Engine) -> None:
        super().__init__(
            "gradline",
            __version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            notebook_document_sync=notebooks.OPTIONS,
            protocol_cls=GradlineProtocol,
            max_workers=1,
        )
        self.engine = engine
        self.configuration = config.Configuration()
        self.options: dict[str, Any] = {}
        self.publisher = diagnostics.Publisher(self)
        self.documents = Documents(
            lambda path, source: self.analysis.changed(path, source), lambda uri: self.publisher.clear(uri)
        )
        self.scan = diagnostics.ScanProgress(self)
        self.fixes = code_actions.Fixes(self)
        self.verdicts = probe.Verdicts(self)
        self.answers = answers.Answers(self)
        self.watch = watching.Watch(self)
        self.analysis_idle: list[Callable[[], Iterator[None]]] = []  # what features do when nothing else is to be done
        self.analysis_paused: list[Callable[[], Iterator[None]]] = []  # the same, when nobody has typed for a moment
        self.analysis_quiet: list[Callable[[], Iterator[None]]] = []  # ... and for a while
        self._running = False
        self._said: set[str] = set()
        self._tasks: set[asyncio.Future[Any]] = set()

        @self.feature(types.INITIALIZE)
        def initialize(params: types.InitializeParams) -> None:
            self.documents.encoding = self.encoding
            given = params.initialization_options
            self.options = given if isinstance(given, dict) else {}
            language.for_editor(params.locale)
            diagnostics.negotiate(self)
            config.use(self, config.Configuration(config.started_with(given)))
            self.use_folders()

        for feature in FEATURES:
            feature.register(self)

    # What the client is

    @property
    def encoding(self) -> str:
        """What positions count: "utf-8", "utf-16" or "utf-32"."""
        return str(getattr(self.workspace.position_encoding, "value", self.workspace.position_encoding))

    def client_has(self, path: str) -> bool:
        """Whether the client's capability at this dotted path is set: `textDocument.diagnostic` as `text_document.diagnostic`."""
        value: Any = self.client_capabilities
        for name in path.split("."):
            value = getattr(value, name, None)
        return bool(value)

    def client_resolves(self, feature: str, name: str) -> bool:
        """Whether the client asks for this property later (`.../resolve`), when it is to be shown."""
        value: Any = self.client_capabilities
        for part in (*feature.split("."), "resolve_support"):
            value = getattr(value, part, None)
        return name in (getattr(value, "properties", None) or ())

    def folders(self) -> dict[str, str]:
        """The folders of the workspace: path to address."""
        uris = list(self.workspace.folders) or ([self.workspace.root_uri] if self.workspace.root_uri else [])
        return {convert.path_of(uri).rstrip("/") or "/": uri for uri in uris if uri and uri.startswith("file:")}

    # Life

    def started(self) -> None:
        """The client is ready to be spoken to."""
        self._running = True
        self.analysis_idle.append(self._problems)
        self.analysis.wake()

    def use_folders(self) -> None:
        self.engine.set_roots(list(self.folders()))
        self.analysis.begin_again()

    def _problems(self) -> Iterator[None]:
        """Tells the user, once each, what is wrong and can be put right (a broken `pyproject.toml`, ...)."""
        for problem in self.engine.problems():
            yield
            if problem not in self._said:
                self._said.add(problem)
                self.window_show_message(types.ShowMessageParams(types.MessageType.Warning, f"gradline: {problem}"))

    async def serve(self, stdin: int) -> None:
        """Takes messages from a file descriptor until the client goes."""
        inbox = Inbox(stdin)
        self.analysis = Analysis(self.engine, inbox.waiting, self.documents.paths, self._show, self.scan)
        self.analysis.idle = self.analysis_idle
        self.analysis.paused = self.analysis_paused
        self.analysis.quiet = self.analysis_quiet
        self.analysis.enabled = lambda path: self.configuration.of(path).enable
        work = asyncio.create_task(self._work())
        try:
            while (body := await inbox.get()) is not None:
                deliver(self.protocol, body)
        finally:
            work.cancel()

    async def _work(self) -> None:
        while True:
            try:
                await self.analysis.run()
            except asyncio.CancelledError:
                raise
            except Exception:
                LOG.exception("the analysis broke off; it starts again")

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Errors go to the log. A message for each would be a storm of messages that nobody can act on."""
        LOG.error("%s: %s", getattr(source, "__name__", source), error)

    async def ask(self, request: Awaitable[Answer]) -> Answer | None:
        """The client's answer to a request of ours; None if it refuses.

        Shielded, as pygls fails on an answer that comes after the asker was cancelled.
        """
        try:
            return await asyncio.shield(asyncio.ensure_future(request))
        except JsonRpcException as error:
            LOG.warning("the client refused: %s", error)
            return None

    # Places

    def view(self, uri: str) -> View | None:
        """The open document, or the open notebook's cell, at this address."""
        return self.documents.view(uri)

    def location(self, place: Place) -> types.Location | None:
        """Where a place is, in the words of the protocol; None if its file has gone."""
        return self.place(place.path, place.start, place.end)

    def place(self, path: str, start: int, end: int) -> types.Location | None:
        """As `location`; None also for a place in a notebook that is not open, as there is no address for a cell."""
        views = self.documents.views(path)
        for view in views:
            if view.start <= start <= view.end:
                return types.Location(view.uri, view.range(start, end))
        source = self.engine.source(path) if not views else None
        if source is None or source.cells is not None:
            return None
        return types.Location(convert.uri_of(path), convert.span(source, start, end, self.encoding))

    # Telling the client to ask again

    def _show(self, paths: list[str], edited: bool) -> None:
        self.publisher.show(paths, edited)
        if turned := [path for path in self.verdicts.turned() if path not in paths]:
            self.publisher.show(turned, False)
        self.answers.may_differ(now=bool(turned) or not edited)
        self.tell_lines(paths)

    def tell_lines(self, paths: Sequence[str]) -> None:
        """Tells a client that draws the gradient line that it looks otherwise now."""
        if self.options.get("lines"):
            for path in paths:
                for view in self.documents.views(path):
                    self.protocol.notify("gradline/linesChanged", {"uri": view.uri})

    def refresh_diagnostics(self) -> None:
        if self._running and self.client_has("workspace.diagnostics.refresh_support"):
            self.later(self.ask(self.workspace_diagnostic_refresh_async(None)))

    def refresh_views(self) -> None:
        """What the client shows besides diagnostics may be out of date, in all documents."""
        for kind in (answers.TOKENS, answers.HINTS, answers.LENSES):
            self.refresh(kind, [])

    def refresh(self, kind: str, uris: Sequence[str]) -> None:
        """Answers of this kind are out of date for these documents: the client is to ask again."""
        if not self._running:
            return
        if kind == answers.LINES:
            if self.options.get("lines"):
                for uri in uris:
                    self.protocol.notify("gradline/linesChanged", {"uri": uri})
        elif kind == answers.TOKENS and self.client_has("workspace.semantic_tokens.refresh_support"):
            self.later(self.ask(self.workspace_semantic_tokens_refresh_async(None)))
        elif kind == answers.HINTS and self.client_has("workspace.inlay_hint.refresh_support"):
            self.later(self.ask(self.workspace_inlay_hint_refresh_async(None)))
        elif kind == answers.LENSES and self.client_has("workspace.code_lens.refresh_support"):
            self.later(self.ask(self.workspace_code_lens_refresh_async(None)))

    def later(self, work: Awaitable[Any]) -> None:
        """Does something on the event loop, without waiting for it."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def run(arguments: Sequence[str], engine: Callable[[], Engine] | None) -> int:
    """See `gradline.lsp.main`."""
    unknown = [argument for argument in arguments if argument != "--stdio"]
    if unknown:
        print(f"gradline server: unknown argument {unknown[0]!r}; it serves over stdin and stdout", file=sys.stderr)
        return 2
    level = os.environ.get("GRADLINE_LOG", "WARNING").upper()
    logging.basicConfig(stream=sys.stderr, level=level, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("pygls").setLevel(max(logging.WARNING, logging.getLogger().level))
    if engine is None:
        from .local import Local

        engine = Local
    stdin = sys.stdin.fileno()
    server = GradlineServer(engine())
    server.protocol.set_writer(_Writer(own_stdout()))
    try:
        asyncio.run(server.serve(stdin))
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except (BrokenPipeError, KeyboardInterrupt):
        return 1
    finally:
        server.shutdown()
    return 1


class _Writer:
    """A stream for pygls to write to; after the client has gone, writing does nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: bytes) -> None:
        self._stream.write(data)
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()
