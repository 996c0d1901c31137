"""`gradline mcp`: the engine as tools of a coding assistant, over the Model Context Protocol.

`tools.py` is what each tool does and knows nothing of the protocol; `server.py` offers the tools by the official SDK,
which is an optional extra.
"""

from __future__ import annotations

import importlib.util
import sys

MISSING = "gradline: the MCP server needs the package `mcp`: install it with `pip install 'gradline[mcp]'`"
FAILURE = 2


def main() -> int:
    """Serve over standard input and output until the client goes; returns the exit code."""
    if importlib.util.find_spec("mcp") is None:
        print(MISSING, file=sys.stderr)
        return FAILURE
    if sys.stdin.isatty():
        print("gradline mcp: speaking MCP over standard input and output; an assistant starts this", file=sys.stderr)
    from ..messages import ENGLISH, use
    from .server import serve

    use(ENGLISH)  # what an assistant is told it reads, and tells on in the language of its user
    serve()
    return 0
