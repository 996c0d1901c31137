"""Inlay hints: where the line is cut, and where grad mode is off because of another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ..findings import Place
from ..messages import tell
from .answers import HINTS
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer


def register(server: GradlineServer) -> None:
    @server.feature(types.INLAY_HINT_RESOLVE)
    def resolve(hint: types.InlayHint) -> types.InlayHint:
        data = hint.data if isinstance(hint.data, dict) else {}
        origin = data.get("origin")
        hint.tooltip = _tooltip(server, str(data.get("tooltip") or ""), Place(*origin) if origin else None)
        return hint

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=True))
    def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        view = server.view(params.text_document.uri)
        if view is None:
            return []
        return server.answers.give(HINTS, view, lambda view: _within(server, view, params.range))


def _within(server: GradlineServer, view: View, wanted: types.Range) -> list[types.InlayHint]:
    which = server.configuration.of(view.path).inlayHints
    if which == "off":
        return []
    first, last = view.offset(wanted.start), view.offset(wanted.end)
    found = []
    for offset, label, tooltip in server.verdicts.hints(view.path):
        if first <= offset <= last and view.holds(offset, offset):
            found.append(_hint(server, view, offset, label, tooltip, None))
    for hint in server.engine.hints(view.path):
        if not (first <= hint.offset <= last and view.holds(hint.offset, hint.offset)):
            continue
        if hint.is_cut or which == "all":
            found.append(_hint(server, view, hint.offset, hint.label, hint.tooltip, hint.origin))
    return found


def _hint(
    server: GradlineServer, view: View, offset: int, label: str, tooltip: str, origin: Place | None
) -> types.InlayHint:
    location = server.location(origin) if origin else None
    if origin is not None and location is not None:
        label = f"{label} {_where(server, view, origin, location)}"
    part = types.InlayHintLabelPart(label, tooltip=None, location=location)
    hint = types.InlayHint(position=view.range(offset, offset).start, label=[part], padding_left=True)
    if server.client_resolves("text_document.inlay_hint", "tooltip"):
        hint.data = {"tooltip": tooltip, "origin": list(origin) if origin is not None else None}
    else:
        hint.tooltip = _tooltip(server, tooltip, origin)
    return hint


def _where(server: GradlineServer, view: View, origin: Place, location: types.Location) -> str:
    """Where a hint leads: "line 12" here, "cell 3, line 2" in this notebook, "data.py:13" elsewhere."""
    line = location.range.start.line + 1
    if location.uri == view.uri:
        return tell("line {n}", n=line)
    source = server.engine.source(origin.path)
    name = origin.path.rpartition("/")[2]
    if source is None or source.cells is None or not source.cells.cells:
        return f"{name}:{line}"
    cell = source.cells.position(origin.start)[0] + 1
    said = tell("cell {cell}, line {n}", cell=cell, n=line)
    return said if origin.path == view.path else f"{name} {said}"


def _tooltip(server: GradlineServer, tooltip: str, origin: Place | None) -> types.MarkupContent | None:
    """What is to be said, and the line of the origin."""
    parts = [tooltip] if tooltip else []
    source = server.engine.source(origin.path) if origin is not None else None
    if origin is not None and source is not None:
        code = source.line_text(source.position(origin.start)[0]).strip()
        parts.append(f"```python\n{code}\n```")
    return types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(parts)) if parts else None
