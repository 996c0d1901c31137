"""Puts what commands print now into the `console` blocks of pages, to be read and committed: `update.py docs/start.md`."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from blocks import ROOT, read
from rule_run import Runner
from test_pages import Page


def update(name: str) -> None:
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    shift = 0
    with tempfile.TemporaryDirectory() as folder:
        page = Page(name, Path(folder), Runner())
        for block in read(text, name):
            if block.language != "console" or {"not run", "run by"} & set(block.says) or "\n…\n" in block.body:
                page.problems(block)
                continue
            out: list[str] = []
            for command in re.findall(r"^\$ (.*)$", block.body, re.MULTILINE):
                out += [f"$ {command}", *page.run(command)[1].rstrip().split("\n")]
            start = block.line + shift
            length = block.body.count("\n")
            lines[start : start + length] = out
            shift += len(out) - length
        page.runner.close()
    path.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        update(each)
