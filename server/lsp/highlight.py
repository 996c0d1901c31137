"""Document highlight: the line of the value at the cursor, and the same with what it comes from as a list.

    gradline/line  {textDocument: {uri}, position}  ->  {range, steps: [{location, note}]} | null

`textDocument/references` is left to the Python servers: editors join what all servers answer, and a list of references
with operations among it would help nobody. Highlights are one server's: where the value has no line there are none of
ours, so another server's are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types

from ..insight.line import CUT, MADE

if TYPE_CHECKING:
    from .server import GradlineServer

KINDS = {MADE: types.DocumentHighlightKind.Write, CUT: types.DocumentHighlightKind.Text}


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight] | None:
        view = server.view(params.text_document.uri)
        if view is None:
            return None
        line = server.engine.line(view.path, view.offset(params.position), server.analysis.impatient())
        if line is None:
            return None
        return [
            types.DocumentHighlight(
                view.range(use.start, use.end), KINDS.get(use.kind, types.DocumentHighlightKind.Read)
            )
            for use in line.uses
            if view.holds(use.start, use.end)
        ]

    @server.feature("gradline/line")
    def line(params: Any) -> dict[str, Any] | None:
        view = server.view(params.textDocument.uri)
        if view is None:
            return None
        at = types.Position(params.position.line, params.position.character)
        found = server.engine.line(view.path, view.offset(at), server.analysis.impatient())
        if found is None:
            return None
        steps = [
            {"location": location, "note": step.note}
            for step in found.steps
            if (location := server.location(step.place)) is not None
        ]
        return {"range": view.range(found.start, found.end), "steps": steps}
