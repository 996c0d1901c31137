"""The small language in which tests say what gradline must say, inside comments of the program itself.

    value = loss.item()          # because: makes a Python number at "loss.item()"
    value.backward()             # error: [number-backward] at "value"

`# error:`, `# warning:`, `# info:` and `# hint:` name the rule of a finding that starts on this line, and, after
`at`, the text that it covers. `# because:` is a step of a trail on this line: words that its note holds, and the text
that it covers; both may be left out. `# raises` is the line where the program fails, if no finding stands there.
`# missing: [rule]` is a finding that gradline should make and does not: a test fails when it begins to.
A line may carry several marks. Marks are cut away, with the blanks before them, before anything else sees the text.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from gradline.edits import Edit
from gradline.findings import Finding, Place
from gradline.text import Source

_MARK = re.compile(r"[ \t]*# (error|warning|info|hint|because|raises|missing)\b(:?)[ \t]*")
_TEXT = re.compile(r'(?:^|\s+)at "(.*)"$')
_RULE = re.compile(r"\[([a-z0-9-]+)\]")


@dataclass(frozen=True)
class Mark:
    """`line` counts from 1; `text` is what is covered and `words` what the note must hold; "" asks for nothing."""

    kind: str
    path: str
    line: int
    rule: str = ""
    text: str = ""
    words: str = ""

    def __str__(self) -> str:
        at = f' at "{self.text}"' if self.text else ""
        return f"{self.path}:{self.line}: {self.kind}: {f'[{self.rule}]' if self.rule else self.words}{at}"


@dataclass(frozen=True)
class Marked:
    """A file without its marks, and the marks."""

    text: str
    marks: tuple[Mark, ...]


class MarkError(Exception):
    """A mark that cannot be read, or that covers a text which is not on its line."""


def parse(source: str, path: str = "main.py") -> Marked:
    """Take the marks out of a program. Raises MarkError."""
    lines: list[str] = []
    marks: list[Mark] = []
    for number, line in enumerate(source.split("\n"), 1):
        starts = list(_MARK.finditer(line))
        code = line[: starts[0].start()] if starts else line
        for start, following in itertools.zip_longest(starts, starts[1:]):
            rest = line[start.end() : following.start() if following else len(line)].strip()
            marks.append(_mark(start[1], start[2], rest, path, number, code))
        lines.append(code)
    return Marked("\n".join(lines), tuple(marks))


def _mark(kind: str, colon: str, rest: str, path: str, line: int, code: str) -> Mark:
    where = f"{path}:{line}"
    if kind == "raises":
        if colon or rest:
            raise MarkError(f"{where}: `# raises` stands alone")
        return Mark(kind, path, line)
    if not colon:
        raise MarkError(f"{where}: `# {kind}` wants a colon")
    at = _TEXT.search(rest)
    text = at[1] if at else ""
    if text and text not in code and kind != "missing":
        raise MarkError(f"{where}: {text!r} is not on this line")
    rest = rest[: at.start()] if at else rest
    if kind == "because":
        return Mark(kind, path, line, text=text, words=rest.strip())
    rule = _RULE.fullmatch(rest.strip())
    if not rule:
        raise MarkError(f'{where}: after `# {kind}:` comes [rule-name], then perhaps at "text"')
    return Mark(kind, path, line, rule=rule[1], text=text)


def offset_of_line(text: str, line: int) -> int:
    """Where a line starts (lines count from 1 and end at a line feed)."""
    at = 0
    for _ in range(line - 1):
        at = text.index("\n", at) + 1
    return at


class MemoryFiles:
    """A project that lies in memory, under the folder `ROOT`; it is what a Project reads (`project.Files`)."""

    ROOT = "/project"

    def __init__(self, files: dict[str, str]) -> None:
        """`files` maps names relative to the root (`models/net.py`) to texts."""
        self._files = {f"{self.ROOT}/{name}": text for name, text in files.items()}

    def paths(self) -> list[str]:
        return list(self._files)

    def read(self, path: str) -> Source | None:
        return Source(self._files[path], path) if path in self._files else None

    def is_file(self, path: str) -> bool:
        return path in self._files

    def is_dir(self, path: str) -> bool:
        return any(name.startswith(f"{path}/") for name in self._files)

    def listdir(self, path: str) -> list[str]:
        inside = (name[len(path) + 1 :] for name in self._files if name.startswith(f"{path}/"))
        return sorted({name.split("/", 1)[0] for name in inside})

    def search_path(self, path: str) -> list[str]:
        return [self.ROOT]

    def is_project(self, path: str) -> bool:
        return path.startswith(f"{self.ROOT}/")

    def relative(self, finding: Finding) -> Finding:
        """The finding with the names that `files` had."""
        trail = tuple(step._replace(place=self._name(step.place)) for step in finding.trail)
        return finding._replace(place=self._name(finding.place), trail=trail)

    def absolute(self, finding: Finding) -> Finding:
        """The finding as the project knows it, out of one that `relative` gave."""
        trail = tuple(step._replace(place=self._path(step.place)) for step in finding.trail)
        return finding._replace(place=self._path(finding.place), trail=trail)

    def relative_edit(self, edit: Edit) -> Edit:
        return edit._replace(path=edit.path.removeprefix(f"{self.ROOT}/"))

    def _name(self, place: Place) -> Place:
        return place._replace(path=place.path.removeprefix(f"{self.ROOT}/"))

    def _path(self, place: Place) -> Place:
        return place._replace(path=f"{self.ROOT}/{place.path}")
