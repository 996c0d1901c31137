"""A page for each rule, made of the rule itself: what it says of its wrong programs is said by the engine as this runs."""

from __future__ import annotations

import io
import itertools
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fixture import MemoryFiles

from gradline.check import check
from gradline.config import catalog
from gradline.families import FAMILIES, members
from gradline.manual import HOW, NOT_THIS, UNSEEN, Fence, Heading, Part, kinds_of_fix, parts, status, text_of, words
from gradline.project import Project
from gradline.report import Entry, Report, full
from gradline.rule import Rule


def navigation() -> list[Any]:
    """The rules by family, as MkDocs' navigation wants it."""
    return [
        {f"{title} (GL{digit})": [{f"{rule.code} {rule.name}": path(rule)} for rule in members(digit)]}
        for digit, (title, _) in FAMILIES.items()
    ]


def path(rule: Rule) -> str:
    return f"rules/{rule.name}.md"


def pages() -> dict[str, str]:
    return {"rules/index.md": index(), **{path(rule): page(rule) for rule in catalog().values()}}


def index() -> str:
    out = [
        "# Rules",
        "",
        f"{len(catalog())} rules in {len(FAMILIES)} families. Each page shows programs that go wrong, what gradline says of",
        "them, what PyTorch says when they run, the program put right, and correct programs that look alike. The tests",
        "run every one of these programs on PyTorch. In a terminal, `gradline explain GL102` prints a page.",
        "",
        "An *error* raises, or nothing trains, on every run that reaches it. A *warning*: part of what should train does",
        "not, or trains on something else than meant. *Info* is advice and never fails a check.",
        "",
    ]  # fmt: skip
    for digit, (title, sentence) in FAMILIES.items():
        out += [f"## {title} (GL{digit}) {{ #gl{digit} }}", "", sentence, ""]
        out += ["| code | name | severity | fix | what it says |", "| --- | --- | --- | --- | --- |"]
        for rule in members(digit):
            kinds = kinds_of_fix(text_of(rule))
            fix = "" if rule.fix is None and rule.family else "safe" if "safe" in kinds or not kinds else "unsafe"
            name = f"[{rule.name}]({rule.name}.md)"
            out.append(f"| {rule.code} | {name} | {rule.severity.value} | {fix} | {rule.summary} |")
        out.append("")
    return "\n".join(out)


def page(rule: Rule) -> str:
    """The page of one rule, Markdown."""
    text = text_of(rule)
    title = FAMILIES[rule.code[2]][0]
    out: list[str] = []
    rest = list(parts(text))
    said: list[str] = []  # of the wrong program whose files are being written
    lit: dict[str, list[int]] = {}
    told = False
    for at, part in enumerate(rest):
        if said and not _of_program(part):
            out += said
            said = []
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, Heading):
            told = False
            if part.level == 1:
                about = f"*{status(rule, text)}. Family: [{title}](index.md#gl{rule.code[2]})*"
                out += [f"# {part.text}", "", about]
            else:
                out.append(f"{'#' * part.level} {part.text}")
                out += ["", NOT_THIS] if part.text.lower() == "not this" else []
        elif told_by_tests := words(part):
            sentence, language, body = told_by_tests
            out += [sentence, *(["", f"```{language}", body, "```"] if language else [])]
        elif part.section == "wrong" and part.language == "python":
            if not said:
                program = list(itertools.takewhile(_of_program, rest[at:]))
                lit, said = _said(rule, [fence for fence in program if isinstance(fence, Fence)])
            out += _fence(part, lit.get(_name(part), []))
        else:
            if part.section == "right" and not told:
                out += [HOW[part.info.get("fix", "safe")], ""]
            told = True
            out += _fence(part)
    return _tidy("\n".join(out) + _settings(rule))


def _of_program(part: Part) -> bool:
    """Whether this stands among the files of a wrong program."""
    return isinstance(part, str) or (isinstance(part, Fence) and part.section == "wrong" and part.language == "python")


def _name(fence: Fence) -> str:
    return fence.info.get("title", "main.py")


def _fence(part: Fence, lines: list[int] | None = None) -> list[str]:
    title = f' title="{part.info["title"]}"' if "title" in part.info else ""
    marked = f' hl_lines="{" ".join(map(str, lines))}"' if lines else ""
    return [f"```{part.language}{title}{marked}", part.clean() if part.section else part.body, "```"]


def _said(rule: Rule, program: list[Fence]) -> tuple[dict[str, list[int]], list[str]]:
    """The lines of each file that findings stand on, and the findings as `gradline check` prints them."""
    memory = MemoryFiles({_name(fence): fence.clean() + "\n" for fence in program})
    project = Project(memory)
    result = check(project, memory.paths())
    found = [each for several in result.findings.values() for each in several]
    found = [each for each in found if each.severity.fails or each.name == rule.name]
    report = Report(
        [Entry(each) for each in found], project.source, catalog(), MemoryFiles.ROOT, width=76, summary=False
    )
    if not found:
        return {}, ["", UNSEEN, ""]
    stream = io.StringIO()
    full.write(report, stream)
    text = "\n".join(line for line in stream.getvalue().splitlines() if not line.strip().startswith("= more:"))
    lit: dict[str, list[int]] = {}
    for each in found:
        lit.setdefault(report.name(each.place.path), []).append(report.location(each.place).row)
    return lit, ["", "gradline says:", "", "```text", text.strip(), "```", ""]


def _settings(rule: Rule) -> str:
    silent = f"""Silent on one statement:

```python
...  # gradline: ignore[{rule.code}]
```

"""
    return f"""

## Settings

{silent if rule.family else ""}Off everywhere, or as loud as you like (`"error"`, `"warning"`, `"info"`, `"hint"`, `"off"`):

```toml
[tool.gradline.severity]
{rule.name} = "off"
```

See [Configuration](../configuration.md).
"""


def _tidy(text: str) -> str:
    out: list[str] = []
    inside = False
    for line in text.split("\n"):
        if line.startswith("```"):
            inside = not inside
        if line or inside or (out and out[-1]):
            out.append(line)
    return "\n".join(out)
