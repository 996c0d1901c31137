"""Five tests of each rule's page; there is no other kind of rule test. What they claim stands in `rule_claims.py`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
from rule_claims import Gradline, behaves_as_told, is_mended, is_silent, runs_and_trains, says_the_marks
from rule_page import Example, Page, Program, read_page
from rule_run import Runner

from gradline.rule import rules

ANALYZERS = Path(str(resources.files("gradline.analyzers")))
PATHS = sorted(ANALYZERS.glob("*/*.md"))
PAGES = [read_page(path) for path in PATHS]
EXAMPLES = [
    pytest.param(page, example, id=f"{page.name}-{number}")
    for page in PAGES
    for number, example in enumerate(page.examples, 1)
]
LOOKALIKES = [
    pytest.param(page, program, id=f"{page.name}-{number}")
    for page in PAGES
    for number, program in enumerate(page.lookalikes, 1)
]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    pytest.importorskip("torch")
    runner = Runner()
    yield runner
    runner.close()


def test_each_rule_has_its_page_and_each_page_its_rule() -> None:
    assert {path.stem for path in PATHS} == {rule.name.replace("-", "_") for rule in rules().values()}
    by_name = {rule.name: rule.code for rule in rules().values()}
    assert {page.name: page.code for page in PAGES} == by_name
    assert [path.stem.replace("_", "-") for path in PATHS] == [page.name for page in PAGES]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_says_the_marks(page: Page, example: Example) -> None:
    says_the_marks(example.wrong, page.name, Gradline())


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_wrong_behaves_as_told(page: Page, example: Example, runner: Runner) -> None:
    behaves_as_told(example, runner)


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_fix_makes_right_of_wrong(page: Page, example: Example) -> None:
    is_mended(example, page.name, Gradline())


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_right_trains(page: Page, example: Example, runner: Runner) -> None:
    runs_and_trains(example, runner)


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_right_is_silent(page: Page, example: Example) -> None:
    is_silent(example.right_files(), page.name, Gradline())


@pytest.mark.parametrize(("page", "program"), LOOKALIKES)
def test_lookalike_is_silent(page: Page, program: Program) -> None:
    is_silent(program.clean(), page.name, Gradline())


@pytest.mark.parametrize(("page", "program"), LOOKALIKES)
def test_lookalike_runs(page: Page, program: Program, runner: Runner) -> None:
    outcome = runner.run(program.clean())
    assert not outcome.error, f"raises {outcome.error} at {outcome.at}\n{outcome.printed}"
