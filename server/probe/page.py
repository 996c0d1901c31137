"""The report as one self-contained HTML page, for a browser and for VS Code's view alike."""

from __future__ import annotations

import html
import json
from importlib import resources
from typing import Any

MAX_SOURCE_LINES = 400  # source lines shown beside places


def render(report: dict[str, Any], nonce: str = "") -> str:
    """The page. With a `nonce` (VS Code's webview) its content policy allows this page's own scripts and nothing else.

    Source lines are read from disk now, so that the page can show them later and elsewhere.
    """
    view = resources.files(str(__package__)) / "view"

    def part(name: str) -> str:
        return (view / name).read_text(encoding="utf-8")

    data = json.dumps({**report, "sources": _sources(report)}, separators=(",", ":"), default=str)
    values = {
        "TITLE": html.escape(f"gradline probe: {report.get('command', '')}"),
        "POLICY": f"'nonce-{html.escape(nonce, quote=True)}'" if nonce else "'unsafe-inline'",
        "NONCE": html.escape(nonce, quote=True),
        "CHART_STYLE": part("uPlot.min.css"),
        "STYLE": part("page.css"),
        "DATA": data.replace("<", "\\u003c"),
        "CHART": part("uPlot.iife.min.js").replace("</", "<\\/"),
        "SCRIPT": part("page.js"),
    }
    page = part("page.html")
    pieces = page.split("@@")
    return "".join(values[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _sources(report: dict[str, Any]) -> dict[str, dict[int, str]]:
    """file -> line -> its text, for the places that findings and cuts name."""
    wanted: dict[str, set[int]] = {}

    def visit(thing: Any, depth: int) -> None:
        if isinstance(thing, dict):
            if isinstance(thing.get("file"), str) and isinstance(thing.get("line"), int):
                wanted.setdefault(thing["file"], set()).add(thing["line"])
            for value in thing.values():
                if depth:
                    visit(value, depth - 1)
        elif isinstance(thing, list):
            for value in thing:
                if depth:
                    visit(value, depth - 1)

    visit(report.get("findings"), 5)
    visit(report.get("cuts"), 3)
    visit(report.get("verdicts"), 3)
    visit(report.get("grad_mode"), 4)
    out: dict[str, dict[int, str]] = {}
    left = MAX_SOURCE_LINES
    for file, lines in wanted.items():
        try:
            with open(file, encoding="utf-8", errors="replace") as opened:
                text = opened.read().splitlines()
        except OSError:
            continue
        for line in sorted(lines):
            if line <= len(text) and left > 0:
                out.setdefault(file, {})[line] = text[line - 1].strip()[:300]
                left -= 1
    return out
