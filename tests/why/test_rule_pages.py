"""Every program of the rules' pages that raises: its traceback leads to the line that the page marks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fixture import parse
from rule_page import read_page

import gradline
from gradline.why import explain

from . import running
from .test_tracebacks import lines

pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("the programs are run in forks", allow_module_level=True)

PAGES = sorted((Path(gradline.__file__).parent / "analyzers").rglob("*.md"))
LEAST = 0.95


def test_the_first_answer_is_what_the_page_marks(tmp_path: Path) -> None:
    programs, marked = [], []
    for page in map(read_page, PAGES):
        for number, example in enumerate(page.examples):
            if not example.raises:
                continue
            folder = tmp_path / f"{page.name}-{number}"
            folder.mkdir()
            (folder / "pyproject.toml").write_text("")
            marks = set()
            for name, text in example.wrong.files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                source = parse(text, name)
                (folder / name).write_text(source.text)
                marks |= {(Path(name).name, mark.line) for mark in source.marks if mark.kind != "raises"}
            programs.append((folder, "main.py"))
            marked.append(marks)
    missed, unknown = [], []
    for (folder, _), marks, text in zip(programs, marked, running.run(programs, together=True), strict=True):
        explained = explain(text, str(folder))
        if explained is None or explained.error is None:
            unknown.append(f"{folder.name}: {text[-200:]}")
        elif not lines(explained) & marks:
            missed.append(f"{folder.name}: {explained.error.name}: {sorted(lines(explained))} for {sorted(marks)}")
    hits = len(programs) - len(missed) - len(unknown)
    print(f"why: {hits} of {len(programs)} programs of the rules' pages", *missed, *unknown, sep="\n")
    assert len(programs) > 30 and hits >= LEAST * len(programs), "\n".join([*missed, *unknown])
