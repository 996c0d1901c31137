"""Texts remember how they were made: through the engine, copies and the disk, and into another language."""

from __future__ import annotations

import copy
import pickle
import re
import sys
from pathlib import Path

import pytest

import gradline
from gradline import cache
from gradline.config import Configuration
from gradline.edits import Fix
from gradline.findings import Finding
from gradline.messages import Text, joined, listed, packed, say, spoken, translated, unpacked
from gradline.rule import Rule, rules
from gradline.workspace import Workspace

sys.path.insert(0, str(Path(__file__).parents[1]))

from rule_claims import Gradline
from rule_page import read_page

ANALYZERS = Path(gradline.__file__).parent / "analyzers"
QUOTED = re.compile(r'`[^`]*`|"[^"]*"')
SENTENCE = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")  # two English words in a row
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Names that are two words in Chinese texts too, and the code that titles of fixes quote without backticks.
NAMES = re.compile(r"inference mode|torch\.\S+|autograd Function|[\w.]+\(\)|mode=\S+")


def said(rule: Rule) -> list[str]:
    """What the rule says of the wrong programs of its page: messages, trails and titles of fixes."""
    texts: list[str] = []
    for example in read_page(ANALYZERS / rule.family / f"{rule.name.replace('-', '_')}.md").examples:
        files = example.wrong.clean()
        for finding in Gradline().findings(files):
            if finding.name == rule.name:
                texts += [finding.message, *(step.note for step in finding.trail)]
                texts += [fix.message for fix in [Gradline().fix(files, finding)] if fix is not None]
    return texts


@pytest.mark.parametrize("rule", rules().values(), ids=lambda rule: rule.name)
def test_what_a_rule_says_is_chinese_in_chinese(rule):
    texts = said(rule)
    assert texts, "the page has a wrong program"
    for text in [rule.summary, *texts]:
        assert not SENTENCE.search(text) or translated(text, "zh-cn") != text, f"stays English: {text}"
        chinese = translated(text, "zh-cn")
        assert CHINESE.search(chinese), chinese
        rest = NAMES.sub("", QUOTED.sub("", chinese))
        assert not SENTENCE.search(rest), f"English is left over: {chinese}"
        assert translated(text, "en") == text


def test_values_are_put_where_the_other_language_has_them():
    text = say("{name} is called here", name="`train`")
    assert text == "`train` is called here"
    assert translated(text, "zh-cn") == "`train` 在这里被调用"


def test_values_that_are_texts_are_translated_too():
    text = say("{note}, so this term adds nothing to any gradient", note=say("{how} ends", how="`x`"))
    assert text == "`x` ends, so this term adds nothing to any gradient"
    assert translated(text, "zh-cn") == "`x` ends，因此这一项对任何梯度都没有贡献"
    assert translated(listed(["`a`", say("a parameter"), "`b`"]), "zh-cn") == "`a`、参数、`b`"
    assert joined(["x"], "{first} and {rest}") == "x"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda text: pickle.loads(pickle.dumps(text)),
                                    lambda text: unpacked(packed(text))], ids=["deepcopy", "pickle", "packed"])  # fmt: skip
def test_a_copy_remembers(copied):
    text = say("{note}, so this term adds nothing to any gradient", note=say("{name} is called here", name="f"))
    again = copied(text)
    assert again == text and isinstance(again, Text)
    assert translated(again, "zh-cn") == translated(text, "zh-cn") == "f 在这里被调用，因此这一项对任何梯度都没有贡献"


def test_the_last_answer_is_remembered_with_its_texts(tmp_path):
    """What the cache on disk gives back can be shown in Chinese as what the engine had found."""
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\nw = torch.zeros(3, requires_grad=True)\nloss = (w * 2).sum().detach()\nloss.backward()\n"
    )
    paths = [file.as_posix()]

    def ask() -> tuple[Finding, Fix | None]:
        workspace = Workspace([tmp_path.as_posix()], Configuration())
        answer = cache.check(workspace, paths, False, str(tmp_path / "cache"))
        (finding,) = answer.checked.findings[paths[0]]
        fix = answer.fix(finding)
        answer.save()
        return finding, fix

    made, kept = ask(), ask()
    assert made == kept and made[0] is not kept[0]
    for one, fix in (made, kept):
        assert fix is not None and translated(fix.message, "zh-cn") == "去掉 .detach()"
        assert translated(one.message, "zh-cn") == "`loss` 已丢失计算图：从它到不了任何参数，`backward()` 会报错"
        assert translated(one.trail[-1].note, "zh-cn") == "`.detach()` 在这里把值从计算图上分离"


@pytest.mark.parametrize(
    ("tag", "language"),
    [("zh-cn", "zh-cn"), ("zh_CN.UTF-8", "zh-cn"), ("zh", "zh-cn"), ("zh-Hans-CN", "zh-cn"), ("zh_SG", "zh-cn"),
     ("zh-tw", None), ("zh-Hant", None), ("zh_HK.UTF-8", None), ("zh-Hans-HK", "zh-cn"), ("en", "en"),
     ("en_US.UTF-8", "en"), ("C.UTF-8", "en"), ("POSIX", "en"), ("de_DE@euro", None), ("", None), ("..", None)],
)  # fmt: skip
def test_which_language_a_tag_asks_for(tag, language):
    assert spoken(tag) == language
