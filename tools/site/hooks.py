"""MkDocs calls these while it builds the site: they add the pages that are made from the code.

Nothing is written into the source: a generated page lives in memory until the site holds it. See `mkdocs.yml`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import picture
import reference
import rule_pages

ROOT = Path(__file__).parents[2]
COMMENT = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)

# Pages of the root that are pages of the site, too, and what their links become.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
    "server/why/errors.md": "errors.md",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the rules into the navigation, family by family."""
    config.nav = [
        {"Rules": ["rules/index.md", *rule_pages.navigation()]} if entry == {"Rules": "rules/index.md"} else entry
        for entry in config.nav or []
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> dict[str, str]:
    """Every generated page by its path in the site's source."""
    made = {target: from_root(name) for name, target in ROOT_PAGES.items()}
    made["architecture.md"] = _with_picture(made["architecture.md"])
    made["images/architecture.svg"] = picture.draw()
    made["configuration.md"] = reference.page()
    made.update(rule_pages.pages())
    return made


def from_root(name: str) -> str:
    """A page of the repository's root with its links as they are in the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name == "LICENSE":
        return f"# License\n\n```text\n{text.strip()}\n```\n"

    def link(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        return f"]({ROOT_PAGES.get(target, target.removeprefix('docs/'))}{anchor})"

    return re.sub(r"\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)", link, text)


def _with_picture(text: str) -> str:
    head, rest = text.split("\n", 1)
    sketch, _, below = rest.partition("\n```\n\n")  # the sketch in characters is for terminals
    assert sketch.lstrip().startswith("```"), "ARCHITECTURE.md no longer begins with its sketch"
    return f"{head}\n\n![The parts of gradline, and what uses what](images/architecture.svg)\n\n{below}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Takes out what tells the tests how to run a block."""
    return COMMENT.sub("", markdown).replace("```python setup\n", "```python\n")
