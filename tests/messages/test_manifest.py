"""The extension's manifest: VS Code shows its texts in the language of the window."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEY = re.compile(r"^%([\w.]+)%$")
LINKS = re.compile(r"\(command:[\w.]+\)|`[^`]*`")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SHOWN = {"title", "description", "markdownDescription", "enumDescriptions", "altText", "contextualTitle", "name"}


def texts(language: str) -> dict[str, str]:
    return json.loads((ROOT / f"package.nls{language}.json").read_text(encoding="utf-8"))


def shown(value: object, field: str = "") -> list[str]:
    """The texts of the manifest that people read."""
    if isinstance(value, dict):
        return [text for name, inner in value.items() for text in shown(inner, name)]
    if isinstance(value, list):
        return [text for inner in value for text in shown(inner, field)]
    return [value] if isinstance(value, str) and field in SHOWN else []


@pytest.fixture(scope="module")
def manifest() -> dict:
    return json.loads((ROOT / "package.json").read_text(encoding="utf-8"))


def test_every_text_of_the_manifest_can_be_translated(manifest):
    plain = [text for text in shown(manifest["contributes"]) if not KEY.match(text) and text != "gradline"]
    assert not plain, (
        "put these into package.nls.json and package.nls.zh-cn.json, under a key that stands here as %key%"
    )


def test_every_key_has_its_text_in_each_language(manifest):
    used = {key[1] for text in shown(manifest) if (key := KEY.match(text))}
    assert used == set(texts("")) == set(texts(".zh-cn"))


def test_chinese_stands_for_the_same():
    english = texts("")
    for key, chinese in texts(".zh-cn").items():
        assert CHINESE.search(chinese), key
        assert sorted(LINKS.findall(chinese)) == sorted(LINKS.findall(english[key])), key


SAID = re.compile(r'l10n\.t\(\s*("(?:[^"\\]|\\.)*")')
PLACES = re.compile(r"{\d}")


def test_every_text_of_the_client_has_chinese_and_there_is_no_other(manifest):
    sources = sorted((ROOT / "vscode-client" / "src").glob("*.ts"))
    said = {json.loads(text) for path in sources for text in SAID.findall(path.read_text(encoding="utf-8"))}
    bundle = json.loads((ROOT / manifest["l10n"] / "bundle.l10n.zh-cn.json").read_text(encoding="utf-8"))
    assert len(said) > 50
    assert said == set(bundle), "put it into vscode-client/l10n/bundle.l10n.zh-cn.json"
    for english, chinese in bundle.items():
        assert CHINESE.search(chinese) and sorted(PLACES.findall(english)) == sorted(PLACES.findall(chinese)), english


def test_the_texts_are_packed(manifest):
    packed = (ROOT / ".vscodeignore").read_text(encoding="utf-8").splitlines()
    assert {"!package.nls*.json", f"!{manifest['l10n'].removeprefix('./')}/*.json"} <= set(packed)
