"""The table of errors, held against torch: each entry's program is run, and what torch says must lead to that entry."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradline.rule import rules
from gradline.why import errors, explain
from gradline.words import meanings

from . import running

pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("the programs are run in forks", allow_module_level=True)

WITHOUT_PROGRAM = {"ddp-twice"}  # takes several processes that fail together
PROGRAMS = [error for error in errors() if error.program]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """Of each entry the folder of its program, and what torch said when it ran."""
    folders = []
    for error in PROGRAMS:
        folder = tmp_path_factory.mktemp(error.name)
        (folder / "program.py").write_text(error.program)
        (folder / "pyproject.toml").write_text("")
        folders.append(folder)
    texts = running.run((folder, "program.py") for folder in folders)
    return {error.name: (folder, text) for error, folder, text in zip(PROGRAMS, folders, texts, strict=True)}


def test_every_entry_is_complete() -> None:
    names = {rule.name for rule in rules().values()}
    kinds = {meaning.kind for meaning in meanings().values()}
    for error in errors():
        assert error.messages and error.meaning and error.look, error.name
        assert {*error.here, *error.elsewhere} <= names, error.name
        assert error.words <= kinds, error.name
        assert bool(error.program) != (error.name in WITHOUT_PROGRAM), error.name
    assert len({error.name for error in errors()}) == len(errors())


@pytest.mark.parametrize("name", [error.name for error in PROGRAMS])
def test_what_torch_says_leads_to_the_entry(said: dict[str, tuple[Path, str]], name: str) -> None:
    folder, text = said[name]
    explained = explain(text, str(folder))
    assert explained is not None, f"the program does not raise: {text!r}"
    assert explained.error is not None and explained.error.name == name, text
    assert explained.raising is not None and explained.answers
    if explained.check:
        compile(explained.check, "check", "exec")


def test_nearly_every_program_gets_a_cause(said: dict[str, tuple[Path, str]]) -> None:
    """In these programs nothing is hidden: a rule speaks, or the values on the line are evidence."""
    spoken = {}
    for name, (folder, text) in said.items():
        explained = explain(text, str(folder))
        assert explained is not None
        first = explained.answers[0]
        spoken[name] = first.finding.name if first.finding is not None else first.certainty
    silent = {name for name, rule in spoken.items() if rule == "possible"}
    # of these what the line is about, and what is to be looked at, is all that can be said
    assert silent == {
        "checkpoint", "deepcopy", "dtype-mismatch", "function-form", "nan-gradient", "serialize", "twice-differentiable",
    }, spoken  # fmt: skip
