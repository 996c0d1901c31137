"""`gradline rules` lists the rules, `gradline explain RULE` prints the page of one."""

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
    parser = command(commands, help_class, "explain", "explain a rule", explain)
    parser.add_argument("rule", metavar="RULE", help="its code or its name, such as GL101")
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
    name = max(len(rule.name) for rule in found)
    for rule in found:
        print(f"{rule.code}  {rule.name:<{name}}  {rule.severity.value:<7}  {rule.summary}")
    return OK


def explain(arguments: argparse.Namespace) -> int:
    from ..config import find_rule, rule_words, suggestion

    rule = find_rule(arguments.rule)
    if rule is None:
        hint = suggestion(arguments.rule, rule_words())
        print(f"gradline: unknown rule '{arguments.rule}'{hint} (`gradline rules` lists them)", file=sys.stderr)
        return FAILURE
    from ..manual import page as page_of
    from ..report.terminal import wants_color

    page = page_of(rule)

    if not wants_color(arguments.color, sys.stdout):
        print(page.rstrip())
        return OK
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(force_terminal=True, width=min(Console().width, 100))
    console.print(Markdown(page))
    return OK
