"""Requests of our own: the gradient line of a document, for clients that draw, and the pages of rules.

    gradline/lines    {textDocument: {uri}}  ->  {regions: [{range, mode, note, origin}], cuts: [range]} | null
    gradline/explain  {rule}                 ->  {code, name, markdown} | null
    gradline/rules    {}                     ->  [{code, name, summary}]
    gradline/about    {}                     ->  {version, pid, python, executable, libcst, folder}

`mode` is "on", "off", "inference" or "unknown"; `origin` a Location or null. A client that says
`initializationOptions.lines = true` is told by the notification `gradline/linesChanged {uri}` to ask anew.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..manual import page
from ..messages import told
from ..rule import find, rules
from .answers import LINES
from .sync import View

if TYPE_CHECKING:
    from .server import GradlineServer


def register(server: GradlineServer) -> None:
    @server.feature("gradline/lines")
    async def lines(params: Any) -> dict[str, Any] | None:
        uri = params.textDocument.uri
        view = server.view(uri)
        if view is None:
            return None
        await server.analysis.settled(view.path)
        view = server.view(uri)
        if view is None:
            return None
        return server.answers.give(LINES, view, lambda view: _lines(server, view))

    @server.feature("gradline/explain")
    def explain(params: Any) -> dict[str, str] | None:
        rule = find(str(params.rule))
        return {"code": rule.code, "name": rule.name, "markdown": page(rule)} if rule else None

    @server.feature("gradline/rules")
    def every(params: Any) -> list[dict[str, str]]:
        return [{"code": rule.code, "name": rule.name, "summary": told(rule.summary)} for rule in rules().values()]

    @server.feature("gradline/about")
    def about(params: Any) -> dict[str, Any]:
        from importlib import metadata  # slow to load, and rarely asked for

        try:
            libcst = metadata.version("libcst")
        except metadata.PackageNotFoundError:
            libcst = None
        return {
            "version": server.version,
            "pid": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "libcst": libcst,
            "folder": str(Path(__file__).parents[1]),
        }


def _lines(server: GradlineServer, view: View) -> dict[str, Any]:
    regions = [
        {
            "range": view.range(region.start, region.end),
            "mode": region.mode,
            "note": region.note,
            "origin": server.location(region.origin) if region.origin else None,
        }
        for region in server.engine.regions(view.path)
        if region.start < view.end and view.start < region.end
    ]
    cuts = [
        view.range(token.start, token.end)
        for token in server.engine.tokens(view.path)
        if "cut" in token.marks and view.holds(token.start, token.end)
    ]
    return {"regions": regions, "cuts": cuts}
