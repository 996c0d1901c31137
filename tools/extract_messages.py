"""What a catalogue of `server/messages` must have an entry for: `python tools/extract_messages.py [LANGUAGE]`.

Prints, as JSON that can be pasted into the catalogue, the English texts that have no entry yet; and on stderr the
entries that no text uses any more. Exits with 1 if there are any of either.
"""

from __future__ import annotations

import ast
import json
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SERVER = Path(__file__).parent.parent / "server"
SAYS = ("say", "tell", "joined")
PACKAGE = "server/messages/__init__.py"


class Use(NamedTuple):
    """One `say(...)` of a file: its template, and the names that it gives values to."""

    template: str
    values: frozenset[str]
    where: str


def placeholders(template: str) -> frozenset[str]:
    """The names in braces of a template. Raises ValueError if its braces do not match."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name is not None)


def uses(text: str, where: str) -> Iterator[Use]:
    """Every text that a module's source says. Raises ValueError, with the line, for one that is not a literal."""
    nodes = list(ast.walk(ast.parse(text)))
    imports = (n for n in nodes if isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[-1] == "messages")
    makers = SAYS if where == PACKAGE else {alias.name for node in imports for alias in node.names}.intersection(SAYS)
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in makers:
            continue
        template = node.args[1 if node.func.id == "joined" else 0]
        if where == PACKAGE and isinstance(template, ast.Name):
            continue  # `say` of what `joined` or `tell` is given
        if not isinstance(template, ast.Constant) or not isinstance(template.value, str):
            raise ValueError(f"{where}:{node.lineno}: the text of {node.func.id}() must be one literal string")
        values = frozenset(keyword.arg for keyword in node.keywords if keyword.arg is not None)
        if any(keyword.arg is None for keyword in node.keywords):  # `**values`: which, only a run can tell
            values = placeholders(template.value)
        if node.func.id == "joined":
            values = frozenset(("first", "rest"))
        yield Use(template.value, values, f"{where}:{node.lineno}")


def all_uses() -> list[Use]:
    """Every text that gradline says, the summary of every rule, and what the table of errors says."""
    found: list[Use] = []
    for path in sorted(SERVER.rglob("*.py")):
        where = path.relative_to(SERVER.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        if path.parent.parent.name == "analyzers" and not path.name.startswith("_"):
            summary = (ast.get_docstring(ast.parse(text)) or "").strip().split("\n")[0]
            found.append(Use(summary, frozenset(), f"{where}:1"))
        found.extend(uses(text, where))
    return found + list(_errors())


def _errors() -> Iterator[Use]:
    """What the table of `gradline why` says of each error."""
    from gradline.why.errors import errors

    for error in errors():
        for text in (error.meaning, error.line, error.look):
            if text:
                yield Use(text, frozenset(), f"server/why/errors.md:{error.name}")


def catalogue(language: str) -> dict[str, str]:
    """The entries of a language's catalogue."""
    return json.loads((SERVER / "messages" / f"{language}.json").read_text(encoding="utf-8"))


def main(language: str = "zh-cn") -> int:
    wanted = {use.template: use.where for use in all_uses()}
    known = catalogue(language)
    missing = {template: where for template, where in wanted.items() if template not in known}
    stale = [template for template in known if template not in wanted]
    if missing:
        print(json.dumps(missing, indent=2, ensure_ascii=False))
    for template in stale:
        print(f"no longer used: {template}", file=sys.stderr)
    return 1 if missing or stale else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
