"""Hover: what is true here, and what a word does to gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from .server import GradlineServer


def register(server: GradlineServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        view = server.view(params.text_document.uri)
        if view is None:
            return None
        fact = server.engine.fact(view.path, view.offset(params.position), server.analysis.impatient())
        if fact is None:
            return None
        formats = server.client_capabilities.text_document
        formats = formats.hover.content_format if formats and formats.hover else None
        kind = types.MarkupKind.Markdown if not formats or "markdown" in formats else types.MarkupKind.PlainText
        content = types.MarkupContent(kind, fact.markdown)
        return types.Hover(content, view.range(fact.start, fact.end))
