"""The blocks of a page of the documentation, and how each is tried.

    ```sh        commands: each line runs in the page's scratch folder, a copy of `examples` and `tests/docs/scratch`
    ```console   the same with what they print: `$ command`, then its output to the letter (a line `…` stands for any)
    ```python    runs on torch, in a process of its own; with `title="train.py"` it is a file of the scratch folder
                 instead, and a later command on the page must use it
    ```toml, ```json, ```yaml    must be valid, and what they set for gradline must be settings that it has;
                 with a title they are files of the scratch folder, too
    ```text      not tried; it is not for commands
    ```lua, ```elisp, ```markdown    need a comment that says who tries them

A comment before a block says more; a reader of the page does not see it:

    <!-- not run: needs an editor: why -->     the reasons are those of NEEDS
    <!-- run by: tests/x.py -->                another test runs what the block says
    <!-- raises: RuntimeError: element 0 -->   how the error of this Python begins
    <!-- runs -->                              this Python is a file of the scratch folder and is run, too
    <!-- before: model = ... -->               Python that comes before this block's, for brevity's sake
    <!-- exit: 2 -->                           the exit code of the block's last command
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
NEEDS = ("an editor", "the network", "a GPU", "Node", "several machines", "a quiet machine")
LANGUAGES = {"sh", "console", "python", "toml", "json", "yaml", "text", "lua", "elisp", "markdown"}
SAYS = re.compile(r"<!--\s*(not run|run by|raises|runs|before|exit):?\s*(.*?)\s*-->", re.DOTALL)


@dataclass
class Block:
    """A fenced block: `line` is that of its first line in the page, `says` what the comments before it say."""

    page: str
    line: int
    language: str
    title: str
    body: str
    says: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


class BlockError(Exception):
    """A block that nothing can be done with; says where and what to do."""


def read(text: str, page: str) -> list[Block]:
    """The blocks of a page. Raises BlockError for code without a fence, or in a language that nobody tries."""
    found: list[Block] = []
    says: dict[str, str] = {}
    for token in MarkdownIt().parse(text):
        if token.type == "html_block":
            says |= dict(SAYS.findall(token.content))
            continue
        line = token.map[0] + 1 if token.map else 0
        if token.type == "code_block":
            raise BlockError(f"{page}:{line}: code by indentation: fence it, so that a test can try it")
        if token.type == "fence":
            language, _, rest = token.info.partition(" ")
            if language not in LANGUAGES:
                known = ", ".join(sorted(LANGUAGES))
                raise BlockError(f"{page}:{line}: nobody tries {language or 'a block without a language'}; use {known}")
            title = re.search(r'title="([^"]+)"', rest)
            found.append(Block(page, line, language, title[1] if title else "", token.content, says))
        says = {}  # a comment is about the block right below it
    return [_checked(block) for block in found]


def _checked(block: Block) -> Block:
    reason = block.says.get("not run", "")
    if reason and not reason.startswith(tuple(f"needs {need}" for need in NEEDS)):
        raise BlockError(
            f"{block.where}: not run because it {reason!r}: a reason begins with needs {' / '.join(NEEDS)}"
        )
    other = block.says.get("run by", "")
    if other and not (ROOT / other).exists():
        raise BlockError(f"{block.where}: run by {other}, which is not there")
    if block.language == "text" and re.search(r"^(\$|gradline|python|pip) ", block.body, re.MULTILINE):
        raise BlockError(f"{block.where}: these are commands: use sh or console")
    if block.language in ("lua", "elisp", "markdown") and not (reason or other):
        raise BlockError(
            f"{block.where}: say before it: <!-- not run: needs an editor --> or <!-- run by: tests/... -->"
        )
    return block


def pages() -> dict[str, str]:
    """The pages that people wrote, by their path from the root; `docs/autograd.md` is run by `tests/test_claims.py`."""
    roots = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "ARCHITECTURE.md")]
    written = [*roots, *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in written}
    return {name: text for name, text in texts.items() if name != "docs/autograd.md"}
