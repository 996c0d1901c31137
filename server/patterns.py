"""Patterns as in `.gitignore`, matched in reasonable time whatever they are.

pathspec turns a pattern into a regular expression in which every `*` may be given back, so that a pattern of a hostile
project (`*a*a*a*a*a*a*a*b`) keeps one long name busy for hours. But a text between two `*` may always be taken where it
is found first: if the rest fits at all, it fits behind that. Said to `re` by a look ahead, which gives nothing back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from typing import Any

from pathspec import GitIgnoreSpec

# What pathspec makes of `*`, of `**/` at the start and of `/**/` within.
STAR, FIRST, WITHIN = "[^/]*", "^(?:.+/)?", "(?:/.+)?"

_STARS = re.compile(rf"(?:{re.escape(STAR)})+")
_ATOM = rf"(?!{re.escape(STAR)})(?:\\.|\[\^?\]?[^\]]*\]|[^\\\[\]()/*+?{{}}|^$])"
_BETWEEN = re.compile(rf"{re.escape(STAR)}((?:{_ATOM})+)(?={re.escape(STAR)})")
_Pattern: Any = type(next(iter(GitIgnoreSpec.from_lines(["a"]).patterns)))


class _Linear(_Pattern):
    __slots__ = ()

    @classmethod
    def pattern_to_regex(cls, pattern: Any) -> tuple[Any, bool | None]:
        regex, include = super().pattern_to_regex(pattern)
        return (linear(regex) if isinstance(regex, str) else regex), include


def gitignore(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns of these lines. Raises ValueError for one that git would not understand."""
    return GitIgnoreSpec.from_lines(lines, _Linear)


def linear(regex: str) -> str:
    """The regular expression of a pattern, such that it matches the same and gives back nothing in vain."""
    regex = _STARS.sub(lambda _: STAR, regex)
    number = itertools.count()
    regex = _BETWEEN.sub(lambda found: _once(f"s{next(number)}", f"[^/]*?{found[1]}"), regex)
    *chunks, last = regex.split(WITHIN)
    if not chunks:
        return regex
    made = ""
    for index, chunk in enumerate(chunks):
        if index == 0 and chunk.startswith(FIRST):
            made += "^" + _once("d0", f"(?:.+?/)??{chunk[len(FIRST) :]}(?=/)")
        elif index == 0:
            made += chunk
        else:
            made += _once(f"d{index}", f"(?:/.+?)??{chunk}(?=/)")
    return f"{made}{WITHIN}{last}"


def _once(name: str, regex: str) -> str:
    """Matches `regex`, the first way that fits, and never another."""
    return f"(?=(?P<{name}>{regex}))(?P={name})"
