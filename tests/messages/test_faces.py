"""Who is told what in which language: people in theirs, programs in English."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gradline.language import of_environment, of_windows
from gradline.words import explained

sys.path.insert(0, str(Path(__file__).parents[1]))

from lsp.client import REAL, Client

PROGRAM = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(8, 2, 4):
    optimizer.zero_grad()
    loss = model(x).pow(2).mean().detach()
    loss.backward()
    optimizer.step()
"""
CHINESE = re.compile(r"[\u4e00-\u9fff]")
VARIABLES = ("GRADLINE_LANG", "LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG", "PYTHONIOENCODING")


@pytest.fixture
def check(tmp_path: Path):
    """Runs `gradline check` on the program with these arguments, in this environment; returns what it printed."""
    (tmp_path / "train.py").write_text(PROGRAM)

    def run(*arguments: str, **environment: str) -> str:
        known = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        done = subprocess.run(
            [sys.executable, "-m", "gradline", *(arguments or ("check", "--no-cache"))],
            cwd=tmp_path,
            env={**known, "PYTHONUTF8": "1", **environment},
            capture_output=True,
            encoding="utf-8",
        )
        assert done.returncode == 1 or arguments[:1] != ("check",), done.stderr
        return done.stdout

    return run


def test_a_chinese_terminal_is_told_in_chinese(check):
    said = check(LANG="zh_CN.UTF-8")
    assert "错误[GL102] detached-loss: `loss` 已丢失计算图" in said
    assert "1: `.detach()` 在这里把值从计算图上分离\n" in said
    assert "= 建议： 去掉 .detach()（可用 `--fix` 完成）" in said
    assert "在 1 个文件中发现 1 个错误。" in said
    assert "loss.backward()" in said, "code stays as it is"
    english = re.sub(r"`[^`]*`|gradline explain \\S+|\\[\\w+\\] [\\w-]+", "", said)
    sentences = [
        line for line in english.splitlines() if "|" not in line and re.search(r"[A-Za-z]{2,} [A-Za-z]{2,}", line)
    ]
    assert sentences == ["   = 详情：gradline explain detached-loss"]


def test_lines_of_chinese_are_no_wider_than_the_terminal(check):
    from rich.cells import cell_len

    lines = check(LANG="zh_CN.UTF-8").splitlines()
    assert all(cell_len(line) <= 80 for line in lines)
    assert not any(line.lstrip()[:1] in "，。：；、）" for line in lines if line.strip()), "a line begins with a comma"


@pytest.mark.parametrize("form", ["json", "sarif", "github", "gitlab", "junit"])
def test_programs_are_told_in_english(check, form):
    assert check("check", "--no-cache", "--output-format", form, LANG="zh_CN.UTF-8") == check(
        "check", "--no-cache", "--output-format", form, LANG="C.UTF-8"
    )


@pytest.fixture
def why(tmp_path: Path, check):
    """Runs `gradline why` on what the program says when it fails."""
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, check=False)
    (tmp_path / "said.txt").write_bytes(done.stderr)
    return lambda *arguments, **environment: check("why", "said.txt", *arguments, **environment)


def test_a_traceback_is_explained_in_chinese(why):
    pytest.importorskip("torch")
    said = why(LANG="zh_CN.UTF-8")
    assert "报错位置：train.py:9" in said and "原因：\n错误[GL102] detached-loss" in said
    assert "关于这一行已知：" in said and "标量张量，已与计算图断开" in said
    assert why("--output-format", "json", LANG="zh_CN.UTF-8") == why("--output-format", "json", LANG="C.UTF-8")


def test_a_terminal_that_cannot_write_chinese_is_told_in_english(check):
    said = check("check", "--no-cache", "-q", LANG="zh_CN.UTF-8", PYTHONIOENCODING="ascii")
    assert "error[GL102]" in said and "has lost its graph" in said


