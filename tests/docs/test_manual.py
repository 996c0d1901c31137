"""A rule's page for people says what the page says that the tests are made of."""

from __future__ import annotations

import pytest
from fixture import parse
from rule_page import parse_page

from gradline.config import catalog
from gradline.manual import Fence, kinds_of_fix, page, parts, text_of
from gradline.rule import Rule

RULES = [pytest.param(rule, id=rule.name) for rule in catalog().values()]


@pytest.mark.parametrize("rule", RULES)
def test_nothing_of_a_page_is_lost(rule: Rule) -> None:
    text = text_of(rule)
    fences = [part for part in parts(text) if isinstance(part, Fence)]
    shown = page(rule)
    for fence in fences:
        if fence.section and fence.language == "python":
            assert fence.clean() == parse(fence.body).text
            for line in fence.clean().split("\n"):
                assert line in shown
        elif fence.language in ("raises", "observe"):
            assert fence.body in shown
    if rule.family:
        read = parse_page(text)
        assert {example.right.info.get("fix", "safe") for example in read.examples} == set(kinds_of_fix(text))
        assert shown.count("PyTorch says:") == sum(bool(example.raises) for example in read.examples)
        assert shown.count("Now `") == sum(bool(example.trains) for example in read.examples)


@pytest.mark.parametrize("rule", RULES)
def test_people_see_no_marks_and_no_fences_of_the_tests(rule: Rule) -> None:
    shown = page(rule)
    for word in ("# because:", '] at "', "```raises", "```observe", "```trains", "fix=none", "fix=unsafe", "title="):
        assert word not in shown
    assert shown.count("```") % 2 == 0 and "\n\n\n\n" not in shown


def test_a_mark_becomes_an_arrow() -> None:
    shown = page(catalog()["GL102"])
    assert "prediction = model(x).detach()  # <- because of this\n" in shown
    assert "loss.backward()  # <- error\n" in shown
    assert "*error, fixed by `--fix` where that is safe*" in shown
