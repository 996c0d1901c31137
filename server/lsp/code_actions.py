"""Code actions: the fixes of findings, all safe fixes of a file or of the project at once, suppressions, refactorings.

Titles need the fix, so it is made for the list, and kept until the texts change; its edits are sent only when the
client asks for them (`codeAction/resolve`), or at once to clients that never ask.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ..edits import Applicability, Edit, EditingUnavailableError, Fix
from ..findings import Finding, Place
from ..insight import origin
from ..messages import tell, told
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer

LOG = logging.getLogger(__name__)

FIX_ALL = "source.fixAll.gradline"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL, types.CodeActionKind.RefactorRewrite]
INSTALL = "gradline.installLibcst"  # a command of the client's; only for clients that say they have it
REVIEW = "review"  # the annotation of edits that somebody has to look at
PREPARED = 30  # fixes of one file that are made before they are asked for: each costs about as much as a check
REMEMBERED = 1000  # titles of fixes
ORDER = (Applicability.SAFE, Applicability.UNSAFE, Applicability.DISPLAY)


class Fixes:
    """Fixes that were made, until the texts change."""

    def __init__(self, server: GradlineServer) -> None:
        self._server = server
        self._made: dict[tuple[str, Place, str], Fix | None] = {}
        self._revision = -1
        self._before: dict[tuple[str, str, str], Fix | None] = {}  # of findings that say the same, in texts before
        self.unavailable = False  # LibCST is missing

    def of(self, finding: Finding) -> Fix | None:
        """The fix of a finding, None if there is none. A failure is logged and is no fix."""
        if self._revision != self._server.analysis.revision:
            self._made.clear()
            self._revision = self._server.analysis.revision
        key = finding.code, finding.place, finding.message
        if key not in self._made:
            fix = self._made[key] = self._make(finding)
            self._before[_saying(finding)] = fix._replace(edits=()) if fix is not None else None
            while len(self._before) > REMEMBERED:
                self._before.pop(next(iter(self._before)))
        return self._made[key]

    def outline(self, finding: Finding) -> Fix | None:
        """The fix, perhaps without its edits: while somebody types, a finding that says what one said before has its
        title. Making the fix anew costs about as much as a check; that is done when the action is chosen."""
        is_made = self._revision == self._server.analysis.revision
        if not (is_made and (finding.code, finding.place, finding.message) in self._made):
            known = _saying(finding)
            if known in self._before:
                return self._before[known]
        return self.of(finding)

    def _make(self, finding: Finding) -> Fix | None:
        if not finding.fixable:
            return None
        try:
            fix = self._server.engine.fix(finding)
        except EditingUnavailableError as error:
            if not self.unavailable:
                LOG.warning("%s", error)
            self.unavailable = True
            return None
        except Exception:
            LOG.exception("fixing %s failed", finding.code)
            return None
        self.unavailable = False
        return fix


def _saying(finding: Finding) -> tuple[str, str, str]:
    return finding.place.path, finding.code, finding.message


def register(server: GradlineServer) -> None:
    fixes = server.fixes

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(KINDS, resolve_provider=True))
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        view = server.view(uri)
        if view is None:
            return []
        await server.analysis.settled(view.path)
        view = server.view(uri) or view
        only = params.context.only or []
        found: list[types.CodeAction] = []
        if _wanted(types.CodeActionKind.QuickFix, only):
            start, end = view.offset(params.range.start), view.offset(params.range.end)
            here = [
                finding
                for finding in server.analysis.findings(view.path)
                if finding.place.start <= end and start <= finding.place.end
            ]
            found += _quick_fixes(server, view, here, params.context.diagnostics)
            titles = {action.title for action in found}
            found += [action for action in _fixes_at_origin(server, view, start, end) if action.title not in titles]
        if only and _wanted(FIX_ALL, only):
            found += _fix_all(server, view)
        if _wanted(types.CodeActionKind.RefactorRewrite, only):
            found += _refactorings(server, view, view.offset(params.range.start))
        if not _resolves(server):
            for action in found:
                await _complete(server, action)
        return found

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        await _complete(server, action)
        return action

    def prepare() -> Iterator[None]:
        """Makes the fixes of what is open before they are asked for."""
        for path in server.documents.paths():
            for finding in server.analysis.findings(path)[:PREPARED]:
                yield
                fixes.of(finding)

    server.analysis_paused.append(prepare)


def _wanted(kind: str, only: Sequence[str]) -> bool:
    return not only or any(kind == some or kind.startswith(f"{some}.") or some == "" for some in only)


def _quick_fixes(
    server: GradlineServer, view: View, findings: Sequence[Finding], diagnostics: Sequence[types.Diagnostic]
) -> list[types.CodeAction]:
    made: list[tuple[int, types.CodeAction]] = []
    ignores: list[types.CodeAction] = []
    for finding in findings:
        at = view.range(finding.place.start, finding.place.end)
        own = [item for item in diagnostics if item.code == finding.code and item.range == at]
        data = {"uri": view.uri, **_key(finding)}
        fix = server.fixes.outline(finding) if _resolves(server) else server.fixes.of(finding)
        if fix is not None:
            action = types.CodeAction(
                title=told(fix.message),
                kind=types.CodeActionKind.QuickFix,
                diagnostics=own or None,
                is_preferred=True if fix.applicability is Applicability.SAFE else None,
                data={"make": "fix", **data},
            )
            made.append((ORDER.index(fix.applicability), action))
            alike = [other for other in server.analysis.findings(view.path) if other.code == finding.code]
            if len(alike) > 1 and fix.applicability is Applicability.SAFE:
                title = tell("Fix all {name} ({code}) in this file", name=finding.name, code=finding.code)
                data = {"make": "all", "uri": view.uri, "code": finding.code}
                made.append((len(ORDER), types.CodeAction(title, kind=types.CodeActionKind.QuickFix, data=data)))
            if fix.applicability is Applicability.SAFE and _resolves(server) and _is_elsewhere(server, finding):
                title = tell("Fix all {name} ({code}) in the project", name=finding.name, code=finding.code)
                data = {"make": "project", "uri": view.uri, "code": finding.code}
                made.append((len(ORDER) + 1, types.CodeAction(title, kind=types.CodeActionKind.QuickFix, data=data)))
        elif server.fixes.unavailable and finding.fixable and INSTALL in server.options.get("commands", ()):
            title = tell("Install LibCST to fix this")
            command = types.Command(title, INSTALL)
            action = types.CodeAction(title, kind=types.CodeActionKind.QuickFix, diagnostics=own, command=command)
            made.append((0, action))
        ignores.append(
            types.CodeAction(
                title=tell("Ignore {name} ({code}) here", name=finding.name, code=finding.code),
                kind=types.CodeActionKind.QuickFix,
                diagnostics=own or None,
                data={"make": "ignore", "uri": view.uri, **_key(finding)},
            )
        )
    unique = {action.title: action for _, action in sorted(made, key=lambda item: -item[0])}
    ordered = [action for _, action in sorted(made, key=lambda item: item[0]) if unique[action.title] is action]
    return ordered + list({action.title: action for action in ignores}.values())


def _fixes_at_origin(server: GradlineServer, view: View, start: int, end: int) -> Iterator[types.CodeAction]:
    """The fixes of findings that show elsewhere and come from here."""
    for path in server.analysis.paths():
        for finding in server.analysis.findings(path):
            at = origin(finding)
            if at == finding.place or at.path != view.path or at.start > end or start > at.end:
                continue
            fix = server.fixes.outline(finding) if _resolves(server) else server.fixes.of(finding)
            if fix is not None:
                data = {"make": "fix", "uri": view.uri, "path": path, **_key(finding)}
                yield types.CodeAction(told(fix.message), kind=types.CodeActionKind.QuickFix, data=data)


def _fix_all(server: GradlineServer, view: View) -> list[types.CodeAction]:
    if not any(_is_safe(server.fixes.of(finding)) for finding in server.analysis.findings(view.path)):
        return []
    data = {"make": "all", "uri": view.uri, "code": None}
    return [types.CodeAction(tell("Fix all that is safe to fix (gradline)"), kind=FIX_ALL, data=data)]


def _resolves(server: GradlineServer) -> bool:
    """Whether the client asks for the edits of an action when it is chosen."""
    return server.client_has("text_document.code_action.resolve_support")


def _is_elsewhere(server: GradlineServer, finding: Finding) -> bool:
    """Whether other files have findings of this rule."""
    return any(
        other.code == finding.code
        for path in server.analysis.paths()
        if path != finding.place.path
        for other in server.analysis.findings(path)
    )


def _refactorings(server: GradlineServer, view: View, offset: int) -> list[types.CodeAction]:
    if server.fixes.unavailable:
        return []
    try:
        offers = server.engine.refactorings(view.path, offset, server.analysis.is_disturbed)
    except Exception:
        LOG.exception("what can be refactored in %s could not be found out", view.path)
        return []
    text = _digest(server, view.path)
    kind = types.CodeActionKind.RefactorRewrite
    return [
        types.CodeAction(
            told(offer.title),
            kind=kind,
            data={"make": "refactor", "uri": view.uri, "at": offset, "name": offer.name, "text": text},
        )
        for offer in offers
    ]


def _digest(server: GradlineServer, path: str) -> int:
    """A number by which a text is known again."""
    source = server.engine.source(path)
    return zlib.crc32(source.text.encode("utf-8", "surrogatepass")) if source is not None else 0


def _refactored(server: GradlineServer, view: View, data: dict[str, Any]) -> types.WorkspaceEdit | None:
    if data["text"] != _digest(server, view.path):
        return None
    try:
        fix = server.engine.refactor(view.path, data["at"], data["name"])
    except EditingUnavailableError as error:
        LOG.warning("%s", error)
        server.fixes.unavailable = True
        return None
    return workspace_edit(server, fix.edits, None if _is_safe(fix) else told(fix.message)) if fix is not None else None


def _is_safe(fix: Fix | None) -> bool:
    return fix is not None and fix.applicability is Applicability.SAFE


def _key(finding: Finding) -> dict[str, Any]:
    return {"code": finding.code, "start": finding.place.start, "end": finding.place.end}


async def _complete(server: GradlineServer, action: types.CodeAction) -> None:
    """Puts the edits into an action. Where the texts have changed meanwhile it stays without."""
    data = action.data if isinstance(action.data, dict) else {}
    view = server.view(str(data.get("uri")))
    if view is None:
        return
    if data["make"] == "refactor":
        action.edit = _refactored(server, view, data)
        return
    if data["make"] in ("all", "project"):
        paths = server.analysis.paths() if data["make"] == "project" else [view.path]
        revision, safe = server.analysis.revision, []
        for finding in [finding for path in paths for finding in server.analysis.findings(path)]:
            if data["code"] in (None, finding.code) and (fix := server.fixes.of(finding)) and _is_safe(fix):
                safe.append(fix)
            if data["make"] == "project":
                await asyncio.sleep(0)  # others are served meanwhile
                if server.analysis.revision != revision:
                    return
        action.edit = workspace_edit(server, _disjoint(safe), None)
        return
    findings = server.analysis.findings(str(data.get("path", view.path)))
    finding = next((finding for finding in findings if _key(finding).items() <= data.items()), None)
    if finding is None:
        return
    fix = server.fixes.of(finding) if data["make"] == "fix" else server.engine.ignore(finding)
    if fix is not None:
        action.edit = workspace_edit(server, fix.edits, None if _is_safe(fix) else told(fix.message))


def _disjoint(fixes: Iterable[Fix]) -> list[Edit]:
    """The edits of as many of the fixes, from the first on, as do not touch each other; equal edits count once."""
    taken: list[Edit] = []
    for fix in fixes:
        new = [edit for edit in fix.edits if edit not in taken]
        clash = any(
            edit.path == other.path and edit.start <= other.end and other.start <= edit.end
            for edit in new
            for other in taken
        )
        if not clash:
            taken += new
    return taken


def workspace_edit(server: GradlineServer, edits: Iterable[Edit], review: str | None) -> types.WorkspaceEdit | None:
    """Edits as the client takes them; None if one is in a place that has no address (a cell of a closed notebook).

    `review` is the label under which a client that can asks the user to confirm them.
    """
    by_uri: dict[str, list[types.TextEdit]] = {}
    versions: dict[str, int | None] = {}
    for edit in edits:
        views = server.documents.views(edit.path)
        view = next((view for view in views if view.holds(edit.start, edit.end)), None)
        if view is not None:
            uri, at = view.uri, view.range(edit.start, edit.end)
            versions[uri] = view.version
        else:
            location = server.place(edit.path, edit.start, edit.end)
            if location is None:
                return None
            uri, at = location.uri, location.range
            versions[uri] = None
        by_uri.setdefault(uri, []).append(types.TextEdit(at, edit.content))
    if not server.client_has("workspace.workspace_edit.document_changes"):
        return types.WorkspaceEdit(changes=by_uri)
    annotate = server.client_has("workspace.workspace_edit.change_annotation_support")
    if review is None or not annotate:
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]), items)
                for uri, items in by_uri.items()
            ]
        )
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]),
                [types.AnnotatedTextEdit(REVIEW, item.range, item.new_text) for item in items],
            )
            for uri, items in by_uri.items()
        ],
        change_annotations={REVIEW: types.ChangeAnnotation(review, needs_confirmation=True)},
    )
