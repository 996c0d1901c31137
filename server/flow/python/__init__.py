"""Python's own things: iteration, comprehensions, comparison, builtins, and the methods of lists, dicts and strings."""

from __future__ import annotations

from .builtins import BUILTINS, call_builtin, is_new
from .comparison import compare
from .comprehensions import comprehension
from .containers import call_container
from .iteration import Items, covered_by, first_name, iterate, one_by_one, unpacked

__all__ = [
    "BUILTINS", "Items", "call_builtin", "call_container", "compare", "comprehension", "covered_by", "first_name",
    "is_new", "iterate", "one_by_one", "unpacked",
]  # fmt: skip
