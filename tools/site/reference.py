"""The configuration reference, made of the code: settings files, the command's options, the extension's settings."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from gradline.cli import _parser
from gradline.config import KEYS
from gradline.manual import parts
from gradline.probe.options import parser as probe_parser

ROOT = Path(__file__).parents[2]

# Environment variables that are for people; the probe has some of its own, between its two processes.
ENVIRONMENT = {
    "GRADLINE_CACHE_DIR": "the folder in which the last answers are kept, in place of the system's for caches",
    "GRADLINE_LANG": "the language of messages, `en` or `zh-cn`, whatever the terminal or the editor says",
    "GRADLINE_LOG": "how much the language server writes to stderr: `WARNING` (default), `INFO` or `DEBUG`",
    "GRADLINE_DEBUG": "set to `1`, a crash of gradline's own shows where it happened",
}
INTERNAL = "GRADLINE_PROBE"  # and what begins so


def page() -> str:
    """The whole page, Markdown."""
    return "\n".join(
        [
            "# Configuration",
            "",
            "This page is made from the code: what stands here is what gradline reads.",
            "",
            *settings(),
            *silencing(),
            *commands(),
            *editor(),
        ]
    )


def settings() -> list[str]:
    out = [
        "## Settings files",
        "",
        "Settings stand in `pyproject.toml` under `[tool.gradline]`, or, without that heading, in `gradline.toml` or",
        "`.gradline.toml`. The nearest file above a source file holds for it; several are not merged, unless one names",
        "another in `extend`. Paths and patterns are relative to the folder of the file they stand in, and patterns are",
        "written as in `.gitignore`. Rules are named by code (`GL101`), by name (`detached-loss`), by the beginning of a",
        "code (`GL1`, the family), or `ALL`; the closer of two names wins. The command line goes over the files.",
        "",
    ]
    for name, key in KEYS.items():
        out += [f"### `{name}` {{ #{name} }}", "", key.help, ""]
        default = (
            f"`{key.default}`" if key.default[:1] in '[{"tf' and not key.default.startswith("found") else key.default
        )
        out += [f"Default: {default}", "", "```toml", "[tool.gradline]", f"{name} = {key.example}", "```", ""]
    return out


def silencing() -> list[str]:
    text = (ROOT / "server" / "suppress.md").read_text(encoding="utf-8")
    section = text[text.index("## How findings are silenced") :].replace("## How", "## Comments: how", 1).strip()
    assert list(parts(section))
    return [section, "", "`gradline check --add-ignore` writes such a comment for everything that is found today.", ""]


def commands() -> list[str]:
    """Every subcommand with its options, as argparse knows them."""
    out = ["## The command line", ""]
    parser = _parser()
    found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    summaries = {action.dest: action.help or "" for action in found._choices_actions}
    out += ["| command | |", "| --- | --- |"]
    out += [f"| [`gradline {name}`](#gradline-{name}) | {_cell(summaries[name])} |" for name in found.choices]
    out.append("")
    for name, sub in found.choices.items():
        real = probe_parser() if name == "probe" else sub
        out += [f"### `gradline {name}` {{ #gradline-{name} }}", ""]
        out += [f"{_sentence(summaries[name])}", ""]
        rows = [row for group in real._action_groups for row in _rows(group)]
        if rows:
            out += ["| option | meaning |", "| --- | --- |", *rows, ""]
        else:
            out += ["It takes no options, and speaks over standard input and output.", ""]
    out += [
        "### Exit codes",
        "",
        "| code | `gradline check` |",
        "| --- | --- |",
        "| 0 | no error and no warning was found (or `--exit-zero`) |",
        "| 1 | errors or warnings were found |",
        "| 2 | the check could not be made as asked: the message on stderr says why |",
        "",
        "### Environment variables",
        "",
        "| variable | meaning |",
        "| --- | --- |",
        *(f"| `{name}` | {meaning} |" for name, meaning in ENVIRONMENT.items()),
        "",
    ]
    return out


def _rows(group: Any) -> list[str]:
    rows = []
    for action in group._group_actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        shown = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar or action.dest}`"
        if action.option_strings and action.nargs != 0:
            value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else action.dest.upper())
            shown = shown[:-1] + f" {value}`"
        rows.append(f"| {_cell(shown)} | {_cell(_help(action))} |")
    return rows


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default, "prog": "gradline"}
    choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
    if choices and action.metavar and action.help != ", ".join(map(str, action.choices or ())):
        text += f" ({choices})"
    return text


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def editor() -> list[str]:
    """The extension's settings; other editors send the first ones as `gradline` in their configuration."""
    package = json.loads(_filled((ROOT / "package.json").read_text(encoding="utf-8")))
    found = package["contributes"]["configuration"]
    blocks = found if isinstance(found, list) else [found]
    properties = {name: value for block in blocks for name, value in block["properties"].items()}
    out = ["## Visual Studio Code", "", "| setting | default | meaning |", "| --- | --- | --- |"]
    for name, value in sorted(properties.items(), key=lambda item: item[1].get("order", 99)):
        text = value.get("markdownDescription") or value.get("description", "")
        for choice, meaning in zip(value.get("enum", ()), value.get("enumDescriptions", ()), strict=False):
            text += f" `{choice}`: {meaning}"
        out.append(f"| `{name}` | `{json.dumps(value.get('default'))}` | {_cell(_links(text))} |")
    return [*out, "", "What other editors send is in [Editors](editors.md).", ""]


def _filled(manifest: str) -> str:
    """The manifest with its texts, which lie in a file of their own for each language."""
    texts = json.loads((ROOT / "package.nls.json").read_text(encoding="utf-8"))
    return re.sub(r'"%([\w.]+)%"', lambda key: json.dumps(texts[key[1]]), manifest)


def _links(text: str) -> str:
    """VS Code writes a reference to a setting as `#name#`."""
    words = text.split("`")
    return "`".join(word.strip("#") if word.startswith("#") and word.endswith("#") else word for word in words)
