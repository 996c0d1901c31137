"""A rule's page as people read it.

The page beside a rule is also what its tests are made of: marks in comments, and fences that say what the tests expect
(`raises`, `observe`, `trains`). Here they are put into words, for `gradline explain` and for the documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from .rule import Rule

_FENCE = re.compile(r"^```(\w*)[ \t]*(.*)$")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*$")
_KIND = re.compile(r"[ \t]*# (error|warning|info|hint|because|raises|missing)\b")
_MARK = re.compile(rf"{_KIND.pattern}.*$")
_QUIET = {"because": "because of this", "raises": "raises here", "missing": "not found yet"}
_SECTIONS = ("wrong", "right", "not this")

NOT_THIS = "These programs are correct, and gradline says nothing about them."
UNSEEN = "gradline does not find this one yet."
HOW = {
    "safe": "`gradline check --fix` makes this of it:",
    "unsafe": "`gradline check --fix --unsafe-fixes` makes this of it; look at it before you keep it:",
    "none": "gradline offers no fix for this one. By hand:",
}


class Fence(NamedTuple):
    """A fenced block: `section` is the heading that it stands under (wrong, right, not this, or ""), `info` what its
    first line says after the language."""

    section: str
    language: str
    info: dict[str, str]
    body: str

    def clean(self) -> str:
        """The program without marks: what is analysed and run."""
        return "\n".join(_MARK.sub("", line) for line in self.body.split("\n"))


class Heading(NamedTuple):
    level: int
    text: str


Part = Fence | Heading | str


def text_of(rule: Rule) -> str:
    """The page as it was written, Markdown."""
    if rule.family:
        return rule.page()
    return (resources.files("gradline") / "suppress.md").read_text(encoding="utf-8")


def parts(text: str) -> Iterator[Part]:
    """The headings, the fences and, as they stand, the lines between them."""
    lines = iter(text.splitlines())
    section = ""
    for line in lines:
        if heading := _HEADING.match(line):
            word = heading[2].lower()
            section = word if word in _SECTIONS else ""
            yield Heading(len(heading[1]), heading[2])
        elif fence := _FENCE.match(line):
            body: list[str] = []
            for inner in lines:
                if inner.startswith("```"):
                    break
                body.append(inner)
            info = dict(word.split("=", 1) for word in fence[2].split() if "=" in word)
            yield Fence(section, fence[1], info, "\n".join(body))
        else:
            yield line


def kinds_of_fix(text: str) -> list[str]:
    """Of `safe`, `unsafe` and `none`, those that the examples of the page have."""
    programs = (part for part in parts(text) if isinstance(part, Fence) and part.language == "python")
    found = {part.info.get("fix", "safe") for part in programs if part.section == "right"}
    return [kind for kind in HOW if kind in found]


def status(rule: Rule, text: str) -> str:
    """One line: how loud the rule is, and what is done about it."""
    kinds = kinds_of_fix(text)
    if rule.fix is None or not {"safe", "unsafe"} & set(kinds):
        fix = "no fix" if rule.family else "removed by `--fix`"
    elif "safe" not in kinds:
        fix = "fixed by `--fix --unsafe-fixes`"
    else:
        fix = "fixed by `--fix`" if kinds == ["safe"] else "fixed by `--fix` where that is safe"
    return f"{rule.severity.value}, {fix}"


def words(fence: Fence) -> tuple[str, str, str] | None:
    """A fence of the tests for people: a sentence, the language and the text; None for any other fence."""
    if fence.language == "raises":
        return "PyTorch says:", "text", fence.body
    if fence.language == "observe":
        return "It raises nothing. Afterwards this holds:", "python", fence.body
    if fence.language == "trains":
        names = [f"`{line}`" for line in fence.body.splitlines()]
        several = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
        return f"Now {several} {'train' if len(names) > 1 else 'trains'}.", "", ""
    return None


def page(rule: Rule) -> str:
    """The page for a terminal: the marks are arrows, and what the tests expect is said in words."""
    text = text_of(rule)
    out: list[str] = []
    told = False
    for part in parts(text):
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Heading):
            out.append(f"{'#' * part.level} {part.text}")
            if part.level == 1:
                out += ["", f"*{status(rule, text)}*"]
            elif part.text.lower() == "not this":
                out += ["", NOT_THIS]
            told = False
        elif said := words(part):
            sentence, language, body = said
            out += [sentence, "", *([f"```{language}", body, "```"] if language else [])]
        else:
            if part.section == "right" and not told:
                out += [HOW[part.info.get("fix", "safe")], ""]
            told = True
            name = part.info.get("title")
            out += [f"`{name}`:", ""] if name else []
            arrows = "\n".join(_arrow(line) for line in part.body.split("\n")) if part.section else part.body
            out += [f"```{part.language}", arrows, "```"]
    return _tidy(out)


def _arrow(line: str) -> str:
    """A line of a program with its marks as one arrow that a reader understands."""
    first = _MARK.search(line)
    if first is None:
        return line
    kinds = _KIND.findall(line, first.start())
    loud = next((kind for kind in kinds if kind not in _QUIET), "")
    note = loud or next((said for kind, said in _QUIET.items() if kind in kinds), "")
    return f"{line[: first.start()]}  # <- {note}"


def _tidy(lines: list[str]) -> str:
    """One blank line where there were several, outside of programs."""
    out: list[str] = []
    inside = False
    for line in "\n".join(lines).split("\n"):
        if line.startswith("```"):
            inside = not inside
        if line or inside or (out and out[-1]):
            out.append(line)
    return "\n".join(out)
