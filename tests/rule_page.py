"""A rule's page, read as its tests: the examples in it, and what each claims.

A page is prose with these sections, at any heading level, in any number:

    Wrong       opens an example: its ```python``` fences are the files of one program (`title=main.py` names a file;
                without it, main.py), with marks (`fixture.py`); then a ```raises``` fence (the last line of the
                traceback, or the start of it) or an ```observe``` fence (Python that is run when the program has
                ended, in the namespace of main.py)
    Right       belongs to the Wrong before it: what the fix makes of it, character for character; files that do not
                change are not repeated. The fence may say `fix=unsafe` (such fixes were allowed too) or `fix=none`
                (gradline offers none: written by hand). Then a ```trains``` fence: one expression per line, evaluated
                in the namespace of main.py, that gives a parameter or a module whose parameters all train
    Not this    correct programs that look alike: each main.py begins one
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from fixture import Marked, parse

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*$")
_FENCE = re.compile(r"^```(\w*)[ \t]*(.*)$")
_SECTIONS = {"wrong", "right", "not this"}


@dataclass
class Program:
    """Files by name, `main.py` the entry; `info` is what the fences' info strings said (`fix`)."""

    files: dict[str, str] = field(default_factory=dict)
    info: dict[str, str] = field(default_factory=dict)

    def marked(self) -> dict[str, Marked]:
        return {name: parse(text, name) for name, text in self.files.items()}

    def clean(self) -> dict[str, str]:
        """The files without their marks: what is analysed and run."""
        return {name: marked.text for name, marked in self.marked().items()}


@dataclass
class Example:
    title: str
    wrong: Program = field(default_factory=Program)
    raises: str = ""
    observe: str = ""
    right: Program = field(default_factory=Program)
    trains: tuple[str, ...] = ()

    def right_files(self) -> dict[str, str]:
        """The whole program after the fix: the files of Wrong, those of Right in their place."""
        return {**self.wrong.clean(), **self.right.clean()}


@dataclass
class Page:
    name: str
    code: str
    examples: list[Example] = field(default_factory=list)
    lookalikes: list[Program] = field(default_factory=list)


class PageError(Exception):
    """The page breaks the form described above; says which page and line."""


def read_page(path: Path) -> Page:
    return parse_page(path.read_text(encoding="utf-8"), path.name)


def parse_page(text: str, where: str = "page") -> Page:
    """The page of a rule. Raises PageError where it does not have the form that the head of this file tells."""
    lines = text.splitlines()
    first = re.fullmatch(r"# ([a-z0-9-]+) \((GL\d{3})\)", lines[0] if lines else "")
    if not first:
        raise PageError(f"{where}:1: the first line is `# rule-name (GL000)`")
    page = Page(first[1], first[2])
    section, title, number = "", "", 1
    while number < len(lines):
        line, number = lines[number], number + 1
        if heading := _HEADING.match(line):
            word = heading[2].lower()
            section = word if word in _SECTIONS else ""
            if not section:
                title = heading[2]
            elif section == "wrong":
                own = len(heading[1]) > 2 and title
                page.examples.append(Example(own or f"example {len(page.examples) + 1}"))
            continue
        fence = _FENCE.match(line)
        if not fence:
            continue
        start = number
        while number < len(lines) and not lines[number].startswith("```"):
            number += 1
        if number == len(lines) or lines[number] != "```":
            raise PageError(f"{where}:{start}: this fence has no end")
        body = "".join(f"{inner}\n" for inner in lines[start:number])
        number += 1
        info = dict(word.split("=", 1) for word in fence[2].split() if "=" in word)
        try:
            _add(page, section, fence[1], info, body)
        except PageError as error:
            raise PageError(f"{where}:{start}: {error}") from None
    _complete(page, where)
    return page


def _add(page: Page, section: str, language: str, info: dict[str, str], body: str) -> None:
    if language == "python" and section:
        name = info.pop("title", "main.py")
        if section == "not this":
            if name == "main.py":
                page.lookalikes.append(Program())
            elif not page.lookalikes:
                raise PageError("main.py comes first")
            program = page.lookalikes[-1]
        elif not page.examples:
            raise PageError(f"a {section} section before the first Wrong")
        else:
            program = page.examples[-1].wrong if section == "wrong" else page.examples[-1].right
        if name in program.files:
            raise PageError(f"{name} stands here twice")
        program.files[name] = body
        program.info.update(info)
    elif language in ("raises", "observe"):
        if section != "wrong":
            raise PageError(f"{language} belongs to a Wrong section")
        setattr(page.examples[-1], language, body.rstrip("\n"))
    elif language == "trains":
        if section != "right":
            raise PageError("trains belongs to a Right section")
        page.examples[-1].trains = tuple(body.split("\n")[:-1])


def _complete(page: Page, where: str) -> None:
    if not page.examples:
        raise PageError(f"{where}: no Wrong section")
    if not page.lookalikes:
        raise PageError(f"{where}: no Not this section")
    for example in page.examples:
        if "main.py" not in example.wrong.files:
            raise PageError(f"{where}: {example.title}: no main.py")
        if not (example.raises or example.observe):
            raise PageError(f"{where}: {example.title}: nothing says what happens (raises, observe)")
        if not example.right.files:
            raise PageError(f"{where}: {example.title}: no Right section")
        if example.right.info.get("fix", "safe") not in ("safe", "unsafe", "none"):
            raise PageError(f"{where}: {example.title}: fix is one of unsafe and none (safe is not said)")
