"""A rule, and finding the rules: a rule is one `.py` and one `.md` of the same stem below `analyzers/`.

Nothing is registered: the folder is walked once. The module's docstring is the summary, its file name (with `-` for
`_`) the rule's name, `fix` in it means that the rule has a fix, and the page beside it is what `gradline explain`
prints, what hover links to, and what the tests are made of.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import quote

from .findings import Finding, Severity

if TYPE_CHECKING:
    from .edits import Fix, FixContext
    from .flow import Flow


@dataclass(frozen=True)
class Rule:
    """`code` is `GL` and three digits, never reused; the hundreds are the family."""

    code: str
    severity: Severity
    check: Callable[[Flow], Iterable[Finding]]
    fix: Callable[[Finding, FixContext], Fix | None] | None = None
    name: str = ""
    summary: str = ""
    family: str = ""

    @property
    def url(self) -> str:
        """Where the rule's page lies in this installation, as a `file:` address; empty if it is no analyzer's."""
        if not self.family:
            return ""
        package = importlib.import_module(f"{__package__}.analyzers.{self.family}")
        folder = package.__path__[0].replace("\\", "/").lstrip("/")
        return f"file:///{quote(folder, safe='/:')}/{self.name.replace('-', '_')}.md"

    def page(self) -> str:
        """The rule's page, Markdown."""
        stem = self.name.replace("-", "_")
        package = resources.files(f"{__package__}.analyzers.{self.family}")
        return (package / f"{stem}.md").read_text(encoding="utf-8")


@functools.cache
def rules() -> dict[str, Rule]:
    """Every rule by its code, in the order of the codes."""
    from . import analyzers

    found: dict[str, Rule] = {}
    for family in pkgutil.iter_modules(analyzers.__path__):
        if not family.ispkg:
            continue
        package = importlib.import_module(f"{analyzers.__name__}.{family.name}")
        for entry in pkgutil.iter_modules(package.__path__):
            if entry.name.startswith("_"):
                continue
            module = importlib.import_module(f"{package.__name__}.{entry.name}")
            rule: Rule = module.RULE
            if rule.code in found:
                raise ValueError(f"{rule.code} is both {found[rule.code].name} and {entry.name}")
            found[rule.code] = Rule(
                code=rule.code,
                severity=rule.severity,
                check=rule.check,
                fix=getattr(module, "fix", None),
                name=entry.name.replace("_", "-"),
                summary=(module.__doc__ or "").strip().split("\n")[0],
                family=family.name,
            )
    return dict(sorted(found.items()))


def find(word: str) -> Rule | None:
    """The rule with this code or this name, whatever the case; None if there is none."""
    word = word.strip().lower().replace("_", "-")
    return next((rule for rule in rules().values() if word in (rule.code.lower(), rule.name)), None)
