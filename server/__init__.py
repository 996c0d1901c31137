"""Shows where a PyTorch program loses its gradients."""

from __future__ import annotations

__version__ = "0.1.0"  # as in pyproject.toml, package.json and CITATION.cff; `tools/package.py` compares them

TYPE_CHECKING = False  # importing it from typing would find a `typing.py` of the folder that `python -m` runs in
if TYPE_CHECKING:
    from typing import Any


def watch(*things: Any, **options: Any) -> Any:
    """`with gradline.watch(model, optimizer): ...` observes what runs inside and prints a report; see `probe.watch`."""
    from .probe.watch import Watch

    return Watch(*things, **options)
