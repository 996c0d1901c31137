"""gradline as a language server: translates between the Language Server Protocol and `check.py`.

No feature has logic of its own. What a finding, a hover, a token or an edit says comes from the engine through
`engine.py`; the modules here put it into the protocol's words and positions, one module per feature.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine

HELP = """\
usage: gradline server [--stdio]

Speak LSP with an editor, over standard input and output. Editors start this by
themselves; docs/editors.md says how to tell yours.

options:
  -h, --help  show this help message and exit
  --stdio     the only way there is; editors add it"""


def main(arguments: Sequence[str] = (), engine: Callable[[], Engine] | None = None) -> int:
    """Serves over stdin and stdout until the client says exit or goes away; returns the process's exit code.

    `arguments` may hold `--stdio`, which clients add by themselves. `engine` replaces the real one (for tests).
    """
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return 0
    # The protocol's types are hundreds of classes. Looking for garbage among them, now and ever after, finds none.
    gc.disable()
    try:
        from .server import run
    finally:
        gc.freeze()
        gc.enable()
    return run(arguments, engine)
