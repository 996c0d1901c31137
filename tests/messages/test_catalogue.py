"""Every text that gradline says has an entry in each catalogue, and its Chinese stands for the same things."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from gradline.messages import ENGLISH, languages, translated

ROOT = Path(__file__).parents[2]
LANGUAGES = [language for language in languages() if language != ENGLISH]
CODE = re.compile(r"`[^`]*`")
BRACES = re.compile(r"{[^}]*}")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def extraction():
    """`tools/extract_messages.py`, which is no package."""
    path = ROOT / "tools" / "extract_messages.py"
    if not path.exists():
        pytest.skip("the tools are not here: this is not a checkout")
    spec = importlib.util.spec_from_file_location("extract_messages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = extraction()
USES = tool.all_uses()


def test_the_texts_are_found():
    assert len({use.template for use in USES}) > 300
    assert any(use.where.startswith("server/flow/trails.py") for use in USES)
    assert any("detached_loss.py:1" in use.where for use in USES), "the summaries of rules are texts too"


def test_each_template_gets_the_values_that_it_names():
    wrong = [use for use in USES if use.values and tool.placeholders(use.template) != use.values]
    bare = [
        use for use in USES if not use.values and re.search(r"{\w*}", use.template) and not use.where.endswith(":1")
    ]
    assert not wrong + bare


@pytest.mark.parametrize("language", LANGUAGES)
class TestACatalogue:
    def test_has_every_text_and_no_other(self, language):
        known, wanted = set(tool.catalogue(language)), {use.template for use in USES}
        assert not wanted - known, "run tools/extract_messages.py, which prints what is missing"
        assert not known - wanted, "these texts are said no more"

    def test_has_the_same_placeholders(self, language):
        valued = {use.template for use in USES if use.values}
        for template, translation in tool.catalogue(language).items():
            if template in valued:
                assert tool.placeholders(translation) == tool.placeholders(template), template

    def test_keeps_code_as_it_is(self, language):
        for template, translation in tool.catalogue(language).items():
            kept = set(CODE.findall(translation))
            assert kept == set(CODE.findall(template)), template

    def test_is_in_the_language(self, language):
        if language != "zh-cn":
            pytest.skip("what Chinese looks like is all that is known here")
        for template, translation in tool.catalogue(language).items():
            assert CHINESE.search(translation) or not re.search("[a-z]", BRACES.sub("", CODE.sub("", template))), (
                template
            )
            assert not re.search(r"[\u4e00-\u9fff][,;:?!]|[,;:?!][\u4e00-\u9fff]", translation), (
                f"half-width: {translation}"
            )


def test_what_has_no_entry_stays_english():
    assert translated("never said by anybody", "zh-cn") == "never said by anybody"
    assert translated("never said by anybody", "xx") == "never said by anybody"


class TestTheTool:
    """Extraction: what it takes for a text."""

    def test_takes_say_of_messages_only(self):
        other = "from .a import say\nsay('no text')\n"
        mine = "from ...messages import say\nsay('a text with {x}', x=1)\n"
        assert list(tool.uses(other, "f")) == []
        assert [(use.template, use.values) for use in tool.uses(mine, "f")] == [("a text with {x}", {"x"})]

    def test_refuses_what_is_not_written_out(self):
        with pytest.raises(ValueError, match=r"f:2: .* one literal string"):
            list(tool.uses("from ..messages import say\nsay(f'a text with {x}')\n", "f"))
