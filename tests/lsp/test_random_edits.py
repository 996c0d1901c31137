"""A short seeded run of `benchmarks/random_edits.py`: after every edit the server says what a fresh check says."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


def test_the_server_says_what_a_fresh_check_says() -> None:
    sys.path.insert(0, BENCHMARKS)
    try:
        import random_edits
    finally:
        sys.path.remove(BENCHMARKS)
    report = random_edits.run(150, seed=11, per=30)
    assert not report.wrong, "\n".join(report.wrong)
    assert report.edits == 150 and report.requests >= 150
    assert report.findings > 20, "texts without findings prove little"
