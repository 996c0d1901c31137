"""Who else may read a name: for fixes that change what a name stands for."""

from __future__ import annotations

import re

from ..edits import FixContext


def read_elsewhere(context: FixContext, path: str, name: str) -> bool:
    """Whether another file speaks both of this file, by the last part of its module's name, and of the name."""
    folder, _, file = path.rpartition("/")
    stem = file.rpartition(".")[0]
    module = folder.rpartition("/")[2] if stem == "__init__" else stem
    both = [re.compile(rf"\b{re.escape(module)}\b"), re.compile(rf"\b{re.escape(name)}\b|import \*")]
    texts = (context.source(other).text for other in context.mentioning(module) if other != path)
    return any(all(word.search(text) for word in both) for text in texts)
