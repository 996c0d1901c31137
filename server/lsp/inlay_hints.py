"""Inlay hints: where the line is cut, and where grad mode is off because of another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from ..findings import Place
from ..messages import tell
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer

CUT = "⊘"


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions(resolve_provider=False))
    def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        view = server.view(params.text_document.uri)
        if view is None or (wanted := server.configuration.of(view.path).inlayHints) == "off":
            return []
        first, last = view.offset(params.range.start), view.offset(params.range.end)
        found = []
        for hint in server.engine.hints(view.path):
            if not (first <= hint.offset <= last and view.holds(hint.offset, hint.offset)):
                continue
            if hint.is_cut or wanted == "all":
                found.append(_hint(server, view, hint.offset, hint.label, hint.tooltip, hint.origin))
        for offset, label, tooltip in server.verdicts.hints(view.path):
            if first <= offset <= last and view.holds(offset, offset):
                found.append(_hint(server, view, offset, label, tooltip, None))
        return found


def _hint(
    server: GradlineServer, view: View, offset: int, label: str, tooltip: str, origin: Place | None
) -> types.InlayHint:
    location = server.location(origin) if origin else None
    if location is not None:
        line = location.range.start.line + 1
        elsewhere = "" if location.uri == view.uri else f"{location.uri.rpartition('/')[2]}:"
        where = f"{elsewhere}{line}" if elsewhere else tell("line {n}", n=line)
        label = f"{label} {where}"
    part = types.InlayHintLabelPart(label, tooltip=tooltip or None, location=location)
    return types.InlayHint(position=view.range(offset, offset).start, label=[part], padding_left=True)
