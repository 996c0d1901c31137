"""The table of errors, held against torch: each entry's program is run, and what torch says must lead to that entry."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gradline.rule import rules
from gradline.why import chosen, errors, explain
from gradline.why.errors import SEEKS
from gradline.words import meanings

from . import running
from .programs import HEAD, PROGRAMS

pytest.importorskip("torch")
if not hasattr(os, "fork"):
    pytest.skip("the programs are run in forks", allow_module_level=True)

WITHOUT_PROGRAM = {"ddp-twice"}  # takes several processes that fail together
SHOWN = [error for error in errors() if error.program]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Path, str]]:
    """Of each program the entry that it belongs to, its folder, and what torch said when it ran: first those shown."""
    programs = [(error.name, error.program) for error in SHOWN] + [(name, HEAD + more) for name, more in PROGRAMS]
    folders = []
    for name, program in programs:
        folder = tmp_path_factory.mktemp(name)
        (folder / "program.py").write_text(program)
        (folder / "pyproject.toml").write_text("")
        folders.append(folder)
    apart = [number for number, (_, program) in enumerate(programs) if "distributed" in program]
    rest = [number for number in range(len(programs)) if number not in apart]
    texts = dict(zip(rest, running.run(((folders[n], "program.py") for n in rest), together=True), strict=True))
    texts |= dict(zip(apart, running.run((folders[n], "program.py") for n in apart), strict=True))
    return [(name, folder, texts[n]) for n, ((name, _), folder) in enumerate(zip(programs, folders, strict=True))]


@pytest.fixture(scope="module")
def said(ran: list[tuple[str, Path, str]]) -> dict[str, tuple[Path, str]]:
    return {name: (folder, text) for name, folder, text in ran[: len(SHOWN)]}


def test_every_entry_is_complete() -> None:
    names = {rule.name for rule in rules().values()}
    kinds = {meaning.kind for meaning in meanings().values()}
    for error in errors():
        assert error.messages and error.meaning and error.look, error.name
        assert {*error.here, *error.elsewhere} <= names, error.name
        assert error.words <= kinds and error.seek in SEEKS, error.name
        assert bool(error.program) != (error.name in WITHOUT_PROGRAM), error.name
    assert len({error.name for error in errors()}) == len(errors())


def test_what_to_look_at_is_a_thing_and_no_order() -> None:
    things = "a the that both what which how where why whether writes layers attributes calls"
    for error in errors():
        first = error.look.split()[0]
        assert first in things.split() or first.startswith("`model."), f"{error.name}: Look at {error.look}"


def test_every_message_is_one_that_torch_says(ran: list[tuple[str, Path, str]]) -> None:
    unsaid = {
        (error.name, message) for error in errors() for message in error.messages if message not in error.older
    } - {
        (name, message)
        for name in WITHOUT_PROGRAM
        for error in errors()
        if error.name == name
        for message in error.messages
    }
    for name, _, text in ran:
        (error,) = (one for one in errors() if one.name == name)
        said = " ".join(text.split())
        unsaid -= {
            (name, message)
            for message in error.messages
            if error._replace(messages=(message,), when="").matches(said, None)
        }
        older = error._replace(messages=tuple(error.older), when="")
        if sys.version_info < (3, 11) and name == "no-grad-class" and older.matches(said, None):
            unsaid -= {(name, message) for message in error.messages}  # Python's own message, another one there
    assert not unsaid


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[f"{name}-{n}" for n, (name, _) in enumerate(PROGRAMS)])
def test_other_messages_lead_to_their_entry(ran: list[tuple[str, Path, str]], number: int) -> None:
    name, _, text = ran[len(SHOWN) + number]
    raised, error, _ = chosen(text)
    assert raised is not None, "the program does not raise"
    assert error is not None and error.name == name, text


@pytest.mark.parametrize("name", [error.name for error in SHOWN])
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
        "checkpoint", "dtype-mismatch", "function-form", "serialize", "twice-differentiable",
    }, spoken  # fmt: skip