def test_the_list_of_rules(check):
    from rich.cells import cell_len

    said = check("rules", LANG="zh_CN.UTF-8").splitlines()
    parts = [re.match(r"(\w+  [\w-]+ +\S+ +)(.*)", line) for line in said]
    assert all(part and CHINESE.search(part[2]) for part in parts)
    assert len({cell_len(part[1]) for part in parts if part}) == 1, "the columns stand below each other"
    assert not CHINESE.search(check("rules", "--output-format", "json", LANG="zh_CN.UTF-8"))


@pytest.mark.parametrize(
    ("environment", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh-cn"),
        ({"LC_MESSAGES": "zh_CN", "LANG": "en_US.UTF-8"}, "zh-cn"),
        ({"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "de:zh_CN:en"}, "zh-cn"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, None),
        ({"LANGUAGE": "zh_CN"}, None),
        ({"LANG": "de_DE.UTF-8"}, None),
        ({"LANG": "zh_CN.UTF-8", "GRADLINE_LANG": "en"}, "en"),
        ({"LANG": "C", "GRADLINE_LANG": "zh-cn"}, "zh-cn"),
        ({}, None),
    ],
)
def test_the_environment_is_read_as_gettext_reads_it(environment, language):
    assert of_environment(environment) == language


@pytest.mark.parametrize(
    ("number", "language"), [(2052, "zh-cn"), (4100, "zh-cn"), (1028, None), (1033, "en"), (0, None)]
)
def test_the_numbers_that_windows_has_for_languages(number, language):
    assert of_windows(number) == language


def test_every_word_is_explained_in_chinese_too():
    english, chinese = explained("en"), explained("zh-cn")
    assert [(name, word.of, word.kind) for name, word in english.items()] == [
        (name, word.of, word.kind) for name, word in chinese.items()
    ]
    assert all(CHINESE.search(word.text) for word in chinese.values())


class TestAnEditor:
    """The server's language is that in which the editor says it is shown."""

    @pytest.fixture(autouse=True)
    def _no_language_of_the_tests(self, monkeypatch):
        monkeypatch.delenv("GRADLINE_LANG")

    @pytest.fixture
    def file(self, tmp_path: Path) -> str:
        (tmp_path / "train.py").write_text(PROGRAM)
        return (tmp_path / "train.py").as_uri()

    def test_in_chinese(self, tmp_path: Path, file: str):
        options = {"commands": ["gradline.showPlaces"]}
        shows = {"textDocument": {"publishDiagnostics": {"relatedInformation": True}}}
        with Client(REAL, tmp_path, locale="zh-cn", options=options, **shows) as client:
            client.open(file, PROGRAM)
            (found,) = client.diagnostics(file)
            assert found["message"] == "`loss` 已丢失计算图：从它到不了任何参数，`backward()` 会报错"
            assert found["relatedInformation"][0]["message"] == "`.detach()` 在这里把值从计算图上分离"
            here = {"textDocument": {"uri": file}, "range": found["range"], "context": {"diagnostics": [found]}}
            titles = [action["title"] for action in client.request("textDocument/codeAction", here)]
            assert titles[0] == "去掉 .detach()" and "在此处忽略 detached-loss（GL102）" in titles
            assert all(CHINESE.search(title) for title in titles)
            document = {"textDocument": {"uri": file}}
            item = client.request("textDocument/hover", {**document, "position": {"line": 7, "character": 37}})
            said = item["contents"]["value"]
            assert "`.detach()` 给出同样的值，但不带计算图" in said and "张量" in said
            everything = {"start": {"line": 0, "character": 0}, "end": {"line": 10, "character": 0}}
            hints = client.request("textDocument/inlayHint", {**document, "range": everything})
            assert "⊘ 断于 第 8 行" in [part["value"] for hint in hints for part in hint["label"]]
            lenses = [lens["command"]["title"] for lens in client.request("textDocument/codeLens", document)]
            assert "1 个问题的根源：detached-loss" in lenses

    @pytest.mark.parametrize("locale", ["en", "de", "zh-tw"])
    def test_in_english_where_gradline_speaks_no_other(self, tmp_path: Path, file: str, locale: str):
        with Client(REAL, tmp_path, locale=locale) as client:
            client.open(file, PROGRAM)
            (found,) = client.diagnostics(file)
            assert found["message"].startswith("`loss` has lost its graph")
