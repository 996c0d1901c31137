"""gradline as a language server: translates between the Language Server Protocol and `check.py`.

No feature has logic of its own. What a finding, a hover, a token or an edit says comes from the engine through
`engine.py`; the modules here put it into the protocol's words and positions, one module per feature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine


def main(arguments: Sequence[str] = (), engine: Callable[[], Engine] | None = None) -> int:
    """Serves over stdin and stdout until the client says exit or goes away; returns the process's exit code.

    `arguments` may hold `--stdio`, which clients add by themselves. `engine` replaces the real one (for tests).
    """
    from .server import run

    return run(arguments, engine)
