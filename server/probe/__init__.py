"""`gradline probe`: run the user's real program through its first optimizer steps, and say what its gradients did.

The package has two halves. This one runs in gradline's own interpreter: options, verdicts, views. `agent/` runs in the
user's interpreter beside the program and knows nothing of gradline.
"""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """The command line; returns the exit code: 0 nothing found, 1 findings, 2 the run could not be made."""
    from .command import main as command

    return command(argv)
