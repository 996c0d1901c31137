"""A small seeded run of `benchmarks/differential`: on random programs torch contradicts no claim."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
# Programs about which something was claimed that torch contradicted.
ONCE_WRONG = (1345, 101652, 200157, 300304, 403590, 403799, 404622, 503295)
FOLDER = str(Path(__file__).parents[1] / "benchmarks" / "differential")


def test_no_contradictions() -> None:
    sys.path.insert(0, FOLDER)
    try:
        import compare
    finally:
        sys.path.remove(FOLDER)
    report = compare.compare([*range(120), *ONCE_WRONG])
    assert not report.crashed
    assert not report.contradictions, "\n".join(map(str, report.contradictions[:10]))
    assert report.places > 3_000 and report.incomplete == 0
    assert report.unknown < 0.15 * report.places and report.unknown_mode < 0.15 * report.places


def test_it_would_notice() -> None:
    """A wrong claim is a contradiction, an unknown one is not."""
    sys.path.insert(0, FOLDER)
    try:
        import compare
        import generator
        import truth
        from claims import Claim, covers
    finally:
        sys.path.remove(FOLDER)
    files = {"helpers.py": "", "main.py": "import torch\nx = torch.ones(4, requires_grad=True).exp()\nx  # reveal\n"}
    shown, error = truth.run_batch([(0, files)])[0]
    (seen,) = shown["main.py", 3]
    assert not error and covers(Claim("attached", "many", "on"), seen) and covers(Claim("unknown", "?", "maybe"), seen)
    wrong = (("cut", "many", "on"), ("attached", "scalar", "on"), ("attached", "many", "off"), ("number", "?", "on"))
    assert not any(covers(Claim(*c), seen) for c in wrong)
    assert compare.Report().contradictions == [] and generator.program(1) == generator.program(1)
