"""What the README and the other pages at the root say is so."""

from __future__ import annotations

import re
from pathlib import Path

from gradline.cli import _parser, why_arguments
from gradline.config import Configuration, find_rule

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def fences(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_settings_shown_are_settings(tmp_path):
    (text,) = fences("toml")
    (tmp_path / "pyproject.toml").write_text(text)
    settings = Configuration().for_folder(tmp_path.as_posix())
    assert settings.src == ("python",)
    rule = find_rule("no-grad-without-effect")
    assert rule and settings.severity_of(rule).value == "error"


def test_the_commands_shown_are_commands():
    lines = [line.split("#")[0] for fence in fences("sh") for line in fence.splitlines()]
    commands = [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("gradline ")]
    assert len(commands) >= 5
    offered = _parser().format_help()
    for command in commands:
        assert f"    {command.split()[1]} " in offered
        if command.split()[1] in ("server", "probe"):
            continue  # they have parsers of their own
        own, _ = why_arguments(command.split()[1:])
        _parser().parse_args(own)


def test_a_build_runs_the_test_command():
    command = fences("sh")[-1].strip()
    assert command.startswith("pip install -e ")
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_links_lead_somewhere():
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert target.startswith("https://") or (ROOT / target).exists(), f"{page}: {target}"
