"""`gradline mcp`: serves the engine to a coding assistant."""

from __future__ import annotations

import argparse
from typing import Any

from . import command


def register(commands: Any, help_class: type[argparse.HelpFormatter]) -> None:
    command(commands, help_class, "mcp", "serve coding assistants over the Model Context Protocol", run)


def run(_: argparse.Namespace) -> int:
    from .. import mcp

    return mcp.main()
