"""Draws the architecture: which parts there are and what uses what. Each arrow is an import that the code really has."""

from __future__ import annotations

import ast
import functools
import html
from pathlib import Path
from typing import NamedTuple

SERVER = Path(__file__).parents[2] / "server"
WIDTH, HEIGHT = 980, 764
BOX = 84  # the height of a box


class Box(NamedTuple):
    """A part: the top-level modules in it, a title, what it is for, where it is drawn, and on which side."""

    modules: tuple[str, ...]
    title: str
    about: str
    x: int
    y: int
    width: int
    kind: str  # face, outside, engine, data


BOXES = (
    Box(("cli", "report", "language"), "Command", "check, rules, explain; seven formats", 20, 50, 190, "face"),
    Box(("lsp",), "Language server", "VS Code, Neovim, Emacs", 400, 50, 170, "face"),
    Box(("why",), "Why", "explains a traceback", 230, 50, 150, "face"),
    Box(("mcp",), "MCP server", "for coding agents", 590, 50, 150, "face"),
    Box(("probe", "watch"), "Probe", "runs the program, watches its gradients", 760, 50, 200, "face"),
    Box(("workspace", "disk", "config", "cache", "jobs", "plain", "patterns", "paths"), "Files and settings",
        "what to read, what to say, what was said last", 20, 200, 460, "outside"),
    Box(("check", "findings", "edits", "refactor", "room"), "The engine's face", "check(project), fix(finding)", 20, 370, 220, "engine"),
    Box(("analyzers", "rule", "families", "manual", "messages", "suppress"), "Rules",
        "one .py and one .md each; the folder is walked", 300, 370, 290, "engine"),
    Box(("insight", "words"), "What is true at a place", "hover, colours, hints, gutter", 650, 370, 230, "engine"),
    Box(("project", "memo", "reuse", "notebooks"), "Project", "texts, imports, remembered answers", 20, 520, 220, "engine"),
    Box(("flow", "facts", "state"), "Interpreter", "runs the program abstractly: values, graph, grad mode", 300, 520, 290,
        "engine"),
    Box(("torchlib",), "Torch's calls", "what each does to gradients, learned from torch", 680, 520, 200, "data"),
    Box(("text", "units", "reading", "newer", "ir"), "Reading", "a text becomes units, and a unit instructions", 20, 660, 570, "engine"),
)  # fmt: skip

USES = (
    ("cli", "workspace"), ("lsp", "workspace"), ("why", "workspace"), ("mcp", "workspace"), ("lsp", "insight"), ("workspace", "check"),
    ("check", "project"), ("check", "rule"), ("rule", "flow"), ("insight", "flow"), ("check", "flow"),
    ("project", "units"), ("flow", "units"), ("flow", "torchlib"),
)  # fmt: skip

FILL = {"face": "#e7f0fd", "outside": "#f1ecdf", "engine": "#e6f4ea", "data": "#f6e9f5"}
EDGE = {"face": "#3b6fb6", "outside": "#8d7a45", "engine": "#2e7d46", "data": "#8a4a86"}


@functools.cache
def modules() -> frozenset[str]:
    """The top-level modules and packages of `server/`."""
    found = (path for path in SERVER.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
    return frozenset(path.stem for path in found) - {"__init__", "__main__"}


@functools.cache
def imports() -> frozenset[tuple[str, str]]:
    """Which top-level module imports which other one, anywhere inside."""
    found = set()
    for file in SERVER.rglob("*.py"):
        path = file.relative_to(SERVER).with_suffix("").parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = [*path[: len(path) - node.level], *(node.module or "").split(".")]
                base = [name for name in base if name]
                found |= {(path[0], name) for name in (base[:1] or [each.name for each in node.names])}
    return frozenset((a, b) for a, b in found if a != b and a in modules() and b in modules())


def shown() -> list[Box]:
    """The boxes whose modules this version has."""
    return [box for box in BOXES if set(box.modules) & modules()]


def draw() -> str:
    """The picture, SVG."""
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#667085"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
        _text(20, 32, "Faces: they translate, and have no analysis of their own", 14, "#667085"),
        f'<line x1="20" y1="322" x2="{WIDTH - 20}" y2="322" stroke="#98a2b3" stroke-dasharray="6 5"/>',
        _text(20, 346, "Below this line: texts only. No file is opened, torch is not imported.", 14, "#667085"),
    ]
    boxes = {name: box for box in shown() for name in box.modules}
    out += [_arrow(boxes[a], boxes[b]) for a, b in USES if a in boxes and b in boxes and (a, b) in imports()]
    for box in shown():
        middle = box.x + box.width / 2
        names = " ".join(name for name in box.modules if name in modules())
        lines = _wrap(box.about, box.width // 7)
        out += [
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{BOX}" rx="8" fill="{FILL[box.kind]}" '
            f'stroke="{EDGE[box.kind]}"/>',
            _text(middle, box.y + 22, box.title, 15, "#101828", "middle", "600"),
            *(_text(middle, box.y + 41 + 15 * i, line, 12, "#344054", "middle") for i, line in enumerate(lines[:2])),
            _text(middle, box.y + BOX - 8, names, 10.5, EDGE[box.kind], "middle"),
        ]
    return "\n".join([*out, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, size: float, fill: str, anchor: str = "start", weight: str = "400") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{html.escape(text)}</text>'
    )


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _arrow(a: Box, b: Box) -> str:
    """From the middle of the side of `a` that looks at `b` to that of `b`."""
    if a.y == b.y:
        y = a.y + BOX / 2
        left = a.x < b.x
        start, end = (a.x + a.width if left else a.x, y), (b.x if left else b.x + b.width, y)
    else:
        down = a.y < b.y
        start = (_toward(a, b), a.y + (BOX if down else 0))
        end = (_toward(b, a), b.y + (0 if down else BOX))
    return (
        f'<line x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}" stroke="#667085" '
        'marker-end="url(#a)"/>'
    )


def _toward(a: Box, b: Box) -> float:
    """Where on the upper or lower side of `a` an arrow from or to `b` begins: a little towards `b`."""
    middle = b.x + b.width / 2
    return min(max(middle, a.x + a.width * 0.25), a.x + a.width * 0.75)
