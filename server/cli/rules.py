"""`gradline rules` lists the rules, `gradline explain RULE` prints the page of one, or the list of a family."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from . import FAILURE, OK, command


def register(commands: Any, help_class: type[argparse.HelpFormatter]) -> None:
    parser = command(commands, help_class, "rules", "list all rules", list_rules)
    parser.add_argument(
        "--output-format", choices=("text", "json"), default="text", help="how to write them (default: text)"
    )
    parser = command(commands, help_class, "explain", "explain a rule or a family of rules", explain)
    parser.add_argument("rule", metavar="RULE", help="its code or its name, such as GL101; GL1 for a family")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")


def list_rules(arguments: argparse.Namespace) -> int:
    from ..config import catalog

    found = list(catalog().values())
    if arguments.output_format == "json":
        import json

        records = [
            {
                "code": rule.code,
                "name": rule.name,
                "summary": rule.summary,
                "severity": rule.severity.value,
                "family": rule.family or None,
                "fix": rule.fix is not None or not rule.family,
                "url": rule.url,
            }
            for rule in found
        ]
        json.dump(records, sys.stdout, indent=2, ensure_ascii=False)
        print()
        return OK
    from ..messages import told
    from ..report.full import LEVELS
    from ..report.terminal import cells

    name = max(len(rule.name) for rule in found)
    for rule in found:
        level = told(LEVELS[rule.severity])
        level += " " * (7 - cells(level))
        print(f"{rule.code}  {rule.name:<{name}}  {level}  {told(rule.summary)}")
    return OK


def explain(arguments: argparse.Namespace) -> int:
    from ..config import find_rule, rule_words, suggestion
    from ..families import page as family_page

    rule = find_rule(arguments.rule)
    if rule is None and (family := family_page(arguments.rule)) is not None:
        return _show(family, arguments.color)
    if rule is None:
        hint = suggestion(arguments.rule, rule_words())
        print(f"gradline: unknown rule '{arguments.rule}'{hint} (`gradline rules` lists them)", file=sys.stderr)
        return FAILURE
    from ..manual import page as page_of

    return _show(page_of(rule), arguments.color)


def _show(page: str, color: str) -> int:
    """Writes Markdown, on a terminal with its headings and lists drawn."""
    from ..report.terminal import wants_color

    if not wants_color(color, sys.stdout):
        print(page.rstrip())
        return OK
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(force_terminal=True, width=min(Console().width, 100))
    console.print(Markdown(page))
    return OK
