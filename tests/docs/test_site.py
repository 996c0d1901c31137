"""The documentation is built without a warning, is complete, and fetches nothing when it is read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytest.importorskip("material")
hooks = pytest.importorskip("hooks")  # it needs MkDocs

import picture  # noqa: E402
import reference  # noqa: E402
import rule_pages  # noqa: E402

from gradline.config import KEYS, catalog  # noqa: E402
from gradline.manual import UNSEEN  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: the command of CONTRIBUTING.md, into a folder of its own."""
    command = re.search(r"python (-m mkdocs build --strict)\b", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert command
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, *command[1].split(), "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Links(HTMLParser):
    """What a page links to and loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.add(given["src"])
        if tag == "link" and given.get("rel") != "canonical" and "href" in given:
            self.loads.add(given["href"])


def test_links_lead_somewhere_and_nothing_is_fetched(site: Path) -> None:
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > len(catalog())
    problems = []
    for path, page in pages.items():
        problems += [f"{path.name} loads {target}" for target in page.loads if re.match(r"(https?:)?//", target)]
        for target in page.links | page.loads:
            address, anchor = urldefrag(unquote(target))
            if re.match(r"https?://|data:|mailto:", address):
                continue
            there = (path.parent / address).resolve() if address else path
            if not there.is_file():
                problems.append(f"{path.name}: {target} leads nowhere")
            elif anchor and there in pages and anchor not in pages[there].anchors:
                problems.append(f"{path.name}: {target} has no such anchor")
    for style in site.rglob("*.css"):
        problems += [
            f"{style.name} loads {each}" for each in re.findall(r"url\((https?:[^)]+)", style.read_text("utf-8"))
        ]
    assert not problems, "\n".join(sorted(problems)[:40])


def test_every_fence_is_read_as_one(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert "<p>```" not in path.read_text(encoding="utf-8"), path.name


def test_each_rule_has_its_page_with_what_gradline_and_torch_say(site: Path) -> None:
    for rule in catalog().values():
        text = (site / "rules" / f"{rule.name}.html").read_text(encoding="utf-8")
        assert f"{rule.name} ({rule.code})" in text
        if rule.family:
            assert ("gradline says:" in text and f"[{rule.code}]</span>" in text) or f"[{rule.code}]" in text
    text = (site / "rules" / "detached-loss.html").read_text(encoding="utf-8")
    assert "RuntimeError: element 0 of tensors does not require grad" in text


def test_what_gradline_says_of_a_wrong_program_is_never_empty() -> None:
    for path, text in rule_pages.pages().items():
        if path == "rules/index.md":
            continue
        said = re.findall(r"^gradline says:\n\n```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert len(said) + text.count(UNSEEN) == len(re.findall(r"^#+ Wrong$", text, re.MULTILINE)), path
        code = re.search(r"\((GL\d{3})\)", text)
        assert code
        assert all(re.match(r"(error|warning|info|hint)\[GL\d\d\d\]", each) for each in said), path
        assert not said or any(code[1] in each for each in said), path


def test_the_search_knows_rules_and_settings(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    text = " ".join(f"{entry['title']} {entry['text']}" for entry in index["docs"])
    for rule in catalog().values():
        assert rule.name in text and rule.code in text
    for key in KEYS:
        assert key in text


def test_the_reference_has_every_option() -> None:
    from gradline.cli import _parser
    from gradline.probe.options import parser

    text = hooks.pages()["configuration.md"]
    for name in KEYS:
        assert f"### `{name}`" in text
    commands = next(action for action in _parser()._actions if action.dest == "command").choices
    for each in (*commands.values(), parser()):
        for action in each._actions:
            assert all(option in text for option in action.option_strings if option not in ("-h", "--help"))


def test_the_reference_has_every_environment_variable() -> None:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "server").rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\bGRADLINE_[A-Z_]+[A-Z]\b", text)}
    assert {name for name in named if not name.startswith(reference.INTERNAL)} == set(reference.ENVIRONMENT)


def test_the_picture_shows_every_part_and_only_arrows_that_are_imports() -> None:
    drawn = {name for box in picture.BOXES for name in box.modules}
    assert not picture.modules() - drawn, "tools/site/picture.py: put these into a box"
    assert not set(picture.USES) - picture.imports(), "no longer imports"
    for box in picture.shown():
        assert box.title.replace("'", "&#x27;") in picture.draw()


def test_pages_of_the_root_are_taken_over_whole() -> None:
    made = hooks.pages()
    for name, target in hooks.ROOT_PAGES.items():
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()[-3:]:
            assert "](" in line or line in made[target]
